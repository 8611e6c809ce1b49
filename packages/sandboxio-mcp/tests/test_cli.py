"""From arguments and variables to the configuration, which is fixed from then on."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from sandboxio.errors import ConfigurationError
from sandboxio.models import IsolationTier, NetworkPolicy, Resources
from sandboxio_mcp import HttpConfig, ServerConfig, WorkingFile
from sandboxio_mcp._options import add_arguments, http_config, server_config

BOUND = 60.0

WITHOUT_THE_WHEEL = """
import runpy, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "sandboxio_mcp":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
runpy.run_module("sandboxio.mcp", run_name="__main__")
"""


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(arguments)


def config(*arguments: str) -> ServerConfig:
    return server_config(parsed(*arguments))


def http(*arguments: str) -> HttpConfig:
    return http_config(parsed(*arguments))


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("SBX_MCP_"):
            monkeypatch.delenv(name)


def test_nothing_said_means_the_defaults_of_the_library_and_loopback() -> None:
    assert config() == ServerConfig()
    assert http() == HttpConfig(host="127.0.0.1", port=8000)
    assert config().network is None


def test_every_argument_arrives(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("")
    assert config(
        *("--backend", "local://", "--template", "t", "--egress", "deny", "--allow", "a.example,b"),
        *("--cpu", "0.5", "--memory-mb", "64", "--disk-mb", "65", "--processes", "66"),
        *("--require-isolation", "microvm", "--timeout", "1", "--lifetime", "2"),
        *("--start-timeout", "3", "--idle", "4", "--progress-interval", "0.5"),
        *("--file", str(file), "--file", f"{file}:data/b.csv"),
    ) == ServerConfig(
        backend="local://",
        template="t",
        network=NetworkPolicy(egress="deny", allow=("a.example", "b")),
        resources=Resources(cpu=0.5, memory_mb=64, disk_mb=65, processes=66),
        require_isolation=IsolationTier.MICROVM,
        call_timeout=1,
        lifetime=2,
        start_timeout=3,
        idle=4,
        progress_interval=0.5,
        files=(WorkingFile(file, "a.csv"), WorkingFile(file, "data/b.csv")),
    )


def test_a_variable_says_what_an_argument_says_and_the_argument_wins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SBX_MCP_BACKEND", "local://")
    monkeypatch.setenv("SBX_MCP_TIMEOUT", "7")
    monkeypatch.setenv("SBX_MCP_MEMORY_MB", "")
    assert (config().backend, config().call_timeout) == ("local://", 7)
    assert config().resources.memory_mb is None
    assert config("--backend", "docker://").backend == "docker://"


def test_a_variable_that_makes_no_sense_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SBX_MCP_TIMEOUT", "soon")
    with pytest.raises(SystemExit) as ended:
        parsed()
    assert ended.value.code == 2
    assert "--timeout" in capsys.readouterr().err


def test_a_choice_in_a_variable_is_checked_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SBX_MCP_EGRESS", "everything")
    with pytest.raises(SystemExit) as ended:
        config()
    assert ended.value.code == 2
    assert "none of deny, allow" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["missing", "folder", "link"])
def test_a_working_file_is_a_regular_file_and_no_link(tmp_path: Path, what: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="regular file"):
        config("--file", str(tmp_path / what))


def test_the_token_comes_from_a_variable_or_a_file_and_never_from_an_argument(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("from-a-file-of-mine\n")
    monkeypatch.setenv("SBX_MCP_TOKEN", "from-the-environment")
    assert http().token == "from-the-environment"
    assert http("--token-file", str(tmp_path / "token")).token == "from-a-file-of-mine"
    with pytest.raises(ConfigurationError, match="cannot be read"):
        http("--token-file", str(tmp_path / "none"))


def test_a_token_that_was_given_as_an_argument_is_refused_and_not_repeated() -> None:
    # To a parser that completes names, --token is --token-file.
    with pytest.raises(ConfigurationError) as refused:
        http("--token", "as-an-argument-of-mine")
    assert "mine" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_an_empty_token_file_does_not_open_the_server(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(ConfigurationError, match="token must have"):
        http("--token-file", str(tmp_path / "token"), "--host", "0.0.0.0")


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(ConfigurationError, match="port"):
        http("--port", port)


def test_no_room_for_a_session_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="room"):
        http("--max-sessions", "0")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["sandboxio._cli mcp", "sandboxio.mcp", "sandboxio_mcp"])
def test_each_way_to_start_it_reads_the_configuration(module: str) -> None:
    command = [sys.executable, "-m", *module.split(), "--check", "--backend", "local://"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("would serve on stdio\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--host", "0.0.0.0", "--transport", "streamable-http"], 1, "SBX_MCP_TOKEN"),
        (["--timeout", "0"], 1, "call_timeout"),
        (["--file", "/nonexistent"], 1, "regular file"),
        (["--transport", "carrier-pigeon"], 2, "--transport"),
        (["--host", "256.1.1.1", "--transport", "streamable-http"], 1, "no token"),
    ],
)
def test_a_configuration_that_cannot_be_ends_the_server_at_once(
    arguments: list[str], code: int, words: str
) -> None:
    command = [sys.executable, "-m", "sandboxio_mcp", *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=BOUND,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_help_is_read_without_loading_the_sdk() -> None:
    program = (
        "import argparse, sys; from sandboxio_mcp import _plugin, cli;"
        "plugin = _plugin.sandboxio_command(); plugin.add_arguments(argparse.ArgumentParser());"
        "print([name for name in ('mcp', 'anyio', 'uvicorn', 'pydantic') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_without_the_wheel_its_other_name_says_how_to_install_it() -> None:
    command = [sys.executable, "-c", WITHOUT_THE_WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 1
    assert 'uv pip install "sandboxio[mcp]"' in done.stderr
    assert "Traceback" not in done.stderr
