"""The end of the loop that E2B's SDK runs on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from sandboxio_e2b._portal import Loop, Portal

BOUND = 30.0

Hold = Callable[[], object]
"""Lets go of what a native thread holds."""


async def running() -> Loop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return loop


async def promised() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def hold_a_future(portal: Portal, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Hold what the SDK's HTTP client is to complete, as its native thread does."""
    return [await portal.call(promised)].clear


async def hold_a_call(portal: Portal, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Stand where a native thread waits for the interpreter, after it has woken the loop."""
    inside, go_on = threading.Event(), threading.Event()
    wake = loop._write_to_self  # type: ignore[attr-defined]

    def wake_and_wait() -> None:
        wake()
        if threading.current_thread() is native:
            inside.set()
            go_on.wait(BOUND)

    monkeypatch.setattr(loop, "_write_to_self", wake_and_wait)
    native = threading.Thread(target=partial(loop.call_soon_threadsafe, int))
    native.start()
    assert inside.wait(BOUND)
    return go_on.set


@pytest.mark.parametrize("hold", [hold_a_future, hold_a_call])
async def test_loop_ends_after_its_native_threads(
    hold: Callable[[Portal, Loop, pytest.MonkeyPatch], asyncio.Future[Hold]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, an interpreter that exits is aborted now and then."""
    portal = Portal()
    loop = await portal.call(running)
    let_go = await hold(portal, loop, monkeypatch)
    looks = threading.Semaphore(0)
    look = Loop._held

    def look_and_tell(loop: Loop) -> list[object]:
        looks.release()
        return list(look(loop))

    monkeypatch.setattr(Loop, "_held", look_and_tell)
    last = [portal]
    del portal
    ending = threading.Thread(target=last.clear)
    ending.start()
    for _ in range(3):
        assert looks.acquire(timeout=BOUND)
    assert not loop.is_closed()
    let_go()
    ending.join(BOUND)
    assert loop.is_closed()
