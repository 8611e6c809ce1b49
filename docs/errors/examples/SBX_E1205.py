"""The backend, or the way to it, does not answer. Whether the sandbox still exists is not known.

## Most likely causes

- No Docker daemon runs here, or the one that answers belongs to another user.
- `DOCKER_HOST` or the current Docker context points elsewhere.
- The provider's service, or the network to it, is down.
- The connection to a sandbox broke; what ran over it was killed.

## Fix

The message says which address was tried, and where it came from. Start the daemon, or correct the address. `retryable`
is true: the same call may succeed later.
"""

import sandboxio
from sandboxio_docker import DockerConfig

sandboxio.create_sync(DockerConfig(host="unix:///run/no-engine-here.sock"))
