"""MCP over the process's own stdin and stdout.

The guarantee: nothing but protocol reaches stdout, and the server ends, sandbox first, when stdin
is closed, when nobody reads stdout any more, or on SIGTERM, SIGINT and SIGHUP. The SDK's own
transport reads in a thread that no signal can interrupt, so this one waits for the descriptor
instead.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp.types import PARSE_ERROR, ErrorData, JSONRPCError, jsonrpc_message_adapter

from ._signals import Stopped, stop_on_signal
from ._wire import Wire
from ._workspace import Workspace

__all__ = ["serve_stdio"]

logger = logging.getLogger(__name__)

LONGEST_LINE = 16 * 1024 * 1024
"""Bytes of one message from the client; more is no request to a sandbox."""

READ_SIZE = 64 * 1024
"""Bytes of one read: the capacity of a pipe."""

LAST_WORDS = 1.0
"""Seconds for what is still to be written when the connection ends; a client may not be reading."""


async def serve_stdio(server: Server[Workspace], wire: Wire) -> int:
    """Serve one client until it leaves; return the exit code."""
    stopped = Stopped()
    async with stop_on_signal(stopped), _streams(wire) as (received, to_send):
        await server.run(received, to_send, server.create_initialization_options())
    return stopped.exit_code


@asynccontextmanager
async def _streams(
    wire: Wire,
) -> AsyncGenerator[
    tuple[
        MemoryObjectReceiveStream[SessionMessage | Exception],
        MemoryObjectSendStream[SessionMessage],
    ],
    None,
]:
    received_in, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_send, to_send_out = anyio.create_memory_object_stream[SessionMessage](0)
    async with received_in, received, to_send, to_send_out, anyio.create_task_group() as group:
        written = anyio.Event()

        async def read() -> None:
            async with received_in:
                async for line in _lines(wire.stdin):
                    await _take(line, received_in, to_send)

        async def write() -> None:
            try:
                async with to_send_out:
                    async for message in to_send_out:
                        text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                        await _write(wire.stdout, text.encode() + b"\n")
            except OSError as error:
                # Nobody reads: the connection is over, as it is when stdin is closed.
                logger.info("stdout: %s", error)
                await received_in.aclose()
            finally:
                written.set()

        group.start_soon(read)
        group.start_soon(write)
        yield received, to_send
        await to_send.aclose()
        with anyio.move_on_after(LAST_WORDS):
            await written.wait()
        group.cancel_scope.cancel()


async def _take(
    line: bytes,
    received_in: MemoryObjectSendStream[SessionMessage | Exception],
    to_send: MemoryObjectSendStream[SessionMessage],
) -> None:
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # JSON-RPC answers what it cannot read, so that a client's fault is not a silence to it.
        error = ErrorData(code=PARSE_ERROR, message="This line is not a JSON-RPC message.")
        answer = SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=error))
        try:
            await to_send.send(answer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            logger.debug("the connection is over")
        return
    try:
        await received_in.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        logger.debug("the connection is over")


async def _lines(descriptor: int) -> AsyncGenerator[bytes, None]:
    """Yield lines that are not empty, until the end; a line that is too long is the end, too."""
    buffer = bytearray()
    searched = 0
    while True:
        await _until(anyio.wait_readable, descriptor)
        data = os.read(descriptor, READ_SIZE)
        if not data:
            return
        buffer += data
        while (end := buffer.find(b"\n", searched)) >= 0:
            line = bytes(buffer[:end]).strip()
            del buffer[: end + 1]
            searched = 0
            if line:
                yield line
        searched = len(buffer)
        if searched > LONGEST_LINE:
            logger.error("A message is longer than %d bytes; the connection ends.", LONGEST_LINE)
            return


async def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        await _until(anyio.wait_writable, descriptor)
        # A pipe that is writable takes that much at once; more could block the event loop.
        view = view[os.write(descriptor, view[: select.PIPE_BUF]) :]


async def _until(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except PermissionError:
        # A file or /dev/null: it is always ready, and epoll refuses to say so.
        await anyio.lowlevel.checkpoint()
