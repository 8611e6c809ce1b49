"""The pytest plugin of sandboxio-testing."""

from __future__ import annotations

import pytest

from .suite import _pytest as contract

__all__ = ["pytest_addoption", "pytest_configure"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the contract suite."""
    contract.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the contract suite."""
    contract.configure(config)
