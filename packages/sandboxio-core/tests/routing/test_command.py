"""``sandboxio route``: the decision, for people and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import sandboxio
from sandboxio._cli import main
from sandboxio.errors import AuthError
from sandboxio.models import Health
from sandboxio.spi import DriverBackend

FILE = """\
backends:
  first: { adapter: command_first, priority: 1 }
  second: { adapter: command_second, regions: [eu] }
isolation_classes:
  standard: { backend: first }
  other: { backend: second }
routes:
  - match: { tool: run_python }
    class: other
default_class: standard
"""


@pytest.fixture
def drivers(driver: Any) -> tuple[Any, Any]:
    first, second = driver("first"), driver("second")
    for name, made in (("command_first", first), ("command_second", second)):
        sandboxio.register(name, lambda made=made: DriverBackend(made))
    return first, second


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "routing.yaml"
    path.write_text(FILE, encoding="utf-8")
    return str(path)


def test_json_and_text_say_the_same(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", "--file", file, "--json", "tool=run_python", "a=b"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["taken"], found["class"], found["labels"]) == (
        "second",
        "other",
        {"tool": "run_python", "a": "b"},
    )
    assert main(["route", "--file", file, "tool=run_python", "a=b"]) == 0
    text = capsys.readouterr().out
    assert "class other (routes[0]: tool=run_python)" in text
    assert "Taken: second (second)" not in text
    assert "Taken: second (command_second)" in text
    for candidate in found["candidates"]:
        assert candidate["name"] in text
        assert candidate["reason"] in text
    assert "\x1b[" not in text
    assert [one.requests for one in drivers] == [[], []]


def test_reason_of_several_lines_and_with_escapes_is_shown_in_one_place(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drivers[0].says = Health(False, "first line\nsecond \x1b[2Jline")
    assert main(["route", "--file", file]) == 0
    text = capsys.readouterr().out
    assert "first line second \\x1b[2Jline" in text
    assert "\x1b" not in text


def test_every_part_of_a_request_can_be_named(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["route", "--json", "--file", file, "--region", "eu", "--needs", "streaming"]
    assert main([*arguments, "--needs", "STDIN", "--isolation", "container"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["region"] == "eu"
    assert {"STREAMING", "STDIN"} <= set(found["needs"])
    assert main([*arguments, "--backend", "second"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pinned"], found["taken"]) == (True, "second")


def test_exit_code_is_1_when_nothing_can_be_taken(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in drivers:
        one.says = Health(False, "out of order")
    assert main(["route", "--file", file]) == 1
    assert "No backend can be taken." in capsys.readouterr().out
    assert main(["route", "--file", file, "--isolation", "microvm"]) == 1
    assert "its tier container is below microvm" in capsys.readouterr().out


def test_exit_code_is_1_when_the_credential_of_what_would_be_taken_is_refused(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    drivers[0].says = AuthError("the key was refused")
    assert main(["route", "--file", file]) == 1
    assert "would be taken, and fail with SBX_E1501" in capsys.readouterr().out
    assert main(["route", "--file", file, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["candidates"][0]["error_code"] == "SBX_E1501"


def test_a_bad_file_is_exit_code_1_with_the_fix(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("backends: 3\n", encoding="utf-8")
    assert main(["route", "--file", str(path)]) == 1
    shown = capsys.readouterr()
    assert "line 1, the routing file: the routing file has no" not in shown.out
    assert "SBX_E1000" in shown.err
    assert "Fix:" in shown.err


@pytest.mark.parametrize(
    "arguments", [["nothing"], ["=x"], ["--needs", "magic"], ["--isolation", "unknown"]]
)
def test_usage_errors_are_exit_code_2(
    arguments: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["route", "--file", file, *arguments])
    assert caught.value.code == 2
    assert "usage: sandboxio route" in capsys.readouterr().err


def test_a_label_given_twice_is_refused(
    drivers: tuple[Any, Any], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["route", "--file", file, "a=1", "a=2"]) == 1
    assert "given twice" in capsys.readouterr().err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["route", "--help"])
    assert caught.value.code == 0
    assert "tool=run_python" in capsys.readouterr().out
