"""Deprecations: they reach the line that has to change, and carry what to write instead."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from sandboxio._deprecation import Notice, deprecated, warn

NOTICE = Notice(what="create(region=)", since="0.3.0", removal="0.5.0", use="create(template=)")


@deprecated("`old` is deprecated since 0.3.0 and goes in 0.5.0: use `new`.")
def old(value: int) -> int:
    return value + 1


@deprecated("`old_async` is deprecated since 0.3.0 and goes in 0.5.0: use `new`.")
async def old_async(value: int) -> int:
    return value + 1


@deprecated("`Old` is deprecated since 0.3.0 and goes in 0.5.0: use `New`.")
class Old:
    def __init__(self, value: int) -> None:
        self.value = value


def create(region: str | None = None) -> None:
    if region is not None:
        warn(NOTICE)


def create_sync(region: str | None = None) -> None:
    _create(region)


def _create(region: str | None) -> None:
    if region is not None:
        warn(NOTICE, above=1)


def caught(call: Callable[[], object]) -> tuple[warnings.WarningMessage, int]:
    """The one warning of a call, and the line on which the call stands."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    (warning,) = seen
    return warning, call.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: old(1), "`old`"),
        (lambda: Old(1), "`Old`"),
        (lambda: create(region="eu"), "`create(region=)`"),
        (lambda: create_sync(region="eu"), "`create(region=)`"),
    ],
    ids=["function", "class", "parameter", "through the facade"],
)
def test_warning_points_at_the_line_of_the_caller(call: Callable[[], object], what: str) -> None:
    warning, line = caught(call)
    assert warning.category is DeprecationWarning
    assert (warning.filename, warning.lineno) == (__file__, line)
    assert str(warning.message).startswith(f"{what} is deprecated since 0.3.0 and goes in 0.5.0")


async def test_coroutine_warns_where_it_is_called_and_is_awaited_as_before() -> None:
    with pytest.warns(DeprecationWarning, match="`old_async`") as seen:
        coroutine = old_async(1)
    assert seen[0].filename == __file__
    assert await coroutine == 2


def test_what_is_deprecated_works_as_before() -> None:
    with pytest.warns(DeprecationWarning, match="`old`"):
        assert old(1) == 2
    with pytest.warns(DeprecationWarning, match="`Old`"):
        assert Old(1).value == 1


def test_what_is_not_deprecated_does_not_warn() -> None:
    create()


def test_name_of_a_module_warns_at_the_line_that_imports_it(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(
        "from sandboxio._deprecation import Notice, warn\n"
        'OLD = Notice(what="library.old", since="0.3.0", removal="0.5.0", use="library.new")\n'
        "def __getattr__(name):\n"
        "    if name != 'old': raise AttributeError(name)\n"
        "    warn(OLD)\n"
        "    return 1\n"
    )
    program = tmp_path / "program.py"
    program.write_text("import library\n\nfrom library import old\nlibrary.old\n")
    answer = subprocess.run(
        [sys.executable, "-W", "always", program], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    where = [line for line in answer.stderr.splitlines() if "DeprecationWarning" in line]
    assert [line.partition(": Dep")[0] for line in where] == [f"{program}:3", f"{program}:4"]


def test_type_checkers_know_the_decorator() -> None:
    """They know the class of `typing_extensions` and of Python itself, by identity of the name."""
    assert deprecated.__name__ == "deprecated"
    assert deprecated.__module__ in {"typing_extensions", "warnings"}
