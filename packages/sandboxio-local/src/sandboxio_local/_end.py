"""Ending a sandbox that another process may have made."""

from __future__ import annotations

import os
import signal
from typing import Final

import anyio

from sandboxio_local._garbage import collect_ended, collect_soon
from sandboxio_local._processes import open_process, send
from sandboxio_local._state import StateDirectory

__all__ = ["end"]

END_BOUND: Final = 3.5
"""Seconds for a warden to end its sandbox: what it allows itself, and a little to get there."""

START_BOUND: Final = 2.0
"""Seconds for a warden that is just being started to say who it is."""

PAUSE: Final = 0.005
"""Seconds between two looks at a state directory."""


async def end(state: StateDirectory) -> None:
    """Have the warden of a sandbox end it, and return when nothing of it is left.

    Raises:
        ConnectError: Something is still there.
    """
    with anyio.move_on_after(START_BOUND):
        while "warden" not in state.processes():
            await collect_soon(state)
            if not state.path.exists():
                return
            await anyio.sleep(PAUSE)
    warden = state.processes().get("warden")
    if warden is not None and not await _ask(*warden):
        for process in state.processes().values():
            send(*process, signal.SIGKILL)
    await collect_ended(state)


async def _ask(pid: int, started: int) -> bool:
    fd = open_process(pid, started)
    if fd is None:
        return True
    try:
        signal.pidfd_send_signal(fd, signal.SIGTERM)
        with anyio.move_on_after(END_BOUND):
            await anyio.wait_readable(fd)
            return True
    except ProcessLookupError:
        return True
    finally:
        os.close(fd)
    return False
