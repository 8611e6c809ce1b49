"""How far a pull is, from what the engine tells layer by layer."""

from __future__ import annotations

import http.server
import json
import logging
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandboxio.errors import CreationError
from sandboxio.spi import Progress
from sandboxio_docker import _images
from sandboxio_docker._client import Engine
from sandboxio_docker._layers import Layers


def line(layer: str, status: str, current: int | None = None, total: int | None = None) -> Any:
    detail = {"current": current, "total": total} if current is not None else {}
    return {"id": layer, "status": status, "progressDetail": detail}


PULL = [
    {"status": "Pulling from library/python", "id": "3.12-slim"},
    line("there", "Already exists"),
    line("big", "Pulling fs layer"),
    line("small", "Pulling fs layer"),
    line("small", "Waiting"),
    line("big", "Downloading", 10, 100),
    line("small", "Downloading", 5, 20),
    line("small", "Verifying Checksum"),
    line("big", "Downloading", 60, 100),
    line("big", "Download complete"),
    line("big", "Extracting", 50, 100),
    line("big", "Pull complete"),
    {"status": "Digest: sha256:0"},
    {"status": "Status: Downloaded newer image"},
]


def test_layers_are_summed_up_and_what_is_there_counts_for_nothing() -> None:
    layers = Layers()
    seen: list[tuple[int, int | None]] = []
    for answer in PULL:
        layers.learn(answer)
        seen.append((layers.done, layers.total))
    assert seen[:5] == [(0, None)] * 5
    # As long as the size of a layer is not known, nobody knows how much is left.
    assert seen[5:] == [
        (10, None),
        (15, 120),
        (30, 120),
        (80, 120),
        *[(120, 120)] * 5,
    ]


@pytest.mark.parametrize(
    "answer", [{}, {"id": 3, "status": "Downloading"}, {"id": "x"}, line("x", "Downloading")]
)
def test_lines_without_meaning_are_passed_over(answer: Any) -> None:
    layers = Layers()
    layers.learn(answer)
    assert (layers.done, layers.total) == (0, None)


class Registryless(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """An engine that can do nothing but tell how it pulls."""

    daemon_threads = True
    lines: list[Any] = PULL


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        content = json.dumps({"ApiVersion": "1.41", "Version": "1"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        assert isinstance(self.server, Registryless)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for one in self.server.lines:
            content = json.dumps(one).encode() + b"\r\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        return


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Registryless]:
    with Registryless(str(tmp_path / "engine.sock"), Answers) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


async def pulled(
    server: Registryless, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> list[Progress]:
    monkeypatch.setattr(_images, "SHOW_EVERY", 0.0)
    caplog.set_level(logging.DEBUG, logger="sandboxio.docker")
    await _images.pull(Engine(f"unix://{server.server_address!s}"), "some:1", None, 30)
    return [found for record in caplog.records if (found := Progress.in_record(record))]


async def test_pull_logs_how_far_it_is_and_that_it_is_over(
    server: Registryless, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await pulled(server, caplog, monkeypatch)
    assert {progress.what for progress in found} == {"Pulling the image some:1"}
    assert [progress.done for progress in found] == sorted(progress.done for progress in found)
    assert (found[-1].done, found[-1].total, found[-1].over) == (120, 120, True)
    assert not any(progress.over for progress in found[:-1])
    told = [record.message for record in caplog.records if record.levelno == logging.INFO]
    assert told == ["Pulling the image some:1.", "Pulled the image some:1."]


async def test_pull_that_fails_is_over_too(
    server: Registryless, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lines = [*PULL[:6], {"error": "manifest unknown"}]
    with pytest.raises(CreationError):
        await pulled(server, caplog, monkeypatch)
    found = [one for record in caplog.records if (one := Progress.in_record(record))]
    assert found[-1].over
