"""The drawer: each broken backend, with its one fault, and the clauses that it has to fail."""

from __future__ import annotations

from drawer_of_commands import COMMANDS
from drawer_of_life import LIFE
from drawer_of_safety import SAFETY
from fault import SAMPLE, Fault
from wrapping import PassingBackend

__all__ = ["DRAWER", "SAMPLE", "Fault"]

CONTROLS = (
    Fault("nothing is wrong with the fake", (), make=PassingBackend),
    Fault("nothing is wrong with the fake of few capabilities", (), "few", PassingBackend),
    Fault("nothing is wrong with the template", (), "template", PassingBackend),
)

DRAWER = (*COMMANDS, *LIFE, *SAFETY, *CONTROLS)
