"""Programs about processes and the system: ``sleep``, ``env``, ``id`` and the like."""

from __future__ import annotations

import re
import signal
import stat
from collections.abc import Mapping
from datetime import UTC, datetime

from ..process import Proc, Steps, Wait
from .conditions import bracket, test
from .options import Tool, Unknown, options
from .printing import echo, printf
from .signals import kill, signal_number

__all__ = ["TOOLS"]

Args = tuple[str, ...]
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """Return a duration such as ``0.5``, ``2m`` or ``infinity``."""
    if text in ("inf", "infinity"):
        return float("inf")
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)", text)
    if match is None:
        raise Unknown(f"invalid time interval '{text}'")
    return float(match[1]) * UNITS[match[2]]


def sleep(proc: Proc, args: Args) -> Steps:
    """Let time pass."""
    if not args:
        raise Unknown("missing operand")
    yield from proc.sleep(sum(map(seconds_of, args)))
    return 0


def true(proc: Proc, args: Args) -> Steps:
    """Succeed."""
    yield from proc.tick()
    return 0


def false(proc: Proc, args: Args) -> Steps:
    """Fail."""
    yield from proc.tick()
    return 1


def env(proc: Proc, args: Args) -> Steps:
    """Show the environment, or run a program with another one."""
    rest = list(args)
    values = dict(proc.env)
    while rest:
        if rest[0] in ("-i", "-"):
            values = {}
        elif rest[0] == "-u" and len(rest) > 1:
            del rest[0]
            values.pop(rest[0], None)
        elif rest[0].startswith("-") and rest[0] != "--":
            raise Unknown(f"the fake's env has no option {rest[0]}")
        elif "=" in rest[0]:
            name, _, value = rest[0].partition("=")
            values[name] = value
        else:
            break
        del rest[0]
    if rest:
        return (yield from proc.exec(tuple(rest), values))
    yield from proc.write(1, "".join(f"{name}={value}\n" for name, value in values.items()))
    return 0


def printenv(proc: Proc, args: Args) -> Steps:
    """Show values of the environment."""
    if not args:
        return (yield from env(proc, ()))
    for name in args:
        if name not in proc.env:
            return 1
        yield from proc.write(1, proc.env[name] + "\n")
    return 0


def pwd(proc: Proc, args: Args) -> Steps:
    """Show the working directory."""
    yield from proc.write(1, proc.cwd + "\n")
    return 0


def id_(proc: Proc, args: Args) -> Steps:
    """Show the user, who has no rights."""
    found = options("id", args, flags="ungr")
    number = "user" if "n" in found.flags else "1000"
    short = bool(found.flags & {"u", "g"})
    yield from proc.write(1, f"{number}\n" if short else "uid=1000(user) gid=1000(user)\n")
    return 0


def whoami(proc: Proc, args: Args) -> Steps:
    """Show the user's name."""
    yield from proc.write(1, "user\n")
    return 0


def hostname(proc: Proc, args: Args) -> Steps:
    """Show the machine's name."""
    yield from proc.write(1, "sandbox\n")
    return 0


def uname(proc: Proc, args: Args) -> Steps:
    """Show the system's name."""
    found = options("uname", args, flags="snrma")
    parts = {"s": "Linux", "n": "sandbox", "r": "0.0.0-fake", "m": "x86_64"}
    wanted = parts if "a" in found.flags else [k for k in parts if k in found.flags] or ["s"]
    yield from proc.write(1, " ".join(parts[letter] for letter in wanted) + "\n")
    return 0


def date(proc: Proc, args: Args) -> Steps:
    """Show the time of the virtual clock, in UTC."""
    now = datetime.fromtimestamp(proc.tree.now(), UTC)
    form = next((arg[1:] for arg in args if arg.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    if any(arg != "-u" and not arg.startswith("+") for arg in args):
        raise Unknown("the fake's date takes -u and a +FORMAT only")
    form = form.replace("%N", f"{now.microsecond * 1000:09d}").replace(
        "%s", str(int(now.timestamp()))
    )
    yield from proc.write(1, now.strftime(form) + "\n")
    return 0


def setsid(proc: Proc, args: Args) -> Steps:
    """Run a program in a session, and so a process group, of its own."""
    found = options("setsid", args, flags="fw", stop_at_first=True)
    if not found.rest:
        raise Unknown("no command specified")
    command = tuple(found.rest)
    if proc.group == proc.pid or "f" in found.flags:
        child = proc.fork(lambda forked: _in_new_group(forked, command), command)
        return (yield from proc.wait_for(child)) if "w" in found.flags else 0
    return (yield from _in_new_group(proc, command))


def _in_new_group(proc: Proc, command: Args) -> Steps:
    proc.group = proc.pid
    return (yield from proc.exec(command))


def nohup(proc: Proc, args: Args) -> Steps:
    """Run a program that no hang-up ends."""
    if not args:
        raise Unknown("missing operand")
    proc.ignored.add(signal.SIGHUP)
    return (yield from proc.exec(args))


def timeout(proc: Proc, args: Args) -> Steps:
    """Run a program, and signal it when the time is over."""
    found = options("timeout", args, values="sk", stop_at_first=True)
    if len(found.rest) < 2:
        raise Unknown("missing operand")
    limit = seconds_of(found.rest[0])
    number = signal_number(found.values.get("s", "TERM")) or signal.SIGTERM
    command = tuple(found.rest[1:])
    child = proc.fork(lambda forked: forked.exec(command), command)
    child.group = child.pid
    until = proc.kernel.now() + (limit or float("inf"))
    yield from proc.block(Wait(lambda: child.status is not None, until))
    if child.status is not None:
        return child.status
    proc.kernel.signal(child, number)
    if "k" in found.values and child.status is None:
        more = proc.kernel.now() + seconds_of(found.values["k"])
        yield from proc.block(Wait(lambda: child.status is not None, more))
        proc.kernel.signal(child, signal.SIGKILL)
    yield from proc.wait_for(child)
    return 137 if number == signal.SIGKILL else 124


def ps(proc: Proc, args: Args) -> Steps:
    """List the processes."""
    yield from proc.write(1, "    PID COMMAND\n")
    for other in proc.kernel.living():
        yield from proc.write(1, f"{other.pid:>7} {' '.join(other.argv)}\n")
    return 0


def df(proc: Proc, args: Args) -> Steps:
    """Show how full the disk is, in kibibytes."""
    total = (proc.tree.used + proc.tree.free) // 1024
    used = proc.tree.used // 1024
    yield from proc.write(1, "Filesystem 1K-blocks Used Available Mounted on\n")
    yield from proc.write(1, f"fake {total} {used} {total - used} /\n")
    return 0


def unshare(proc: Proc, args: Args) -> Steps:
    """Ask for namespaces, which the kernel refuses."""
    return (yield from proc.complain("unshare failed: Operation not permitted"))


def which(proc: Proc, args: Args) -> Steps:
    """Show where a program is."""
    status = 0
    for name in args:
        for folder in proc.env.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":"):
            node = proc.tree.place(f"{folder}/{name}").node
            if node is not None and node.mode & stat.S_IXUSR:
                yield from proc.write(1, f"{folder}/{name}\n")
                break
        else:
            status = 1
    return status


TOOLS: Mapping[str, Tool] = {
    "[": bracket,
    "date": date,
    "df": df,
    "echo": echo,
    "env": env,
    "false": false,
    "hostname": hostname,
    "id": id_,
    "kill": kill,
    "nohup": nohup,
    "printenv": printenv,
    "printf": printf,
    "ps": ps,
    "pwd": pwd,
    "setsid": setsid,
    "sleep": sleep,
    "test": test,
    "timeout": timeout,
    "true": true,
    "uname": uname,
    "unshare": unshare,
    "which": which,
    "whoami": whoami,
}
