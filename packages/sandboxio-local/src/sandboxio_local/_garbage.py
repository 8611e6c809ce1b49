"""Removing what is left of sandboxes whose warden was killed."""

from __future__ import annotations

import os
import signal
import time
from typing import Final

import anyio

from sandboxio.errors import ConnectError
from sandboxio_local._processes import alive, send, start_time
from sandboxio_local._record import MADE, groups_of
from sandboxio_local._state import StateDirectory
from sandboxio_local._warden import groups, session

__all__ = ["HELD_BOUND", "collect", "collect_abandoned", "collect_ended", "collect_soon"]

GONE_BOUND: Final = 1.0
"""Seconds for killed processes to be gone."""

HELD_BOUND: Final = GONE_BOUND + groups.REMOVE_BOUND + 1.0
"""Seconds for somebody else to remove a sandbox: what that takes at worst, and a little."""

GONE_PAUSE: Final = 0.005
"""Seconds between two looks at them."""

LOOKS: Final = 3
"""Looks without a find after which there is nobody. What a killed warden had started dies with it,
and what ends between the list of all processes and the look at it may have forked one that is not in
that list: in the next list there is the child, and the child's child in the one behind that."""


def collect(state: StateDirectory) -> bool | None:
    """Remove a sandbox that no warden looks after. Blocks; use a thread.

    Returns:
        Whether nothing is left; ``None`` if somebody else has its lock, or it is gone already.
    """
    lock = state.take_if_abandoned()
    if lock is None:
        return None
    try:
        left = state.processes()
        for pid, started in left.values():
            send(pid, started, signal.SIGKILL)
        deadline = time.monotonic() + GONE_BOUND
        while any(alive(*process) for process in left.values()) or not _session_is_empty(
            state, left
        ):
            if time.monotonic() > deadline:
                return False
            time.sleep(GONE_PAUSE)
        record = state.read(MADE)
        if record is not None and not groups.remove(groups_of(record)):
            return False
        state.remove()
    finally:
        os.close(lock)
    return True


def _session_is_empty(state: StateDirectory, left: dict[str, tuple[int, int]]) -> bool:
    """Kill what a warden had started and not yet noted; whether there was none."""
    pid, started = left.get("warden", (0, 0))
    # If the number means another process by now, the session had ended before.
    if pid == 0 or start_time(pid) not in (None, started):
        return True
    return all(session.kill_all(pid, state.id.encode()) for _ in range(LOOKS))


async def collect_soon(state: StateDirectory) -> bool | None:
    """Do what `collect` does, off the event loop."""
    if not state.path.exists():
        return True
    # A limiter of its own: those who use up the shared one may be waiting for this very end.
    return await anyio.to_thread.run_sync(collect, state, limiter=anyio.CapacityLimiter(1))


async def collect_ended(state: StateDirectory) -> None:
    """Remove a sandbox whose warden has ended.

    Whoever makes or lists sandboxes may be removing it just now, and has the lock until it is gone.

    Raises:
        ConnectError: Something is still there.
    """
    with anyio.move_on_after(HELD_BOUND):
        # An attempt of its own that fails has taken its time, and is not repeated.
        while await collect_soon(state) is None:  # noqa: ASYNC110 - the other one tells nobody
            await anyio.sleep(GONE_PAUSE)
    if state.path.exists():
        raise ConnectError(
            f"The sandbox {state.id} could not be ended: a process of it does not die.",
            hint=f"Look for processes in uninterruptible sleep; its state is in {state.path}.",
        )


async def collect_abandoned() -> None:
    """Remove every sandbox of this user that no warden looks after."""
    for state in list(StateDirectory.all()):
        lock = state.take_if_abandoned()
        if lock is not None:
            os.close(lock)
            await collect_soon(state)
