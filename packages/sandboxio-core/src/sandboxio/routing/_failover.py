"""Creating in order: which failures let the next candidate try, and how long each may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._engine.backend import DriverBackend
from .._observe.routing import REMAINS, RoutedCreate, routed_by
from ..errors import (
    AuthError,
    CreateTimeout,
    CreationError,
    DiskFull,
    NoRoute,
    ProviderError,
    RateLimitError,
    SandboxError,
    SandboxUnreachable,
)
from ..models import IsolationTier
from ..protocols import AsyncSandbox, Backend
from ..spi import Clock
from ._decision import RouteDecision
from ._lanes import Lanes
from ._request import CreateArguments
from ._routed import RoutedSandbox, with_route
from ._survey import Survey
from ._tuning import RouterTuning

__all__ = ["Creating", "fails_over"]


def fails_over(error: SandboxError) -> bool:
    """Whether another backend may succeed where one failed like this.

    Capacity, reachability and the provider's own failures: yes. A bad request, a refused policy
    or a bad credential: no, for the next backend would hide what has to be repaired.
    """
    # The disk is the provider's: no code of the caller has run that could have filled one.
    if isinstance(error, CreateTimeout | RateLimitError | SandboxUnreachable | DiskFull):
        return True
    return isinstance(error, CreationError | ProviderError) and error.retryable is True


@dataclass
class Creating:
    """One create of a router, from the first candidate to the last."""

    lanes: Lanes
    survey: Survey
    arguments: CreateArguments
    clock: Clock
    tuning: RouterTuning
    failures: dict[str, str] = field(default_factory=dict[str, str])
    last: SandboxError | None = None

    async def run(self) -> RoutedSandbox:
        """Return a sandbox of the best candidate that has one.

        Raises:
            NoRoute: Nothing is left to try.
            CreateTimeout: The time was over before something was.
            SandboxError: What must not be hidden by trying another backend.
        """
        began = self.clock.current_time()
        while True:
            decision = await self.survey.decide(self.failures)
            if decision.taken is None:
                raise self._no_route(decision) from self.last
            left = self.arguments.bound - (self.clock.current_time() - began)
            if left <= 0:
                raise self._too_late(decision) from self.last
            sandbox = await self._try(decision, decision.taken, left)
            if sandbox is not None:
                return sandbox

    async def _try(self, decision: RouteDecision, name: str, left: float) -> RoutedSandbox | None:
        """Let one candidate create; ``None`` if the next may try."""
        breaker = self.lanes.lane(name).breaker
        if not decision.pinned and not breaker.admit():
            return None  # another create came first; what is decided next takes note of it
        began = self.clock.current_time()
        ended = False
        try:
            self._refuse_credential(name)
            sandbox = await self._create(decision, name, left)
            breaker.succeeded()
            ended = True
        except SandboxError as error:
            error.add_note(f"The route was: {decision}")
            if not fails_over(error):
                raise
            self.last = error
            self.failures[name] = _told(error)
            hold = error.retry_after if isinstance(error, RateLimitError) else None
            breaker.failed(f"{type(error).__name__}: {error.message}", hold)
            ended = True
            self.lanes.board.forget(name, began)
            if decision.pinned:
                raise
            return None
        finally:
            if not ended:
                breaker.released()
        return sandbox

    def _refuse_credential(self, name: str) -> None:
        refused = self.survey.refused(name)
        if refused is not None:
            raise AuthError(refused.message, hint=refused.hint) from refused

    async def _create(self, decision: RouteDecision, name: str, left: float) -> RoutedSandbox:
        backend = self.lanes.open(name)
        more = any(candidate.outcome == "standby" for candidate in decision.candidates)
        bound = min(left, self.tuning.attempt_bound) if more else left
        template = self.lanes.lane(name).entry.template
        arguments = self.arguments.with_template(template)
        routed = RoutedCreate(decision.as_dict(), decision, bound)
        with routed_by(routed):
            if isinstance(backend, DriverBackend):
                # Its engine keeps the bound, and a pull of an image is not counted in it.
                sandbox = await _call(backend, arguments, decision.require_isolation)
                return with_route(sandbox, decision)
            with self.clock.move_on_after(bound):
                sandbox = await _call(backend, arguments, decision.require_isolation)
                return with_route(sandbox, decision)
        raise CreateTimeout(f"The {backend.name!r} backend had no sandbox ready in {bound:g} s.")

    def _no_route(self, decision: RouteDecision) -> NoRoute:
        hint = None
        if all(candidate.outcome == "rejected" for candidate in decision.candidates):
            hint = "Relax the request, or repair or add a backend; each candidate says why."
        error = NoRoute(
            f"No backend is left for this request ({decision.rule}). {decision.reasons()}",
            decision=decision,
            hint=hint,
            retryable=True if self.failures else None,
        )
        error.add_note(str(decision))
        return error

    def _too_late(self, decision: RouteDecision) -> CreateTimeout:
        error = CreateTimeout(
            f"No backend had a sandbox ready within {self.arguments.bound:g} s in all; "
            f"{decision.taken} was not tried any more. {decision.reasons()}"
        )
        error.add_note(str(decision))
        return error


def _told(error: SandboxError) -> str:
    """Return what became of an attempt; the engine notes whether anything may be left of it."""
    notes = [note for note in getattr(error, "__notes__", []) if note.startswith(REMAINS)]
    text = f"[{error.code}] {type(error).__name__}: {error.message}"
    return " ".join((text, *notes))


async def _call(
    backend: Backend, arguments: CreateArguments, required: IsolationTier | None
) -> AsyncSandbox:
    return await backend.create(
        template=arguments.template,
        resources=arguments.resources,
        network=arguments.egress,
        env=arguments.env,
        secrets=arguments.secrets,
        timeout=arguments.bound,
        metadata=arguments.metadata,
        require_isolation=required,
    )
