"""Asking backends how they are, each in a thread that nobody waits for longer than he wants to.

A backend is code of any make: it may hang while it is loaded, block the event loop that it is asked
in, or never answer. A daemon thread of its own keeps all of that from the others, and from the end
of the process.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from typing import Protocol, runtime_checkable

import anyio

from .._engine.diagnosis import checks_of_health
from .._wiring.hookspecs import BACKENDS
from .._wiring.known import INSTALL_HINTS
from .._wiring.loading import wheels_of
from .._wiring.registry import Registry
from ..errors import SandboxError
from ..models import Health
from ..protocols import Backend
from ..spi import BackendPlugin, Check, SupportsDiagnosis
from .doctor_report import BackendReport

__all__ = ["BackendExamination", "Examination", "run_all"]

MARGIN = 0.1
"""Seconds before the bound at which an examination is cancelled, so that it can still clean up."""


class Examination:
    """One thing that is looked at. `look` runs in a thread, all else in the thread of the caller."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._checks: list[Check] = []
        self._over = threading.Event()
        self._cut = False
        self._bound = 0.0

    async def look(self) -> None:
        """Look at it; may raise anything."""
        raise NotImplementedError

    def start(self, bound: float) -> None:
        """Start to look."""
        self._bound = bound
        # A daemon: what hangs in there must not keep the process from ending.
        threading.Thread(
            target=self._run, name=f"sandboxio doctor {self.name}", daemon=True
        ).start()

    def wait(self, until: float) -> None:
        """Wait until it is over, or until that moment of the monotonic clock."""
        self._over.wait(max(0.0, until - time.monotonic()))

    def found(self, check: Check) -> None:
        """Note what was found."""
        self._checks.append(check)

    @property
    def checks(self) -> tuple[Check, ...]:
        """What was found until now, and that the rest is missing if it is."""
        over = self._over.is_set() and not self._cut
        checks = tuple(self._checks)
        if over:
            return checks
        missing = Check.failed(
            "answer",
            f"nothing more was heard within {self._bound:g} s",
            f"Give it more time: sandboxio doctor {self.name} --timeout 20. If it stays so, restart "
            "what the last line above names.",
        )
        return (*checks, missing)

    def _run(self) -> None:
        try:
            anyio.run(self._bounded)
        except SandboxError as error:
            self.found(failure(error))
        except Exception as error:  # noqa: BLE001 - a backend of any make; it is what is reported
            self.found(failure(error))
        finally:
            self._over.set()

    async def _bounded(self) -> None:
        with anyio.move_on_after(max(self._bound - MARGIN, self._bound / 2)) as scope:
            await self.look()
        self._cut = scope.cancelled_caught


def run_all(examinations: Sequence[Examination], bound: float) -> None:
    """Run all of them at once, and return when they are over, or after `bound` seconds."""
    until = time.monotonic() + bound
    for examination in examinations:
        examination.start(bound)
    for examination in examinations:
        examination.wait(until)


def failure(error: Exception, name: str = "diagnosis", hint: str = "") -> Check:
    """Return an error as a check."""
    if isinstance(error, SandboxError):
        return Check.failed(name, error.message, hint or error.hint)
    detail = " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return Check.failed(name, detail, hint or "Report it to the author of this backend.")


@runtime_checkable
class HasHealth(Protocol):
    """A backend that can say how it is."""

    async def health(self) -> Health:
        """Say whether a sandbox could be created now."""
        ...


class BackendExamination(Examination):
    """Looks at one backend."""

    def __init__(self, name: str, registry: Registry, *, installed: bool) -> None:
        super().__init__(name)
        self._registry = registry
        self._report = BackendReport(
            name=name, installed=installed, install=INSTALL_HINTS.get(name, "")
        )

    def report(self) -> BackendReport:
        """Return what was found until now."""
        return replace(self._report, checks=self.checks)

    async def look(self) -> None:
        """Look at what is installed, then ask the backend."""
        if not self._report.installed:
            return
        backend = self._open()
        if backend is None:
            return
        self._report = replace(self._report, isolation=backend.isolation)
        async for check in _said_by(backend):
            self.found(check)

    def _open(self) -> Backend | None:
        if self._registry.is_registered(self.name):
            self._report = replace(self._report, summary="registered by this process")
            return self._registry.backend(self.name)
        # Read once: looking through all that is installed takes milliseconds.
        wheels = wheels_of(BACKENDS, self.name)
        required = _requirements(wheels)
        found = {name: version for name, (version, _) in required.items() if version is not None}
        self._report = replace(self._report, versions=(*wheels.items(), *found.items()))
        try:
            plugin = self._registry.plugin(self.name)
        except SandboxError as error:
            self.found(failure(error, "plugin"))
            return None
        missing = [name for name, (version, always) in required.items() if always and not version]
        self._describe(plugin, missing)
        try:
            return self._registry.backend(self.name)
        except Exception as error:  # noqa: BLE001 - such as an SDK that cannot be imported
            self.found(
                failure(error, "backend", plugin.install and f"Reinstall it: {plugin.install}")
            )
            return None

    def _describe(self, plugin: BackendPlugin, missing: list[str]) -> None:
        credentials = tuple((name, bool(os.environ.get(name))) for name in plugin.credentials)
        self._report = replace(
            self._report,
            summary=plugin.summary,
            install=plugin.install or self._report.install,
            isolation=plugin.isolation,
            isolation_evidence=plugin.isolation_evidence,
            isolation_date=plugin.isolation_date,
            credentials=credentials,
        )
        for name, is_set in credentials:
            if not is_set:
                self.found(Check.failed("credential", f"{name} is not set", f"export {name}=..."))
        for name in missing:
            self.found(
                Check.failed(
                    "requirement",
                    f"{name} is not installed",
                    plugin.install or f"pip install {name}",
                )
            )


async def _said_by(backend: Backend) -> AsyncIterator[Check]:
    if isinstance(backend, SupportsDiagnosis):
        async for check in backend.diagnose():
            yield check
    elif isinstance(backend, HasHealth):
        for check in checks_of_health(await backend.health()):
            yield check
    else:
        yield Check.note("health", "this backend has no health check")


_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)[^;]*(;.*)?")


def _requirements(wheels: Iterable[str]) -> dict[str, tuple[str | None, bool]]:
    """Return what wheels require without their extras: the version, if any, and whether always."""
    found: dict[str, tuple[str | None, bool]] = {}
    for wheel in wheels:
        for line in metadata.requires(wheel) or ():
            match = _REQUIREMENT.match(line)
            # Core is in the head of the report.
            if match is None or "extra" in (match[2] or "") or match[1] == "sandboxio-core":
                continue
            found[match[1]] = (_version(match[1]), match[2] is None)
    return found


def _version(wheel: str) -> str | None:
    try:
        return metadata.version(wheel)
    except metadata.PackageNotFoundError:
        return None
