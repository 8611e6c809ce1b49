"""``kill``, and the names of signals."""

from __future__ import annotations

import signal

from ..process import Died, Proc, Steps

__all__ = ["kill", "signal_number"]


def signal_number(name: str) -> int | None:
    """Return the number of a signal's name or number."""
    if name.isdigit():
        return int(name) if int(name) < 65 else None
    try:
        return signal.Signals[f"SIG{name.upper().removeprefix('SIG')}"].value
    except KeyError:
        return None


def kill(proc: Proc, args: tuple[str, ...]) -> Steps:
    """Send a signal to processes; a negative number means a process group."""
    yield from proc.tick()
    rest = list(args)
    number: int | None = signal.SIGTERM
    if rest[:1] == ["-l"]:
        yield from proc.write(
            1, " ".join(s.name.removeprefix("SIG") for s in signal.Signals) + "\n"
        )
        return 0
    if rest[:1] == ["-s"] and len(rest) > 1:
        number = signal_number(rest[1])
        del rest[:2]
    elif rest and rest[0].startswith("-") and len(rest) > 1:
        number = signal_number(rest.pop(0)[1:])
    if rest[:1] == ["--"]:
        del rest[0]
    if number is None or not rest:
        return (yield from proc.complain("kill: no such signal, or no process named", 2))
    status = 0
    for target in rest:
        if not target.lstrip("-").isdigit():
            status = yield from proc.complain(f"kill: Illegal number: {target}", 2)
        elif not _sent(proc, int(target), number):
            status = yield from proc.complain("kill: No such process")
    if proc.status is not None:
        raise Died(number)
    return status


def _sent(proc: Proc, target: int, number: int) -> bool:
    kernel = proc.kernel
    if target < 0:
        return kernel.signal_group(-target, number)
    if target == 0:
        return kernel.signal_group(proc.group, number)
    found = kernel.get(target)
    if found is None:
        return False
    kernel.signal(found, number)
    return True
