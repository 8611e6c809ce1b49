"""From a name to a backend: what is registered, what is installed, and what is broken."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandboxio._api.targets import _once
from sandboxio._wiring.registry import Registry
from sandboxio.errors import BackendNotFound, BackendNotInstalled, ConfigurationError
from sandboxio.models import NetworkPolicy
from sandboxio.protocols import DEFAULT_NETWORK

PLUGIN = """
from dataclasses import dataclass, field
from sandboxio.models import BackendConfig
from sandboxio.spi import BackendPlugin, DsnParameter, hookimpl

@dataclass(frozen=True, kw_only=True)
class Config(BackendConfig):
    region: str = "here"
    hidden: str = field(default="", repr=False)
    options: tuple = ()
    @property
    def backend(self): return {name!r}

class Backend:
    made = []
    def __init__(self, config):
        self.config = config
        Backend.made.append(self)

@hookimpl
def sandboxio_backend():
    return BackendPlugin(
        name={name!r}, summary="s", factory=Backend, config=Config,
        dsn_parameters=(DsnParameter(name="region", type=str, summary="s"),),
    )
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns a function that installs a wheel in name only: metadata, and a module."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(wheel: str, name: str, source: str | None = None) -> str:
        module = wheel.replace("-", "_")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {wheel}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[sandboxio]\n{name} = {module}\n")
        text = PLUGIN.format(name=name) if source is None else source
        (tmp_path / f"{module}.py").write_text(text)
        monkeypatch.delitem(sys.modules, module, raising=False)
        return module

    return make


def test_installed_names_come_from_metadata_and_load_nothing(install: Any) -> None:
    module = install("sbx-test-listed", "listed", "raise SystemError('loaded')")
    registry = Registry()
    assert "listed" in registry.installed()
    assert "listed" in registry.names()
    assert module not in sys.modules


def test_plugin_is_loaded_by_name_and_makes_one_backend_for_equal_options(install: Any) -> None:
    install("sbx-test-good", "good")
    registry = Registry()
    config: Any = registry.plugin("good").config
    first: Any = registry.configured(config(timeout=1))
    assert registry.configured(config(timeout=2, template="t")) is first
    assert registry.backend("good") is first
    other: Any = registry.configured(config(region="there"))
    assert other is not first
    assert other.config.region == "there"


def test_options_that_a_representation_hides_are_told_apart(install: Any) -> None:
    install("sbx-test-hidden", "hidden")
    registry = Registry()
    config: Any = registry.plugin("hidden").config
    assert registry.configured(config(hidden="a")) is not registry.configured(config(hidden="b"))
    assert registry.configured(config(options=[1])) is registry.configured(config(options=[1]))


BROKEN = {
    "raises": "raise RuntimeError('broken on import')",
    "imports what is not there": "import no_such_module_at_all",
    "has no hook": "",
    "has a hook of another name": (
        "from sandboxio.spi import hookimpl\n@hookimpl\ndef sandboxio_backed(): ..."
    ),
    "hook raises": (
        "from sandboxio.spi import hookimpl\n@hookimpl\ndef sandboxio_backend(): raise ValueError"
    ),
    "returns something else": (
        "from sandboxio.spi import hookimpl\n@hookimpl\ndef sandboxio_backend(): return 'broken'"
    ),
    "has another name": PLUGIN.format(name="other"),
}


@pytest.mark.parametrize("source", BROKEN.values(), ids=BROKEN)
def test_broken_plugin_is_said_and_stops_no_other(install: Any, source: str) -> None:
    install("sbx-test-broken", "broken", source)
    install("sbx-test-fine", "fine")
    registry = Registry()
    with pytest.raises(BackendNotFound, match="broken") as caught:
        registry.plugin("broken")
    assert "broken" in caught.value.hint
    assert registry.plugin("fine").name == "fine"


def test_two_wheels_of_one_name_are_refused_by_their_names(install: Any) -> None:
    install("sbx-test-one", "twice")
    install("sbx-test-two", "twice")
    with pytest.raises(BackendNotFound, match="sbx-test-one, sbx-test-two"):
        Registry().plugin("twice")


@pytest.mark.parametrize("name", ["docker", "e2b", "local", "fake"])
def test_known_backend_that_is_missing_comes_with_its_install_command(name: str) -> None:
    code = (
        "import sys; from importlib import metadata; metadata.entry_points = lambda **_: ()\n"
        "from sandboxio._wiring.registry import Registry\n"
        f"Registry().plugin({name!r})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert BackendNotInstalled.__name__ in answer.stderr
    assert "uv pip install" in answer.stderr


def test_registered_wins_over_installed_and_is_made_once(install: Any) -> None:
    install("sbx-test-both", "both")
    made: list[object] = []

    def make() -> Any:
        made.append(object())
        return made[-1]

    registry = Registry()
    registry.register("both", make)
    assert registry.backend("both") is registry.backend("both") is made[0]
    registry.register("both", make)
    assert registry.backend("both") is made[1]
    assert len(made) == 2


def test_string_target_is_imported_at_first_use(install: Any) -> None:
    module = install("sbx-test-string", "unused", "class Thing: pass\n")
    registry = Registry()
    registry.register("thing", f"{module}:Thing")
    assert module not in sys.modules
    assert type(registry.backend("thing")).__name__ == "Thing"
    for target in (f"{module}:Missing", "no_such_module_at_all:Thing"):
        registry.register("thing", target)
        with pytest.raises(BackendNotFound, match="cannot be imported"):
            registry.backend("thing")


@pytest.mark.parametrize("name", ["", "a b", "a-b", "1", None, 1, b"x"])
def test_name_that_no_dsn_can_have_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError):
        Registry().register(name, "a:b")


@pytest.mark.parametrize("target", ["", "a", "a:", ":b", None, 1, b"a:b"])
def test_target_that_makes_no_backend_is_refused(target: Any) -> None:
    with pytest.raises(ConfigurationError):
        Registry().register("name", target)


# ----- arguments and configuration


ALLOW, DENY = NetworkPolicy(egress="allow"), NetworkPolicy()


def test_value_is_taken_from_where_it_is_given() -> None:
    assert _once("template", None, "a") == "a"
    assert _once("template", "a", None) == "a"
    assert _once("template", "a", "a") == "a"
    assert _once("timeout", 300, 60.0) == 60.0
    with pytest.raises(ConfigurationError, match="given twice"):
        _once("template", "a", "b")


def test_network_that_is_denied_in_so_many_words_is_not_allowed_by_configuration() -> None:
    assert _once("network", DEFAULT_NETWORK, ALLOW, given=False) == ALLOW
    assert _once("network", ALLOW, DENY, given=True) == ALLOW
    assert _once("network", DENY, DENY, given=True) == DENY
    with pytest.raises(ConfigurationError, match="given twice"):
        _once("network", DENY, ALLOW, given=True)
