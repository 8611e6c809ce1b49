"""Why a container ended, or why its stream did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from sandboxio.errors import OutOfMemory, SandboxError, SandboxGone, SandboxUnreachable

if TYPE_CHECKING:
    from ._client import Engine

__all__ = ["examine"]

EXAMINATION_BOUND = 12.0
"""Seconds to learn why. The answer only makes an error better, and somebody waits for that."""

SETTLE = 0.05
"""Seconds between two looks at a container that has lost its stream and does not look ended yet."""

OOM_BOUND = 3.0
"""Seconds for the engine to tell that memory was used up, of a container that was killed by a signal
which nobody sent through the engine. It learns of both in either order."""

KILLED = "137"
"""What the engine says that such a container exited with."""

SETTLE_BOUND = 6.0
"""Seconds for the engine to notice the end of a container whose stream has ended already; on a busy
machine it takes more than one."""


async def examine(engine: Engine, ref: str, *, memory_mb: float | None) -> SandboxError | None:
    """Return why the stream to a container ended; ``None`` if it ended by itself, as guests do."""
    with anyio.move_on_after(EXAMINATION_BOUND):
        try:
            return await _examine(engine, ref, memory_mb)
        except SandboxUnreachable as error:
            return error
        except SandboxError:
            return None  # it answered, and knows nothing better
    return SandboxUnreachable(
        f"The connection to the sandbox is lost, and the Docker Engine at {engine.endpoint} did "
        f"not say within {EXAMINATION_BOUND:g} s what became of it."
    )


async def _examine(engine: Engine, ref: str, memory_mb: float | None) -> SandboxError | None:
    found: dict[str, Any] | None = None
    with anyio.move_on_after(SETTLE_BOUND) as settling:
        # The engine has no call that waits for an end and is bounded.
        while (found := await engine.inspect(ref)) is not None and found["State"]["Running"]:  # noqa: ASYNC110
            await anyio.sleep(SETTLE)
    if settling.cancelled_caught:
        return SandboxUnreachable(
            "The connection to the sandbox is lost; its container still runs.",
            hint="Attach to it again with sandboxio.connect().",
        )
    happened = await _what_happened(engine, ref)
    # First, as a container of which a command was killed for its memory counts as "oom" for ever.
    if "kill" in happened:
        return SandboxGone("The sandbox was killed or removed through the Docker Engine.")
    if "oom" in happened or (found is not None and found["State"].get("OOMKilled")):
        return OutOfMemory(
            "The sandbox was ended: its memory was used up.",
            limit="memory_mb",
            value=memory_mb,
        )
    return None


async def _what_happened(engine: Engine, ref: str) -> set[str]:
    events = await engine.events(ref)
    with anyio.move_on_after(OOM_BOUND):
        while _may_be_out_of_memory(events):
            await anyio.sleep(SETTLE)
            events = await engine.events(ref)
    return _actions(events)


def _actions(events: list[dict[str, Any]]) -> set[str]:
    return {str(event.get("Action", "")) for event in events}


def _may_be_out_of_memory(events: list[dict[str, Any]]) -> bool:
    """Whether it was killed, and nothing says yet by what."""
    killed = any(event["Actor"]["Attributes"].get("exitCode") == KILLED for event in events)
    return killed and _actions(events).isdisjoint({"kill", "oom"})
