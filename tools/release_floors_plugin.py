"""Run what is a coroutine on anyio, as `anyio_mode = "auto"` does, with an anyio that has no such mode.

A plugin of pytest for `tools/release_floors.py`: what the configuration of the workspace needs of the
tools of tests must not decide what a wheel asks of its users.
"""

from __future__ import annotations

import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    """Mark a test before anyio's own plugin looks at it."""
    if not isinstance(collector, pytest.Module | pytest.Class):
        return
    inner = getattr(getattr(obj, "hypothesis", None), "inner_test", obj)
    if collector.istestfunction(obj, name) and inspect.iscoroutinefunction(inner):
        pytest.mark.anyio(obj)
        pytest.mark.usefixtures("anyio_backend")(obj)
