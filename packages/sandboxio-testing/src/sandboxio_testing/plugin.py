"""The pytest plugin of sandboxio-testing: its fixtures, and the hooks of the contract suite.

pytest imports it at the start of every run in an environment that has this wheel. So it is cheap:
nothing of sandboxio is loaded before a fixture or the suite is used.
"""

from __future__ import annotations

import pytest

from .fixtures import sbx_fake, sbx_no_leaks, sbx_offline
from .suite import _pytest as contract

__all__ = ["pytest_addoption", "pytest_configure", "sbx_fake", "sbx_no_leaks", "sbx_offline"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the contract suite."""
    contract.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the contract suite."""
    contract.configure(config)
