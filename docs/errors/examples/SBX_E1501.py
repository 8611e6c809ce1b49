"""A credential is missing, or the provider refused it. The hint names the variable; no message ever shows its value.

## Most likely causes

- The variable is not set in the environment of this very process.
- The key was revoked, is for another team, or has expired.
- The key was put into a DSN or a configuration. It is read from the environment only.

## Fix

Set the variable that the hint names. A router takes other names too: `api_key: os.environ/NAME`.
"""

import os

import sandboxio

os.environ.pop("E2B_API_KEY", None)

sandboxio.create_sync("e2b://")
