"""The word before `://` is no backend: neither registered in this process nor brought by an installed wheel.

## Most likely causes

- A typing error in the DSN.
- The wheel of a third party's backend is not installed in this environment.
- `sandboxio.register()` was called in another process, or after the `create()`.

## Fix

The hint lists what is there. Correct the name, install the wheel that brings it, or call `sandboxio.register()` first.
"""

import sandboxio

sandboxio.create_sync("dokcer://python:3.12-slim")
