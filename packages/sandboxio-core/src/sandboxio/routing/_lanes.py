"""The entries of one router with all that it remembers of them; nothing here is shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .._wiring.registry import Registry
from ..errors import AuthError, BackendNotFound, SandboxError
from ..models import BackendConfig, Health
from ..protocols import Backend
from ..spi import Clock
from ._breaker import Breaker, CircuitState
from ._choose import Facts
from ._file import BackendEntry
from ._health import HealthBoard
from ._open import check_registered, config_of, secrets_of
from ._request import NOTHING
from ._tuning import RouterTuning

__all__ = ["EntryStatus", "Lane", "Lanes"]


@dataclass(frozen=True, kw_only=True)
class EntryStatus:
    """How one entry of a router is; what `doctor` shows of it.

    Attributes:
        name: Name of the entry.
        backend: Its adapter.
        enabled: Whether the file allows its use.
        circuit: State of its circuit breaker.
        failures: Creates that failed in a row, for want of capacity or reach.
        opens_in: Seconds until an open circuit lets one create try; ``None`` if it is not open.
        last_failure: What the last of them said; empty if there is none.
        problem: Why there is no backend for it, for example that its wheel is missing.
        health: What it last said, if that is fresh.

    Example:
        >>> from sandboxio.routing import Router
        >>> [status.circuit for status in Router.default().status()]
        ['closed', 'closed']
    """

    name: str
    backend: str
    enabled: bool
    circuit: CircuitState
    failures: int
    opens_in: float | None
    last_failure: str
    problem: str | None
    health: Health | None


@dataclass(frozen=True)
class Lane:
    """One entry and its circuit."""

    entry: BackendEntry
    breaker: Breaker


class Lanes:
    """All entries of a router, in the order of the file."""

    def __init__(
        self,
        entries: Iterable[BackendEntry],
        registry: Registry,
        clock: Clock,
        tuning: RouterTuning,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._lanes = {
            entry.name: Lane(
                entry,
                Breaker(
                    clock.current_time, limit=tuning.failures_to_open, open_for=tuning.open_for
                ),
            )
            for entry in entries
        }
        self._configs: dict[str, tuple[dict[str, str], BackendConfig]] = {}
        self._board = HealthBoard(clock, bound=tuning.health_bound, fresh=tuning.health_fresh)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, in the order of the file."""
        return tuple(self._lanes)

    @property
    def board(self) -> HealthBoard:
        """What the backends said of themselves."""
        return self._board

    def lane(self, name: str) -> Lane:
        """Return one."""
        return self._lanes[name]

    def open(self, name: str) -> Backend:
        """Return the backend of an entry; entries with equal options share one.

        Raises:
            AuthError: A variable that holds its credential is not set.
            SandboxError: There is no such backend, or it does not take these options.
        """
        entry = self._lanes[name].entry
        if self._registry.is_registered(entry.adapter):
            check_registered(entry)
            return self._registry.backend(entry.adapter)
        # A wheel that is missing is the first thing to say, before the credential that it needs.
        plugin = self._registry.plugin(entry.adapter)
        secrets = secrets_of(entry, plugin)
        made = self._configs.get(name)
        if made is None or made[0] != secrets:
            made = self._configs[name] = secrets, config_of(entry, self._registry, secrets)
        try:
            return self._registry.configured(made[1])
        except SandboxError:
            raise
        except Exception as error:
            # A wheel that is broken, or whose SDK is, stops no other backend.
            raise BackendNotFound(
                f"The {entry.adapter!r} backend cannot be made: {type(error).__name__}: {error}",
                hint=f"Reinstall it: {plugin.install}" if plugin.install else None,
            ) from error

    def facts(self, failures: Mapping[str, str]) -> list[Facts]:
        """Return what is known now, without asking anybody; a disabled entry is not even opened."""
        return [self._facts(lane, failures.get(name)) for name, lane in self._lanes.items()]

    def _facts(self, lane: Lane, failure: str | None) -> Facts:
        entry = lane.entry
        if not entry.enabled:
            return Facts(entry=entry, failure=failure)
        try:
            backend = self.open(entry.name)
        except AuthError as error:
            # Its tier and capabilities are its plugin's to tell; the error is raised at its turn.
            return self._without_credential(entry, error, failure)
        except SandboxError as error:
            missing = entry.adapter not in self._registry.names()
            text = f"{error.message} ({error.hint})"
            return Facts(
                entry=entry, problem=f"not installed: {text}" if missing else text, failure=failure
            )
        condition = self._board.last(entry.name, backend)
        return Facts(
            entry=entry,
            capabilities=backend.capabilities,
            isolation=backend.isolation,
            circuit=lane.breaker.reason,
            health=None if condition is None else condition.health,
            refused=None if condition is None else condition.refused,
            failure=failure,
        )

    def _without_credential(
        self, entry: BackendEntry, error: AuthError, failure: str | None
    ) -> Facts:
        plugin = self._registry.plugin(entry.adapter)
        return Facts(
            entry=entry,
            # What it can do is known to the backend alone. Assuming all keeps it in the running,
            # so that the credential is what its caller hears of.
            capabilities=~NOTHING,
            isolation=plugin.isolation,
            refused=error,
            failure=failure,
        )

    def status(self) -> tuple[EntryStatus, ...]:
        """Return how each entry is."""
        found: list[EntryStatus] = []
        for fact, lane in zip(self.facts({}), self._lanes.values(), strict=True):
            breaker = lane.breaker
            found.append(
                EntryStatus(
                    name=fact.entry.name,
                    backend=fact.entry.adapter,
                    enabled=fact.entry.enabled,
                    circuit=breaker.state,
                    failures=breaker.failures,
                    opens_in=breaker.opens_in,
                    last_failure=breaker.last_failure,
                    problem=fact.problem if fact.refused is None else fact.refused.message,
                    health=fact.health,
                )
            )
        return tuple(found)
