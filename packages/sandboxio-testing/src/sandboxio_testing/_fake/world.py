"""All that one fake has: its clock, its sandboxes, what was said, and what was called."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandboxio.models import Capability, IsolationTier

from .calls import Call
from .clock import VirtualClock
from .faults import Faults
from .internet import Internet
from .scripts import Scripts

if TYPE_CHECKING:
    from .sandbox import FakeSandbox

__all__ = ["World"]


@dataclass
class World:
    """The state that the driver, the sandboxes and the test share."""

    capabilities: Capability
    isolation: IsolationTier
    resource_caps: bool
    clock: VirtualClock = field(default_factory=VirtualClock)
    internet: Internet = field(default_factory=Internet)
    scripts: Scripts = field(default_factory=Scripts)
    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list[Call])
    sandboxes: dict[str, FakeSandbox] = field(default_factory=dict[str, "FakeSandbox"])
    ids: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    started: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
