"""The E2B backend under the contract: against a local double of E2B, and against E2B itself."""

from __future__ import annotations

import json
import os
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from e2b_code_interpreter import Sandbox

from sandboxio_e2b import E2BBackend
from sandboxio_testing.e2b import LocalE2B
from sandboxio_testing.suite import BackendContract, ProviderFacts
from sandboxio_testing.suite.properties import PropertyContract

LIST_PROCESSES = (
    "for p in /proc/[0-9]*; do tr '\\0\\n' '  ' < $p/cmdline; echo; done 2>/dev/null; true"
)

OURS = "sandboxio_"

# Without a context, code is a program of its own: an interpreter takes a second to start, and E2B's
# default one keeps everything.
NO_RESULTS_GAPS = {"code.results": "https://docs.sandboxio.dev/how-to/e2b/#code"}

# A local sandbox has all of the network or none, and a list is refused.
NO_LISTS_GAPS = {
    "network.allowlist": "https://docs.sandboxio.dev/how-to/local-e2b/#what-is-refused-rather-than-pretended"
}


class ApiWitness:
    """Asks E2B's REST API, and E2B's SDK for what only the inside knows."""

    def sandboxes(self) -> Collection[str]:
        """Those of this process."""
        wanted = f"sandboxio_session={os.getpid()}"
        found, token = [], ""
        while True:
            query = urllib.parse.urlencode({"metadata": wanted, "limit": 100, "nextToken": token})
            items, headers = self._ask("GET", f"/v2/sandboxes?{query}")
            found += [item["sandboxID"] for item in items]
            token = headers.get("X-Next-Token", "")
            if not token:
                return found

    def processes(self, sandbox_id: str, marker: str) -> int:
        if sandbox_id not in self.sandboxes():
            return 0
        # A second is less than is left, and then connecting changes no lifetime.
        inside = Sandbox.connect(sandbox_id, timeout=1)
        listed = inside.commands.run(LIST_PROCESSES, timeout=30).stdout
        return sum(marker in line for line in listed.splitlines())

    def facts(self, sandbox_id: str) -> ProviderFacts:
        detail, _ = self._ask("GET", f"/sandboxes/{sandbox_id}")
        inside = Sandbox.connect(sandbox_id, timeout=1)
        shown = [detail, [vars(process) for process in inside.commands.list()]]
        return ProviderFacts(
            network="none" if detail["allowInternetAccess"] is False else "own",
            cpu=detail["cpuCount"],
            memory_mb=detail["memoryMB"],
            labels={k: v for k, v in detail["metadata"].items() if not k.startswith(OURS)},
            description=json.dumps(shown, default=str),
        )

    def destroy(self, sandbox_id: str) -> None:
        try:
            self._ask("DELETE", f"/sandboxes/{sandbox_id}")
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise

    def _ask(self, method: str, path: str) -> tuple[Any, Any]:
        domain = os.environ.get("E2B_DOMAIN") or "e2b.app"
        url = os.environ.get("E2B_API_URL") or f"https://api.{domain}"
        headers = {"X-API-KEY": os.environ["E2B_API_KEY"]}
        request = urllib.request.Request(url + path, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            body = response.read()
            return json.loads(body) if body else None, response.headers


class Elsewhere(E2BBackend):
    """A backend that looks for E2B at another address."""

    async def create(self, **arguments: Any) -> Any:
        with self.elsewhere():
            return await super().create(**arguments)

    async def connect(self, sandbox_id: str) -> Any:
        with self.elsewhere():
            return await super().connect(sandbox_id)

    @contextmanager
    def elsewhere(self) -> Generator[None, None, None]:
        raise NotImplementedError


class Nobody(Elsewhere):
    """A backend whose E2B does not answer."""

    @contextmanager
    def elsewhere(self) -> Generator[None, None, None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("E2B_API_URL", "http://127.0.0.1:9")
            yield


class Silent(Elsewhere):
    """A backend whose E2B takes every request and never answers."""

    @contextmanager
    def elsewhere(self) -> Generator[None, None, None]:
        # What nobody accepts is taken by the kernel.
        listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        with listener, pytest.MonkeyPatch.context() as patch:
            patch.setenv("E2B_API_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
            yield


@pytest.fixture(scope="module")
def e2b_double() -> Generator[None, None, None]:
    """A local E2B, to which the environment points as long as this module's tests run."""
    with pytest.MonkeyPatch.context() as patch, LocalE2B() as server:
        for name, value in server.environ.items():
            patch.setenv(name, value)
        yield
        assert not server.errors, server.errors


@pytest.mark.usefixtures("e2b_double")
class TestE2BDouble(BackendContract):
    """A double of E2B on this machine, and E2B's own SDK."""

    backend = E2BBackend
    witness = ApiWitness
    resource_caps_supported = False
    credential = "E2B_API_KEY"
    unreachable = Nobody
    silent = Silent
    known_gaps = NO_RESULTS_GAPS | NO_LISTS_GAPS
    # The double makes a local sandbox within it, and starts two programs there.
    short_lifetime = 5.0


@pytest.mark.usefixtures("e2b_double")
class TestE2BDoubleWithAnyInput(PropertyContract):
    backend = E2BBackend
    witness = ApiWitness
    resource_caps_supported = False


@pytest.mark.e2b
@pytest.mark.skipif(
    "E2B_API_URL" in os.environ, reason="e2b: E2B_API_URL points elsewhere than to E2B"
)
class TestE2BService(BackendContract):
    """E2B's cloud."""

    backend = E2BBackend
    witness = ApiWitness
    resource_caps_supported = False
    credential = "E2B_API_KEY"
    unreachable = Nobody
    silent = Silent
    known_gaps = NO_RESULTS_GAPS
    outside = ("1.1.1.1", 443)
