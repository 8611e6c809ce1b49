"""`doctor`: what is installed, what can be reached, and how to repair what cannot."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from .._engine.validation import check_timeout
from .._observe.redaction import Redactor
from .._wiring.known import INSTALL_HINTS
from .._wiring.registry import Registry, default_registry
from ..spi import Check
from .doctor_report import BackendReport, DoctorReport, RoutingReport
from .examination import BackendExamination, run_all

if TYPE_CHECKING:
    from ..routing import EntryStatus, Router
    from .router_examination import RouterExamination

__all__ = ["doctor"]

DOCTOR_BOUND = 1.9
"""Seconds that all backends together have; what did not answer by then is said to be missing. With
the start and the end of the interpreter, the command takes less than three."""


def doctor(
    backends: Sequence[str] | None = None,
    *,
    routing: Router | str | os.PathLike[str] | None = None,
    timeout: float = DOCTOR_BOUND,
) -> DoctorReport:
    """Look at every backend, all at once, for two seconds at most; creates nothing.

    A backend that hangs, breaks or cannot be loaded is reported as such and delays no other. Each
    is asked in a thread with an event loop of its own, so this can be called from anywhere; it
    blocks its caller, who in a coroutine wants ``await anyio.to_thread.run_sync(sandboxio.doctor)``.

    Args:
        backends: Names of those to look at; every one that is installed, registered or known if
            ``None``.
        routing: A router, or a routing file, whose entries and circuits are looked at, too.
        timeout: Seconds that all of them have, for a machine that is slow or far away.

    Raises:
        BackendNotFound: No backend has such a name, installed or known.
        ConfigurationError: The timeout is not a number above 0.

    Example:
        >>> import sandboxio
        >>> def broken() -> list[str]:
        ...     return [one.name for one in sandboxio.doctor().backends if not one.ok]
    """
    bound = check_timeout(timeout)
    registry = default_registry()
    installed = set(registry.names())
    examinations = [
        BackendExamination(
            name, registry, installed=name in installed or registry.is_registered(name)
        )
        for name in _names(backends, registry, installed)
    ]
    router = None if routing is None else _of_router(routing)
    run_all([*examinations, *(() if router is None else (router,))], bound)
    reports = [examination.report() for examination in examinations]
    mask = _Mask(name for report in reports for name, _ in report.credentials)
    return DoctorReport(
        versions=(
            ("sandboxio-core", metadata.version("sandboxio-core")),
            ("python", platform.python_version()),
            ("platform", f"{platform.system()} {platform.release()} {platform.machine()}"),
        ),
        backends=tuple(mask.backend(report) for report in reports),
        routing=None if router is None else mask.routing(router.report()),
    )


def _names(asked: Sequence[str] | None, registry: Registry, installed: set[str]) -> list[str]:
    known = {*INSTALL_HINTS, *installed}
    if asked is None:
        return sorted(known)
    for name in asked:
        if name not in known and not registry.is_registered(name):
            registry.plugin(name)  # raises, and says which there are
    return list(dict.fromkeys(asked))


def _of_router(routing: Router | str | os.PathLike[str]) -> RouterExamination:
    # Loaded for those alone who ask about a router: every import takes from the two seconds.
    from .router_examination import RouterExamination

    return RouterExamination(routing)


class _Mask:
    """Takes out of a report what must not be in it: an engine's message may repeat a credential."""

    def __init__(self, variables: Iterable[str]) -> None:
        self._redactor = Redactor(
            value for name in variables if (value := os.environ.get(name, ""))
        )
        self._redactor.learn(os.environ)

    def text(self, text: str) -> str:
        return _PASSWORD.sub(r"\1***@", self._redactor.text(text))

    def checks(self, checks: Iterable[Check]) -> tuple[Check, ...]:
        return tuple(
            replace(
                check,
                detail=self.text(check.detail),
                hint=None if check.hint is None else self.text(check.hint),
            )
            for check in checks
        )

    def backend(self, report: BackendReport) -> BackendReport:
        return replace(report, checks=self.checks(report.checks))

    def routing(self, report: RoutingReport) -> RoutingReport:
        return replace(
            report,
            checks=self.checks(report.checks),
            entries=tuple(self.entry(entry) for entry in report.entries),
        )

    def entry(self, entry: EntryStatus) -> EntryStatus:
        problem = None if entry.problem is None else self.text(entry.problem)
        return replace(entry, last_failure=self.text(entry.last_failure), problem=problem)


_PASSWORD = re.compile(r"(\w://[^\s/:@]*:)[^\s/@]+@")
