"""Many threads at once: one facade each, and one for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from sandboxio import Sandbox, create_sync

THREADS = 32

BOUND = 110.0
"""Seconds for all threads together on a busy machine."""


def in_threads(work: Callable[[int], object]) -> list[object]:
    """What `work` returns for each number, each in a thread of its own, all at the same time."""
    results: list[object] = [None] * THREADS
    ready = threading.Barrier(THREADS)

    def run(number: int) -> None:
        ready.wait(BOUND)
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error
            raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND)
    assert not any(thread.is_alive() for thread in threads)
    return results


@pytest.mark.slow
def test_a_facade_in_each_of_many_threads(
    host: str, portals: Callable[[], list[threading.Thread]]
) -> None:
    def work(number: int) -> object:
        with create_sync(host, timeout=100) as sandbox:
            sandbox.files.write("number", str(number))
            with sandbox.stream(["cat", "number"]) as process:
                data = b"".join(chunk.data for chunk in process)
            return int(data), int(sandbox.run(["cat", "number"]).stdout)

    assert in_threads(work) == [(number, number) for number in range(THREADS)]
    assert portals() == []


@pytest.mark.slow
def test_one_facade_for_many_threads(
    host: str, portals: Callable[[], list[threading.Thread]]
) -> None:
    with create_sync(host, timeout=100) as sandbox:

        def work(number: int) -> object:
            return [use(sandbox, number, turn) for turn in range(3)]

        assert in_threads(work) == [
            [f"{number} {turn}" for turn in range(3)] for number in range(THREADS)
        ]
        assert len(portals()) == 1


def use(sandbox: Sandbox, number: int, turn: int) -> str:
    text = f"{number} {turn}"
    if turn == 0:
        return sandbox.run(["echo", "-n", text]).stdout
    if turn == 1:
        with sandbox.stream(["echo", "-n", text]) as process:
            return b"".join(chunk.data for chunk in process).decode()
    sandbox.files.write(f"file {number}", text)
    return sandbox.files.read(f"file {number}").decode()
