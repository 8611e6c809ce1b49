"""The warden: one small process per sandbox that outlives its creator and ends the sandbox.

It is started with ``python -I -S`` and imports little, because its start is part of every create:
no ``json``, ``signal``, ``socket``, ``pathlib`` or ``contextlib``. Everything is decided by its creator, who is
trusted, and arrives as ``name=value`` arguments; nothing of it is secret.
"""
