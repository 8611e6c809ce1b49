"""Commands that other wheels add by a hook."""

from __future__ import annotations

import sys
from typing import Any

import pytest

GROUP = "sandboxio.commands"

PLUGIN = """
from sandboxio.spi import CommandPlugin, hookimpl
from sandboxio.errors import ConfigurationError

def add_arguments(parser):
    parser.add_argument("--code", type=int, default=0, help="100%% of it")

def run(options):
    print("ran", options.command, options.code)
    if options.code == 9:
        raise ConfigurationError("That is nine.", hint="Take eight.")
    return options.code

@hookimpl
def sandboxio_command():
    return CommandPlugin(
        name={name!r}, summary="greet 100% of them", add_arguments=add_arguments, run=run,
        examples=("sandboxio {name} --code 3",), description="First.\\n\\nSecond.",
    )
"""


def test_command_of_a_wheel_runs_with_its_arguments_and_exit_code(
    install: Any, command: Any
) -> None:
    install("sbx-test-greet", GROUP, "greet", PLUGIN.format(name="greet"))
    assert command("greet", "--code", "3") == command("greet", "--code=3")
    shown = command("greet", "--code", "3")
    assert (shown.code, shown.out, shown.err) == (3, "ran greet 3\n", "")
    assert command("greet", "--code", "x").code == 2
    failed = command("greet", "--code", "9")
    assert failed.code == 1
    assert "Fix:  Take eight." in failed.err


def test_help_of_a_command_of_a_wheel_ends_with_its_examples(install: Any, command: Any) -> None:
    install("sbx-test-greet", GROUP, "greet", PLUGIN.format(name="greet"))
    shown = command("greet", "--help")
    assert shown.code == 0
    assert shown.out.endswith("\nexamples:\n  sandboxio greet --code 3\n")
    assert "Greet 100% of them.\n\nFirst.\n\nSecond.\n" in shown.out


def test_help_lists_commands_of_wheels_and_loads_none(install: Any, command: Any) -> None:
    module = install("sbx-test-listed", GROUP, "listed", "raise SystemError('loaded')")
    shown = command("--help")
    assert shown.code == 0
    assert "added by sbx-test-listed" in shown.out
    assert command("route", "--help").code == 0
    assert module not in sys.modules


BROKEN = {
    "raises": "raise RuntimeError('broken on import')",
    "leaves": "import sys; sys.exit('I do not like it here')",
    "has no hook": "",
    "has a hook of another name": (
        "from sandboxio.spi import hookimpl\n@hookimpl\ndef sandboxio_commando(): ..."
    ),
    "returns something else": (
        "from sandboxio.spi import hookimpl\n@hookimpl\ndef sandboxio_command(): return 'broken'"
    ),
    "has another name": PLUGIN.format(name="other"),
    "has no example": PLUGIN.format(name="broken").replace(
        'examples=("sandboxio broken --code 3",)', "examples=()"
    ),
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_broken_command_is_said_and_stops_no_other(install: Any, command: Any, source: str) -> None:
    install("sbx-test-broken", GROUP, "broken", source)
    install("sbx-test-greet", GROUP, "greet", PLUGIN.format(name="greet"))
    shown = command("broken")
    assert (shown.code, shown.out) == (1, "")
    assert "'broken'" in shown.err
    assert "Fix:" in shown.err
    assert command("greet").code == 0
    assert command("--help").code == 0


def test_command_of_core_is_not_replaced(install: Any, command: Any) -> None:
    module = install("sbx-test-route", GROUP, "route", PLUGIN.format(name="route"))
    shown = command("route", "--help")
    assert "key=value" in shown.out
    assert module not in sys.modules


def test_backend_is_no_command_and_command_is_no_backend(install: Any, command: Any) -> None:
    from sandboxio._wiring.registry import Registry

    install("sbx-test-greet", GROUP, "greet", PLUGIN.format(name="greet"))
    assert "greet" not in Registry().installed()
    assert command("local").code == 2


def test_known_command_that_is_missing_comes_with_its_install_command(
    command: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandboxio._wiring import commands

    monkeypatch.setattr(commands, "names_in", lambda group: set())
    shown = command("mcp")
    assert (shown.code, shown.out) == (1, "")
    assert 'Fix:  uv pip install "sandboxio[mcp]"' in shown.err
    assert 'not installed: uv pip install "sandboxio[mcp]"' in " ".join(
        command("--help").out.split()
    )
