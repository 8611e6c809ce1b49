"""The error tree: codes, hints, pickling, and its own documentation."""

from __future__ import annotations

import builtins
import copy
import pickle
import re
from typing import Any

import pytest

import sandboxio
from sandboxio import errors
from sandboxio.errors import SandboxError
from sandboxio.models import Capability, ExecResult

BASES = {"SandboxError", "SandboxTimeout"}
"""Classes that are caught and never raised, and so have no code."""

ARGUMENTS: dict[str, dict[str, Any]] = {
    "ExecutionError": {"result": ExecResult(3, "out", "err")},
    "CapabilityNotSupported": {"capability": Capability.GPU},
    "ExecutionTimeout": {"stdout": "part", "stderr": "err", "kill_confirmed": False},
    "RateLimitError": {"retry_after": 1.5},
    "PathNotFound": {"path": "/x"},
    "FileSystemError": {"path": "/x"},
}
LIMITS = {"limit": "memory_mb", "value": 64.0, "stdout": "head", "stderr": "tail"}


def kinds() -> list[type[SandboxError]]:
    found: list[type[SandboxError]] = []
    todo = [SandboxError]
    while todo:
        kind = todo.pop()
        if kind not in found:
            found.append(kind)
            todo += kind.__subclasses__()
    return sorted(
        (kind for kind in found if kind.__module__ == errors.__name__), key=lambda k: k.__name__
    )


KINDS = kinds()


def make(kind: type[SandboxError]) -> SandboxError:
    if issubclass(kind, errors.ResourceLimitExceeded):
        return kind("what happened", **LIMITS)
    arguments = ARGUMENTS.get(kind.__name__, {})
    return kind("what happened", hint="the fix", retryable=True, **arguments)


def test_codes_are_well_formed_and_unique() -> None:
    codes = [kind.code for kind in KINDS if kind.__name__ not in BASES]
    assert all(code and re.fullmatch(r"SBX_E1\d{3}", code) for code in codes)
    assert len(set(codes)) == len(codes)
    assert all(kind.code is None for kind in KINDS if kind.__name__ in BASES)


def test_tree_in_the_docstring_is_the_tree() -> None:
    text = errors.__doc__ or ""
    told = dict(re.findall(r"(\w+) +(SBX_E\d{4})", text))
    assert told == {kind.__name__: kind.code for kind in KINDS if kind.code is not None}
    stack: dict[int, str] = {}
    for line in text.splitlines():
        match = re.match(r"^    ((?:[│├└─ ]{4})*)(\w+) +(SBX_E|base|\(base)", line)
        if match:
            depth, name = len(match[1]) // 4, match[2]
            stack[depth] = name
            if depth:
                assert issubclass(getattr(errors, name), getattr(errors, stack[depth - 1]))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_is_public_documented_and_of_no_builtin_kind(kind: type[SandboxError]) -> None:
    assert kind.__name__ in errors.__all__
    assert getattr(sandboxio, kind.__name__) is kind
    assert (kind.__doc__ or "").strip()
    assert kind.default_hint
    assert not hasattr(builtins, kind.__name__)
    of_builtins = {base for base in kind.__mro__ if base.__module__ == "builtins"}
    assert of_builtins == {Exception, BaseException, object}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_survives_pickling_and_copying(kind: type[SandboxError]) -> None:
    error = make(kind)
    error.add_note("a note")
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(again) is kind
        assert vars(again) == vars(error)
        assert (str(again), again.args, again.url) == (str(error), error.args, error.url)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_error_is_rendered_with_code_fix_and_page(kind: type[SandboxError]) -> None:
    error = make(kind)
    first, fix, docs = str(error).splitlines()
    assert first == (f"[{kind.code}] what happened" if kind.code else "what happened")
    assert fix == f"  Fix:  {error.hint}"
    assert docs == f"  Docs: {errors.DOCS_URL}{kind.code or ''}"
    assert len(repr(error)) < 200


def test_every_name_that_is_promised_is_there_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and value.__module__ == errors.__name__
    }
    assert public == set(errors.__all__)


def test_either_base_catches_a_create_timeout() -> None:
    assert issubclass(errors.CreateTimeout, errors.CreationError)
    assert issubclass(errors.CreateTimeout, errors.SandboxTimeout)
    assert not issubclass(errors.SandboxGone, errors.SandboxTimeout)


def test_long_message_makes_no_long_repr() -> None:
    assert len(repr(SandboxError("x\n" * 5000))) < 200


def test_result_that_is_not_ok_raises_with_itself_and_its_last_line() -> None:
    result = ExecResult(2, "", "first\nlast line\n")
    with pytest.raises(errors.ExecutionError) as caught:
        result.raise_for_status()
    assert caught.value.result is result
    ok = ExecResult(0, "", "")
    assert ok.raise_for_status() is ok
