"""Every object shows itself in one line, without what programs wrote."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from sandboxio import errors, models
from sandboxio.models import (
    AppliedCap,
    AppliedPolicy,
    BackendConfig,
    Capability,
    ExecResult,
    FileInfo,
    Health,
    IsolationTier,
    ManagedSandbox,
    Meter,
    NetworkPolicy,
    OutputChunk,
    Resources,
    RichOutput,
)
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend

LIMIT = 200
LONG = "long " * 1000


@dataclass(frozen=True, kw_only=True)
class SomeConfig(BackendConfig):
    """As an adapter has it."""

    flavour: str = "plain"


EXAMPLES = [
    ExecResult(0, LONG, LONG, meter=Meter(1, "local")),
    OutputChunk("stdout", LONG.encode()),
    RichOutput("text/html", LONG),
    FileInfo(LONG, 3, is_dir=False),
    ManagedSandbox("sbx-1", "local", "running", datetime.now(UTC), {"a": LONG}),
    NetworkPolicy(allow=(LONG,)),
    AppliedPolicy(
        IsolationTier.CONTAINER,
        NetworkPolicy(),
        "own network namespace",
        True,
        300,
        memory_mb=AppliedCap(512, "cgroup v2 memory.max", verified=True),
        notes=(LONG,),
    ),
    Health(ok=False, detail=LONG, hint=LONG, facts=((LONG, LONG),)),
    SomeConfig(metadata={"a": LONG}, template=LONG),
    Meter(1, "local", 0, 1),
    Resources(cpu=1.5, memory_mb=512),
    AppliedCap(512, "cgroup v2 memory.max", verified=True),
    Capability.GPU,
    IsolationTier.MICROVM,
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: type(example).__name__)
def test_a_value_is_one_short_line(example: object) -> None:
    assert len(repr(example)) < LIMIT
    assert "\n" not in repr(example)


def test_every_value_has_an_example() -> None:
    classes = {
        value
        for name in models.__all__
        if inspect.isclass(value := getattr(models, name)) and value is not BackendConfig
    }
    assert classes - {type(example) for example in EXAMPLES} == set()


def test_a_result_shows_sizes_and_no_output() -> None:
    result = ExecResult(3, "secret output", "e", meter=Meter(12, "local"))
    assert repr(result) == "<ExecResult exit=3 stdout=13 stderr=1 characters 12 ms local>"
    streamed = ExecResult(0, "", "", streamed=True)
    assert repr(streamed) == "<ExecResult exit=0 streamed>"
    assert repr(OutputChunk("stderr", b"secret")) == "<OutputChunk stderr 6 bytes>"


def test_a_configuration_shows_what_was_set_and_neither_env_nor_secrets() -> None:
    config = SomeConfig(env={"A": "value"}, secrets={"B": "hidden"}, timeout=60, flavour="sour")
    assert repr(config) == "SomeConfig(timeout=60, flavour='sour')"


def test_an_error_of_a_failed_command_does_not_carry_its_output_on() -> None:
    result = ExecResult(1, "out", "the secret is hunter2!\n")
    with pytest.raises(errors.ExecutionError) as caught:
        result.raise_for_status()
    assert "hunter2!" not in str(caught.value) + repr(caught.value)
    assert caught.value.result is result


@pytest.mark.parametrize("message", [LONG, "\x00" * 500, "é✓" * 300])
def test_an_error_is_one_short_line(message: str) -> None:
    for name in errors.__all__:
        kind: Any = getattr(errors, name)
        if issubclass(kind, errors.SandboxError):
            more: dict[str, Any] = {}
            if issubclass(kind, errors.ResourceLimitExceeded):
                more = {"limit": "memory_mb"}
            if issubclass(kind, errors.ExecutionError):
                more = {"result": ExecResult(1, "", "")}
            assert len(repr(kind(message, **more))) < LIMIT


async def test_live_objects_tell_what_one_needs(
    host_backend: DriverBackend, sandbox: AsyncSandbox
) -> None:
    assert repr(host_backend) == "<DriverBackend host container>"
    assert repr(sandbox).startswith(f"<Sandbox host:{sandbox.id} container running caps=RUN_")
    assert repr(sandbox.files) == f"<Files of host:{sandbox.id}>"
    async with sandbox.stream(["true"]) as process:
        assert repr(process) == f"<Process host:{sandbox.id} running>"
        await process.wait()
        assert repr(process) == f"<Process host:{sandbox.id} exited 0>"
    for thing in (host_backend, sandbox, sandbox.files, process):
        assert len(repr(thing)) < LIMIT
    await sandbox.kill()
    assert "container killed caps=" in repr(sandbox)
