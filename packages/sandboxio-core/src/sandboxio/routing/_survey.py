"""Finding out what a decision needs to know, and deciding."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import AuthError
from ..models import Capability
from ..protocols import Backend
from ._choose import Facts, Need, decide, ranked, resolve
from ._decision import RouteDecision
from ._file import RoutingFile
from ._health import best_known
from ._lanes import Lanes
from ._request import RouteRequest

__all__ = ["Survey"]


class Survey:
    """Decides one request, as often as it is needed."""

    def __init__(
        self, file: RoutingFile, lanes: Lanes, request: RouteRequest, needed: Capability
    ) -> None:
        self._file = file
        self._lanes = lanes
        self._request = request
        self._needed = needed
        self._refused: dict[str, AuthError] = {}

    def known(self, failures: Mapping[str, str] | None = None) -> RouteDecision:
        """Decide by what is known, without asking anybody."""
        facts = self._lanes.facts(failures or {})
        return decide(self._need(facts), facts)

    async def decide(self, failures: Mapping[str, str], *, ask_all: bool = False) -> RouteDecision:
        """Decide, and ask what has to be asked for that: nobody, if the best is known to work.

        With ``ask_all`` every entry that could come into question is asked.
        """
        facts = self._lanes.facts(failures)
        need = self._need(facts)
        if self._request.backend is None:
            await self._ask(need, facts, ask_all=ask_all)
            facts = self._lanes.facts(failures)
            need = self._need(facts)
        self._refused = {
            fact.entry.name: fact.refused for fact in facts if fact.refused is not None
        }
        return decide(need, facts)

    def refused(self, name: str) -> AuthError | None:
        """Return why the credential of an entry did not do when it was decided."""
        return self._refused.get(name)

    def _need(self, facts: list[Facts]) -> Need:
        return resolve(self._file, self._request, self._needed, facts)

    async def _ask(self, need: Need, facts: list[Facts], *, ask_all: bool) -> None:
        in_question: dict[str, Backend] = {}
        order: list[str] = []
        for fact in ranked(need, facts):
            if fact.failure is None and fact.circuit is None:
                name = fact.entry.name
                order.append(name)
                if fact.refused is None:
                    in_question[name] = self._lanes.open(name)

        def works(name: str) -> bool | None:
            backend = in_question.get(name)
            if backend is None:
                return True  # its credential is refused: it is the one to be heard of
            said = self._lanes.board.last(name, backend)
            if said is None:
                return None
            return said.health is None or said.health.ok

        def enough() -> bool:
            return not ask_all and best_known(order, works)

        await self._lanes.board.ask(in_question, enough)
