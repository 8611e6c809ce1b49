"""Stands in for E2B's code interpreter inside one sandbox: real Jupyter kernels, one per context.

One JSON object per line comes in on stdin and goes out on stdout, as in `envd.py`. An execution
sends any number of ``line`` messages before its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import Callable
from datetime import UTC
from queue import Empty
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

HOME = "/home/user"
READY_BOUND = 60.0  # seconds for a kernel to start
POLL = 0.25  # seconds between two looks whether a kernel still lives
KEYS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


class Refused(Exception):
    """A request that is answered with an HTTP status and a text."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


def emit(message: dict[str, Any]) -> None:
    """Write one line."""
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


class Context:
    """One kernel and its name."""

    def __init__(self, ident: str, cwd: str) -> None:
        self.ident = ident
        self.cwd = cwd
        self.lock = asyncio.Lock()
        self.generation = 0
        self.manager: Any = None
        self.client: AsyncKernelClient

    def described(self) -> dict[str, str]:
        return {"id": self.ident, "language": "python", "cwd": self.cwd}

    async def start(self, cwd: str) -> None:
        # Unix sockets: a denied sandbox has no network, and code in it shall not guess a port.
        self.manager = AsyncKernelManager(transport="ipc")
        name = f"/tmp/kernel-{uuid.uuid4().hex[:12]}"
        self.manager.connection_file = f"{name}.json"
        self.manager.ip = f"{name}-ipc"
        env = {**os.environ, "IPYTHONDIR": "/tmp/ipython", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
        await self.manager.start_kernel(
            cwd=cwd if os.path.isdir(cwd) else HOME,
            env=env,
            extra_arguments=["--HistoryManager.enabled=False"],
        )
        self.client = self.manager.client()
        self.client.start_channels()
        await self.client.wait_for_ready(timeout=READY_BOUND)

    async def restart(self) -> None:
        self.generation += 1
        await self.stop()
        await self.start(HOME)

    async def stop(self) -> None:
        self.client.stop_channels()
        await self.manager.shutdown_kernel(now=True)


contexts: dict[str, Context] = {}
defaults: dict[str, Context] = {}
running: dict[int, Context] = {}
starting = asyncio.Lock()


async def new_context(request: dict[str, Any]) -> Context:
    """Start a kernel."""
    language = (request.get("language") or "python").lower()
    if language != "python":
        raise Refused(500, f"Language {language} is not supported by this local server")
    context = Context(str(uuid.uuid4()), request.get("cwd") or HOME)
    await context.start(context.cwd)
    contexts[context.ident] = context
    return context


async def default(language: str) -> Context:
    """Return the context that executions without one share."""
    async with starting:
        if language not in defaults:
            defaults[language] = await new_context({"language": language})
        return defaults[language]


def known(request: dict[str, Any]) -> Context:
    """Return the context that a request names."""
    ident = request.get("context_id")
    if ident not in contexts:
        raise Refused(404, f"Context {ident} not found")
    return contexts[ident]


async def create(request: dict[str, Any]) -> Any:
    """Make a context."""
    return (await new_context(request)).described()


async def list_all(_request: dict[str, Any]) -> Any:
    """List contexts; the default one is there from the start."""
    await default("python")
    return [context.described() for context in contexts.values()]


async def restart(request: dict[str, Any]) -> Any:
    """Restart a context: its id stays, its state and its directory go."""
    await known(request).restart()


async def delete(request: dict[str, Any]) -> Any:
    """Remove a context."""
    context = known(request)
    del contexts[context.ident]
    for language in [key for key, value in defaults.items() if value is context]:
        del defaults[language]
    context.generation += 1
    await context.stop()


async def execute(request: dict[str, Any]) -> Any:
    """Run code and send what comes of it."""
    if request.get("context_id") and request.get("language"):
        raise Refused(400, "Only one of context_id or language can be provided")
    context = (
        known(request)
        if request.get("context_id")
        else await default((request.get("language") or "python").lower())
    )
    ident: int = request["id"]
    async with context.lock:
        running[ident] = context
        try:
            variables: dict[str, str] = request.get("env_vars") or {}
            await run(context, ident, environment(variables) + request["code"])
            if variables:
                names = ";".join(f"os.environ.pop('{name}', None)" for name in variables)
                await run(context, 0, f"import os;{names}")
        finally:
            running.pop(ident, None)


def environment(variables: dict[str, str]) -> str:
    """Return what the service puts before the code; it does not escape values, so neither do we."""
    if not variables:
        return ""
    lines = [f"os.environ['{name}'] = '{value}'" for name, value in variables.items()]
    return "\n".join(["import os", *lines, ""])


async def run(context: Context, ident: int, code: str) -> None:
    """Have a kernel execute code, and send lines until it is done."""
    generation = context.generation
    client = context.client
    asked = client.execute(code, store_history=ident != 0, allow_stdin=False)
    reply: asyncio.Task[str] = asyncio.create_task(answered(client, asked))
    idle = False

    def line(kind: str, **fields: Any) -> None:
        if ident:
            emit({"id": ident, "line": {"type": kind, **fields}})

    try:
        while not idle:
            try:
                message = await client.get_iopub_msg(timeout=POLL)
            except Empty:
                if context.generation != generation:
                    line("error", name="UnexpectedEndOfExecution", value=ENDED, traceback="")
                    return
                if not await context.manager.is_alive():
                    line("error", name="ContextRestarting", value=DIED, traceback="")
                    await context.restart()
                    return
                continue
            if message.get("parent_header", {}).get("msg_id") != asked:
                continue
            content = message["content"]
            if message["msg_type"] == "status":
                idle = content["execution_state"] == "idle"
            else:
                told(message["msg_type"], content, line)
        if await reply == "aborted":
            # So does the service: it waits for a status "abort", which Jupyter never sends.
            await asyncio.Event().wait()
    finally:
        reply.cancel()


ENDED = "Connection to the execution was closed before the execution was finished"
DIED = "The context was restarted because its kernel died"


async def answered(client: AsyncKernelClient, asked: str) -> str:
    """Return the status of an execution as the kernel's reply tells it."""
    while True:
        try:
            message = await client.get_shell_msg(timeout=POLL)
        except Empty:
            continue
        if message.get("parent_header", {}).get("msg_id") == asked:
            return str(message["content"]["status"])


def told(kind: str, content: dict[str, Any], line: Any) -> None:
    """Send what one message of a kernel says."""
    from datetime import datetime

    now = datetime.now(UTC).isoformat()
    if kind == "execute_input":
        line("number_of_executions", execution_count=content["execution_count"])
    elif kind == "stream":
        line(content["name"], text=content["text"], timestamp=now)
    elif kind == "error":
        line(
            "error",
            name=content["ename"],
            value=content["evalue"],
            traceback="".join(content["traceback"]),
        )
    elif kind in ("execute_result", "display_data"):
        fields: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for mime, data in content["data"].items():
            if mime in KEYS:
                fields[KEYS[mime]] = data
            else:
                extra[mime] = data
        text = fields.get("text")
        if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] == "'":
            fields["text"] = text[1:-1]
        line("result", **fields, extra=extra, is_main_result=kind == "execute_result")


OPERATIONS = {
    "create": create,
    "list": list_all,
    "restart": restart,
    "delete": delete,
    "execute": execute,
}


async def answer(request: dict[str, Any]) -> None:
    """Answer one request."""
    ident = request["id"]
    try:
        emit({"id": ident, "ok": await OPERATIONS[request["op"]](request)})
    except Refused as error:
        emit({"id": ident, "error": {"status": error.status, "text": error.text}})
    except Exception as error:
        emit({"id": ident, "error": {"status": 500, "text": f"{type(error).__name__}: {error}"}})


def forget(
    tasks: dict[int, asyncio.Task[None]], ident: int
) -> Callable[[asyncio.Task[None]], None]:
    """Return what drops a task that is done."""

    def drop(_task: asyncio.Task[None]) -> None:
        tasks.pop(ident, None)

    return drop


async def main() -> None:
    """Answer requests until stdin ends, then end all kernels."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 28)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: dict[int, asyncio.Task[None]] = {}
    emit({"ready": os.getpid()})
    while line := await reader.readline():
        request = json.loads(line)
        if request["op"] == "interrupt":
            # The lock is free before the kernel is interrupted: the service has that race too.
            task = tasks.get(request["execution"])
            if task is not None:
                context = running.get(request["execution"])
                task.cancel()
                if context is not None:
                    asyncio.get_running_loop().create_task(context.manager.interrupt_kernel())
            emit({"id": request["id"], "ok": None})
            continue
        task = asyncio.create_task(answer(request))
        tasks[request["id"]] = task
        task.add_done_callback(forget(tasks, request["id"]))
    for context in list(contexts.values()):
        await context.stop()


asyncio.run(main())
