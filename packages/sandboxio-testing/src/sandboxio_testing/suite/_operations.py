"""Every operation that a sandbox has, for clauses that hold for all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from sandboxio.models import PIPE, Capability, Stdin
from sandboxio.protocols import AsyncSandbox

from ._probes import Probes

__all__ = ["NO_FILE", "Operation", "each_operation", "each_refusal"]

NO_FILE = "sandboxio-no-such-file"
"""A path in the sandbox at which there is nothing."""

Operation = Callable[[], Awaitable[object]]


def each_operation(
    sandbox: AsyncSandbox, probes: Probes, folder: Path, path: str = NO_FILE
) -> Iterator[tuple[str, Operation]]:
    """Return each operation with its name; those on files use `path`, transfers also `folder`."""
    local = folder / "local"
    local.write_bytes(b"content")

    async def stream() -> None:
        async with sandbox.stream(probes.exit(0)) as process:
            await process.wait()

    yield "run", lambda: sandbox.run(probes.exit(0))
    yield "run_code", lambda: sandbox.run_code("pass")
    yield "stream", stream
    yield "files.read", lambda: sandbox.files.read(path)
    yield "files.write", lambda: sandbox.files.write(path, b"content")
    yield "files.upload", lambda: sandbox.files.upload(local, path)
    yield "files.download", lambda: sandbox.files.download(path, folder / "target")
    yield "files.ls", lambda: sandbox.files.ls()
    yield "files.mkdir", lambda: sandbox.files.mkdir(path)
    yield "files.remove", lambda: sandbox.files.remove(path)
    yield "files.stat", lambda: sandbox.files.stat(path)


def each_refusal(
    sandbox: AsyncSandbox, probes: Probes, folder: Path
) -> Iterator[tuple[Capability, str, Operation]]:
    """Return each operation that needs a capability, with that capability."""
    operations = dict(each_operation(sandbox, probes, folder))

    async def stream() -> None:
        # The refusal has to come from stream() itself: entering it is not reached.
        sandbox.stream(probes.exit(0))

    async def send() -> None:
        async with sandbox.stream(probes.sleep(5)) as process:
            await process.send(b"x")

    async def signal() -> None:
        async with sandbox.stream(probes.sleep(5)) as process:
            await process.signal(15)

    yield Capability.RUN_CODE, "run_code()", operations["run_code"]
    if Capability.RUN_CODE in sandbox.capabilities:
        yield (
            Capability.STATEFUL_CODE,
            "run_code(context_id=...)",
            lambda: sandbox.run_code("pass", context_id="one"),
        )
    yield Capability.STREAMING, "stream()", stream
    for name in ("read", "write", "ls", "mkdir", "remove", "stat"):
        yield Capability.FILESYSTEM, f"files.{name}()", operations[f"files.{name}"]
    for name in ("upload", "download"):
        yield Capability.UPLOAD_DOWNLOAD, f"files.{name}()", operations[f"files.{name}"]

    async def stream_with(stdin: bytes | Stdin) -> None:
        sandbox.stream(probes.exit(0), stdin=stdin)

    yield Capability.STDIN, "run(stdin=...)", lambda: sandbox.run(probes.exit(0), stdin=b"x")
    if Capability.STREAMING in sandbox.capabilities:
        yield Capability.STDIN, "stream(stdin=...)", lambda: stream_with(b"x")
        yield Capability.STDIN, "stream(stdin=PIPE)", lambda: stream_with(PIPE)
        yield Capability.STDIN, "Process.send()", send
        yield Capability.STDIN, "Process.signal()", signal
