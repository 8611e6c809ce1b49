"""What the tests of all frameworks use: asyncio, which is all that they know, a fake, and an escape."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandboxio_testing import FakeBackend

# No framework may tell its maker about our tests, and none needs a key.
os.environ.update(
    LANGSMITH_TRACING="false",
    LANGCHAIN_TRACING_V2="false",
    OPENAI_AGENTS_DISABLE_TRACING="1",
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
)


@pytest.fixture(autouse=True)
def no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what frameworks trace from going anywhere; the tests of our own spans run without it."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    """Run what is a coroutine on asyncio alone: the frameworks are written for it."""
    return ("asyncio", {"debug": True})


@pytest.fixture
def fake() -> Iterator[FakeBackend]:
    """A backend that remembers every call and in which time is virtual."""
    made = FakeBackend()
    yield made
    made.close()


@dataclass(frozen=True)
class Escape:
    """A program that looks for a file of the host and calls a port of it."""

    code: str
    contained: str = "file: False, network: denied"
    """What it prints in a sandbox with all defaults."""


@pytest.fixture
def escape(tmp_path: Path) -> Iterator[Escape]:
    """A program that prints what it reaches of this host, which is there to be reached."""
    secret = tmp_path / "secret.txt"
    secret.write_text("of the host", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"""
import os, socket
try:
    socket.create_connection(("127.0.0.1", {server.getsockname()[1]}), timeout=5).close()
    network = "reached"
except OSError:
    network = "denied"
print(f"file: {{os.path.exists({str(secret)!r})}}, network: {{network}}")
"""
        free = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, check=True, text=True
        )
        assert free.stdout == "file: True, network: reached\n"
        yield Escape(code)
