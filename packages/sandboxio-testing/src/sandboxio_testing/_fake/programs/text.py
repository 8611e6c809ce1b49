"""Programs that pass text on: ``cat``, ``head``, ``tail``, ``wc``, ``seq``, ``yes`` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping

from ..handles import open_node
from ..process import Proc, Program, Steps, Wait
from .options import Options, Tool, Unknown, options
from .printing import unescaped

__all__ = ["TOOLS"]

Args = tuple[str, ...]
BLOCK = 65536


def inputs(proc: Proc, paths: list[str]) -> Generator[Wait, None, list[int] | None]:
    """Open files to read from; ``None`` once a complaint was made. No path means stdin."""
    if not paths:
        return [0]
    fds: list[int] = []
    for number, path in enumerate(paths):
        if path == "-":
            fds.append(0)
            continue
        try:
            handle = open_node(proc.tree, path, proc.cwd, "r")
        except OSError as error:
            yield from proc.complain(f"{path}: {error.strerror}")
            return None
        proc.open_as(10 + number, handle)
        fds.append(10 + number)
    return fds


def everything(proc: Proc, paths: list[str]) -> Generator[Wait, None, bytes | None]:
    """Return the content of all inputs."""
    fds = yield from inputs(proc, paths)
    if fds is None:
        return None
    data = b""
    for fd in fds:
        data += yield from proc.read_all(fd)
    return data


def cat(proc: Proc, args: Args) -> Steps:
    """Copy files, or stdin, to stdout; a missing one is told and the others follow."""
    found = options("cat", args, flags="u")
    status = 0
    for path in found.rest or ["-"]:
        if path != "-":
            try:
                proc.open_as(10, open_node(proc.tree, path, proc.cwd, "r"))
            except OSError as error:
                status = yield from proc.complain(f"{path}: {error.strerror}")
                continue
        while data := (yield from proc.read(0 if path == "-" else 10, BLOCK)):
            yield from proc.write(1, data)
    return status


def count_of(found: Options, letter: str, default: str) -> tuple[str, int]:
    """Return the sign and the value of a count such as ``+5`` or ``10k``."""
    text = found.values.get(letter, default)
    match = re.fullmatch(r"([-+]?)(\d+)([kKmMgG]?)", text)
    if match is None:
        raise Unknown(f"invalid number: {text!r}")
    scale = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}[match[3].lower()]
    return match[1], int(match[2]) * scale


def with_short_counts(args: Args) -> Args:
    """Turn ``-5`` into ``-n 5``."""
    return tuple(
        piece
        for arg in args
        for piece in (("-n", arg[1:]) if re.fullmatch(r"-\d+", arg) else (arg,))
    )


def head(proc: Proc, args: Args) -> Steps:
    """Copy the first lines or bytes, and read no further."""
    found = options("head", with_short_counts(args), values="nc")
    by_bytes = "c" in found.values
    sign, left = count_of(found, "c" if by_bytes else "n", "10")
    if sign:
        raise Unknown("the fake's head counts from the beginning only")
    fds = yield from inputs(proc, found.rest)
    if fds is None:
        return 1
    for fd in fds:
        while left > 0 and (
            data := (yield from proc.read(fd, min(BLOCK, left) if by_bytes else BLOCK))
        ):
            if not by_bytes:
                lines = data.split(b"\n")
                if len(lines) > left:
                    data = b"\n".join(lines[:left]) + b"\n"
                left -= data.count(b"\n")
            else:
                left -= len(data)
            yield from proc.write(1, data)
    return 0


def tail(proc: Proc, args: Args) -> Steps:
    """Copy the last lines or bytes; with ``-f``, go on for ever."""
    found = options("tail", with_short_counts(args), flags="fF", values="nc")
    by_bytes = "c" in found.values
    sign, count = count_of(found, "c" if by_bytes else "n", "10")
    fds = yield from inputs(proc, found.rest)
    if fds is None:
        return 1
    data = b""
    for fd in fds:
        data += yield from proc.read_all(fd)
    if by_bytes:
        data = data[max(0, count - 1) :] if sign == "+" else data[max(0, len(data) - count) :]
    else:
        lines = data.splitlines(keepends=True)
        lines = lines[max(0, count - 1) :] if sign == "+" else lines[max(0, len(lines) - count) :]
        data = b"".join(lines)
    yield from proc.write(1, data)
    while found.flags & {"f", "F"}:
        yield from proc.sleep(1)
        yield from proc.write(1, (yield from proc.read(fds[-1])))
    return 0


def wc(proc: Proc, args: Args) -> Steps:
    """Count lines, words and bytes."""
    found = options("wc", args, flags="lwcm")
    fds = yield from inputs(proc, found.rest)
    if fds is None:
        return 1
    lines = words = size = 0
    rest = b""
    for fd in fds:
        while data := (yield from proc.read(fd, BLOCK)):
            lines += data.count(b"\n")
            size += len(data)
            pieces = (rest + data).split()
            rest = pieces.pop() if pieces and not data[-1:].isspace() else b""
            words += len(pieces)
            if len(rest) > BLOCK:
                rest = b"x"
    words += bool(rest)
    shown = {"l": lines, "w": words, "c": size, "m": size}
    wanted = [letter for letter in "lwcm" if letter in found.flags] or ["l", "w", "c"]
    name = f" {found.rest[0]}" if len(found.rest) == 1 else ""
    numbers = [str(shown[letter]) for letter in wanted]
    if len(numbers) > 1:
        width = len(str(size)) if found.rest else 7
        numbers = [number.rjust(width) for number in numbers]
    yield from proc.write(1, " ".join(numbers) + name + "\n")
    return 0


def seq(proc: Proc, args: Args) -> Steps:
    """Count."""
    found = options("seq", args, values="s", negative_numbers=True)
    separator = found.values.get("s", "\n")
    try:
        numbers = [int(text) for text in found.rest]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3:
        return (yield from proc.complain("the fake's seq takes one to three whole numbers"))
    first = numbers[0] if len(numbers) > 1 else 1
    step = numbers[1] if len(numbers) > 2 else 1
    last = numbers[-1]
    if step == 0:
        return (yield from proc.complain("invalid Zero increment value: '0'"))
    batch: list[str] = []
    counting = range(first, last + (1 if step > 0 else -1), step)
    for position, number in enumerate(counting):
        end = "\n" if position == len(counting) - 1 else separator
        batch.append(f"{number}{end}")
        if len(batch) == 4096:
            yield from proc.write(1, "".join(batch))
            batch.clear()
    yield from proc.write(1, "".join(batch))
    return 0


def yes(proc: Proc, args: Args) -> Steps:
    """Write a line for ever."""
    line = (" ".join(args) or "y").encode("utf-8", "surrogateescape") + b"\n"
    block = line * max(1, 8192 // len(line))
    while True:
        yield from proc.write(1, block)


def sort(proc: Proc, args: Args) -> Steps:
    """Sort lines by their bytes."""
    found = options("sort", args, flags="rnu")
    data = yield from everything(proc, found.rest)
    if data is None:
        return 2
    lines = data.splitlines()
    if "n" in found.flags:
        lines.sort(key=_leading_number, reverse="r" in found.flags)
    else:
        lines.sort(reverse="r" in found.flags)
    if "u" in found.flags:
        lines = list(dict.fromkeys(lines))
    yield from proc.write(1, b"".join(line + b"\n" for line in lines))
    return 0


def _leading_number(line: bytes) -> tuple[int, bytes]:
    match = re.match(rb"\s*(-?\d+)", line)
    return (int(match[1]) if match else 0, line)


def grep(proc: Proc, args: Args) -> Steps:
    """Show lines that match; patterns are those of Python, as far as both agree."""
    found = options("grep", args, flags="qcvFiEnxla", values="e")
    if "e" in found.values:
        found.rest.insert(0, found.values["e"])
    if not found.rest:
        return (yield from proc.complain("a pattern is missing", 2))
    text = found.rest[0]
    pattern = re.escape(text) if "F" in found.flags else text
    pattern = f"(?:{pattern})\\Z" if "x" in found.flags else pattern
    try:
        rule = re.compile(os.fsencode(pattern), re.IGNORECASE if "i" in found.flags else 0)
    except re.error as error:
        return (yield from proc.complain(f"{text}: {error}", 2))
    search = rule.match if "x" in found.flags else rule.search
    if "l" in found.flags:
        return (yield from _files_with(proc, found.rest[1:], search))
    data = yield from everything(proc, found.rest[1:])
    if data is None:
        return 2
    matching = [
        (number, line)
        for number, line in enumerate(data.splitlines(), 1)
        if bool(search(line)) != ("v" in found.flags)
    ]
    if "q" not in found.flags:
        shown = b"".join(
            (b"%d:" % number if "n" in found.flags else b"") + line + b"\n"
            for number, line in matching
        )
        shown = b"%d\n" % len(matching) if "c" in found.flags else shown
        yield from proc.write(1, shown)
    return int(not matching)


def _files_with(
    proc: Proc, paths: list[str], search: Callable[[bytes], re.Match[bytes] | None]
) -> Steps:
    status = 1
    for path in paths:
        try:
            node = proc.tree.file(path, proc.cwd)
        except OSError as error:
            yield from proc.complain(f"{path}: {error.strerror}")
            continue
        if any(search(line) for line in bytes(node.data).splitlines()):
            yield from proc.write(1, path + "\n")
            status = 0
    return status


def xargs(proc: Proc, args: Args) -> Steps:
    """Run a program with the words of stdin as arguments, some hundred at once."""
    found = options("xargs", args, flags="r", values="n", stop_at_first=True)
    command = tuple(found.rest) or ("echo",)
    words = (yield from proc.read_all(0)).split()
    size = int(found.values.get("n", "500"))
    status = 0
    starts = range(0, len(words), size) if words or "r" in found.flags else (0,)
    for start in starts:
        argv = (*command, *map(os.fsdecode, words[start : start + size]))
        child = proc.fork(_running(argv), argv)
        status = (yield from proc.wait_for(child)) or status
    return 123 if 0 < status < 126 else status


def _running(argv: Args) -> Program:
    return lambda proc: proc.exec(argv)


def tee(proc: Proc, args: Args) -> Steps:
    """Copy stdin to files and to stdout."""
    found = options("tee", args, flags="a")
    for number, path in enumerate(found.rest):
        flags = "a" if "a" in found.flags else "w"
        proc.open_as(10 + number, open_node(proc.tree, path, proc.cwd, flags))
    while data := (yield from proc.read(0, BLOCK)):
        yield from proc.write(1, data)
        for number in range(len(found.rest)):
            yield from proc.write(10 + number, data)
    return 0


def tr(proc: Proc, args: Args) -> Steps:
    """Replace or delete single characters."""
    found = options("tr", args, flags="ds")
    sets = [_characters(text) for text in found.rest]
    deletes, squeezes = "d" in found.flags, "s" in found.flags
    if len(sets) != (1 if found.flags else 2) or not all(sets) or (deletes and squeezes):
        return (yield from proc.complain("the fake's tr takes 'tr [-d|-s] SET' or 'tr SET SET'"))
    table = bytes(range(256))
    if squeezes:
        rule = re.compile(b"([" + re.escape(sets[0]) + b"])\\1+")
        data = yield from proc.read_all(0)
        yield from proc.write(1, rule.sub(rb"\1", data))
        return 0
    if not deletes:
        longer = sets[1] + sets[1][-1:] * (len(sets[0]) - len(sets[1]))
        table = bytes.maketrans(sets[0], longer[: len(sets[0])])
    while data := (yield from proc.read(0, BLOCK)):
        yield from proc.write(1, data.translate(table, sets[0] if deletes else b""))
    return 0


def _characters(text: str) -> bytes:
    raw = unescaped(text)
    return re.sub(rb"(.)-(.)", lambda m: bytes(range(m[1][0], m[2][0] + 1)), raw, flags=re.DOTALL)


TOOLS: Mapping[str, Tool] = {
    "cat": cat,
    "grep": grep,
    "head": head,
    "seq": seq,
    "sort": sort,
    "tail": tail,
    "tee": tee,
    "tr": tr,
    "wc": wc,
    "xargs": xargs,
    "yes": yes,
}
