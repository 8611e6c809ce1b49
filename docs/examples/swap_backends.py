"""One program for every backend: only the line that creates the sandbox says which.

    python docs/examples/swap_backends.py [DSN]

It prints the same for ``fake://``, ``local://``, ``docker://`` and ``e2b://``.
"""

from __future__ import annotations

import sys

import anyio

import sandboxio
from sandboxio import AsyncSandbox, ExecutionTimeout, PathNotFound


async def show(sandbox: AsyncSandbox) -> None:
    """Use what every backend has: commands, files, streams, code, deadlines and errors."""
    done = await sandbox.run(["echo", "two words", "$HOME"])
    print("echo:", done.exit_code, repr(done.stdout))

    done = await sandbox.run("echo out; echo err >&2; exit 3")
    print("shell:", done.exit_code, repr(done.stdout), repr(done.stderr))

    await sandbox.files.write("words.txt", "b a b\nc b a\n")
    print("files:", [(info.path, info.size) for info in await sandbox.files.ls()])
    print("read:", await sandbox.files.read("words.txt"))

    done = await sandbox.run(["cat"], stdin="given\n")
    print("stdin:", repr(done.stdout))

    done = await sandbox.run("echo $GREETING", env={"GREETING": 'it\'s "me"'})
    print("env:", repr(done.stdout))

    received = b""
    async with sandbox.stream(["cat", "words.txt"]) as process:
        async for chunk in process:
            received += chunk.data
    print("stream:", process.returncode, received)

    try:
        await sandbox.run(["sleep", "60"], timeout=0.5)
    except ExecutionTimeout as error:
        print("deadline:", error.code, error.kill_confirmed)

    try:
        await sandbox.files.read("missing.txt")
    except PathNotFound as error:
        print("missing:", error.code, error.path)


async def main(dsn: str) -> None:
    """Create a sandbox, use it, and leave nothing."""
    async with await sandboxio.create(dsn, timeout=120) as sandbox:
        await show(sandbox)
    print("left")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "local://")
