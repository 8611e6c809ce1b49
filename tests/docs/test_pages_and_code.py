"""What pages say of the code is what the code says of itself."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

import docs_messages
import gen_cli
import gen_llms
import sandboxio
import workspace
from sandboxio.spi import BackendPlugin

DOCS = workspace.ROOT / "docs"
BACKENDS = ("local", "docker", "e2b")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def plugin(name: str) -> BackendPlugin:
    module = import_module(f"sandboxio_{name}._plugin")
    found = module.sandboxio_backend()
    assert isinstance(found, BackendPlugin)
    return found


# --- troubleshooting

HEADINGS = re.findall(r"^### (.+)$", text_of("troubleshooting.md"), re.MULTILINE)


@pytest.fixture(scope="module")
def messages() -> set[str]:
    return docs_messages.messages()


def test_troubleshooting_has_messages() -> None:
    assert len(HEADINGS) > 20


@pytest.mark.parametrize("heading", HEADINGS)
def test_heading_is_a_message_of_the_code_word_for_word(heading: str, messages: set[str]) -> None:
    message = re.fullmatch(r"`(.+)`", heading)
    assert message, "a heading is a message, in backticks"
    assert message[1] in messages


# --- the diagram


def contract(name: str) -> list[list[str]]:
    contracts = workspace.root_settings()["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["id"] == name)
    return [re.findall(r"\w+", layer) for layer in layers]


def test_boxes_of_the_diagram_are_the_layers_that_are_enforced() -> None:
    page = text_of("explanation/architecture.md")
    boxes = [re.findall(r"`(\w+)`", line) for line in page.splitlines() if "<span>" in line]
    wheels, core = contract("wheels")
    assert core == ["sandboxio"]
    assert boxes[:-1] == contract("core")
    assert sorted(boxes[-1]) == sorted(wheels)


# --- tiers


def rows(page: Path) -> dict[str, str]:
    """Backend → its line in the table of tiers."""
    found = re.findall(r"^\| `(\w+)://.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    lines = page.read_text(encoding="utf-8").splitlines()
    return {
        name: next(line for line in lines if line.startswith(f"| `{name}://")) for name in found
    }


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("page", ["README.md", "docs/explanation/isolation-tiers.md"])
def test_table_of_tiers_says_what_the_plugin_declares(page: str, name: str) -> None:
    row = rows(workspace.ROOT / page)[name]
    declared = plugin(name)
    assert f"`{declared.isolation.name}`" in row
    assert declared.isolation_date in row
    address = re.match(r"https://\S+", declared.isolation_evidence or "")
    if address:
        assert f"({address[0]})" in row


# --- configuration


def variables_in_the_source() -> set[str]:
    found: set[str] = set()
    for member in workspace.members():
        for path in (member.folder / "src").rglob("*.py") if member.package else ():
            found |= set(re.findall(r"[\"'](SBX_[A-Z_]+[A-Z])[\"']", path.read_text()))
    return found


def test_every_variable_is_documented_and_every_documented_one_is_read() -> None:
    documented = set(re.findall(r"`(SBX_[A-Z_]+[A-Z])`", text_of("reference/configuration.md")))
    made_up = {name for name in variables_in_the_source() if name in EXAMPLES_OF_THE_SUITE}
    assert documented == variables_in_the_source() - made_up


EXAMPLES_OF_THE_SUITE = {
    *("SBX_ONE", "SBX_TWO", "SBX_THREE", "SBX_OTHER", "SBX_OWN", "SBX_VALUE"),
    *("SBX_API_KEY", "SBX_SECRET", "SBX_TOKEN", "SBX_CANARY", "SBX_PASSWORD"),
}
"""Variables that the contract suite sets inside of sandboxes."""


@pytest.mark.parametrize("name", BACKENDS)
def test_options_of_dsns_are_those_of_the_plugin(name: str) -> None:
    page = text_of("reference/configuration.md")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}://` |"))
    options = re.findall(r"`(\w+)`", row.split("|")[3])
    assert options == [parameter.name for parameter in plugin(name).dsn_parameters]


# --- generated pages that are made without running anything


@pytest.mark.parametrize("make", [gen_cli.main, gen_llms.main], ids=["cli", "llms"])
def test_generated_page_is_current(
    make: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert make([]) == 0, capsys.readouterr().out


def test_every_page_of_the_navigation_is_in_llms_txt() -> None:
    listed = text_of("llms.txt")
    for _, path in gen_llms.navigation():
        assert f"({gen_llms.address(path)})" in listed


def test_one_file_for_assistants_has_the_pages_that_tell_how() -> None:
    text = gen_llms.full()
    for _, path in gen_llms.navigation():
        left_out = path.startswith(gen_llms.LEFT_OUT)
        assert (f"<!-- {gen_llms.address(path)} -->" in text) is not left_out
    assert len(text) < 250_000, "it has to fit into the context of a model"


def test_every_example_is_on_the_front_page() -> None:
    examples = {
        path.relative_to(DOCS).as_posix()
        for path in (DOCS / "examples").rglob("*.py")
        if path.name != "conftest.py"
    }
    linked = set(re.findall(r"\]\((examples/[^)]+\.py)\)", text_of("index.md")))
    assert linked == examples


# --- the snippet for assistants

SNIPPET = text_of("reference/agents-snippet.md").partition("````markdown")[2].partition("````")[0]
CODE = re.findall(r"`([^`]+)`", SNIPPET)


def words(pattern: str) -> list[str]:
    return sorted({word for code in CODE for word in re.findall(pattern, code)})


def callables() -> list[Callable[..., object]]:
    """Whatever has parameters and is public: functions, methods of ports, values."""
    found: list[Callable[..., object]] = []
    for name in sandboxio.__all__:
        value = getattr(sandboxio, name)
        if inspect.isfunction(value):
            found.append(value)
        elif isinstance(value, type):
            found += [value, *(each for _, each in inspect.getmembers(value, inspect.isfunction))]
    return found


def parameters() -> set[str]:
    found: set[str] = set()
    for each in callables():
        try:
            found |= set(inspect.signature(each).parameters)
        except ValueError:
            continue  # an enum, or another class that is not called
    return found


def members() -> set[str]:
    from sandboxio.testing import FakeBackend

    kinds = [getattr(sandboxio, name) for name in sandboxio.__all__]
    found = {name for kind in [*kinds, FakeBackend] for name in dir(kind)}
    # Attributes of values and errors are annotations, and of instances.
    for kind in kinds:
        found |= set(getattr(kind, "__annotations__", ()))
    return found | set(vars(sandboxio.SandboxError("")))


@pytest.mark.parametrize("name", words(r"\bsandboxio\.(\w+)"))
def test_snippet_names_what_sandboxio_has(name: str) -> None:
    assert name in sandboxio.__all__


@pytest.mark.parametrize("name", words(r"\b([A-Z][a-z]+(?:[A-Z][a-z]*)+|Capability)\b"))
def test_snippet_names_classes_that_exist(name: str) -> None:
    from sandboxio import testing

    builtin = {"TimeoutError"}
    assert name in {*sandboxio.__all__, *dir(testing), *builtin} or hasattr(testing, name)


@pytest.mark.parametrize("name", words(r"\b(?:Capability|IsolationTier)\.(\w+)"))
def test_snippet_names_members_that_exist(name: str) -> None:
    assert hasattr(sandboxio.Capability, name) or hasattr(sandboxio.IsolationTier, name)


@pytest.mark.parametrize("name", words(r"\b(\w+)="))
def test_snippet_names_parameters_that_exist(name: str) -> None:
    assert name in parameters()


@pytest.mark.parametrize(
    "name", words(r"(?:\bsandbox|\bprocess|\bchunk|\bfiles|^)\.(\w+)") + words(r"^([a-z_]+)$")
)
def test_snippet_names_attributes_that_exist(name: str) -> None:
    from sandboxio_testing import plugin as fixtures

    assert name in members() | parameters() or hasattr(fixtures, name)


@pytest.mark.parametrize("name", words(r"\b(\w+)://"))
def test_snippet_names_backends_that_exist(name: str) -> None:
    from sandboxio.spi import default_registry

    assert name == "auto" or default_registry().plugin(name).name == name


@pytest.mark.parametrize("name", words(r"^sandboxio (\w+)"))
def test_snippet_names_commands_that_exist(name: str) -> None:
    assert name in {command for command, _ in gen_cli.commands()}
