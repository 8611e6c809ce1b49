"""What a real interpreter displays, on a backend that has one."""

from __future__ import annotations

import base64
from typing import Any

import anyio
import pytest
from mcp import Client

from sandboxio_mcp import ServerConfig, build_server
from sandboxio_testing.e2b import LocalE2B

pytestmark = pytest.mark.slow

BOUND = 60.0

# Every object of a notebook's libraries says in such methods how it is shown; a table does, too.
CODE = """
import struct, zlib

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

class Figure:
    def _repr_png_(self):
        header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
        return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", header) + chunk(
            b"IDAT", zlib.compress(b"\\0\\x80")) + chunk(b"IEND", b"")

    def _repr_html_(self):
        return "<table><tr><td>1</td></tr></table>"

Figure()
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """E2B's SDK runs on asyncio alone."""
    return "asyncio"


async def test_an_image_and_a_table_arrive_as_content(local_e2b: LocalE2B) -> None:
    with anyio.fail_after(BOUND):
        async with Client(build_server(ServerConfig(backend="e2b://"))) as client:
            result: Any = await client.call_tool("run_python", {"code": CODE})
    assert result.structured_content["exit_code"] == 0
    types = {one["mime_type"] for one in result.structured_content["results"]}
    assert {"image/png", "text/html"} <= types
    (image,) = [block for block in result.content if block.type == "image"]
    assert base64.b64decode(image.data).startswith(b"\x89PNG")
    (table,) = [block for block in result.content if block.type == "resource"]
    assert table.resource.text == "<table><tr><td>1</td></tr></table>"
