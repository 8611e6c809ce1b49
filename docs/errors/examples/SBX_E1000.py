"""Something in the request itself is wrong, so it was refused before anything was created. The message names the argument.

## Most likely causes

- A `timeout` that is `None`, zero or negative at `create()`. Every sandbox has an end.
- An option in a DSN that the backend does not have, or a secret in one. A DSN takes a template and simple options.
- A tier in `require_isolation` that the backend cannot give.
- An environment name that no process can have, a path with a NUL byte, a command that is an empty list.
- A routing file with an unknown key, a literal secret or no `default_class`. The message names the line.

## Fix

Correct what the message names. Policy, caps, secrets and labels are arguments of `create()`, or fields of a typed
configuration such as `DockerConfig`: they do not fit into a DSN.
"""

import sandboxio

sandboxio.create_sync("local://", timeout=0)
