"""Environment, working directory, stdin and background processes of commands."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from sandboxio.errors import ConfigurationError, FileSystemError, PathNotFound
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._base import ContractBase, Maker, Names
from ._clause_mark import clause, needs
from ._oracle import Oracle
from ._probes import Probes
from ._pulse import Pulse
from ._running import AWKWARD

__all__ = ["SurroundingsContract", "environment"]

BAD_NAMES = ("", "A=B", "=", "A\0B")

MIB = 1 << 20


async def environment(
    sandbox: AsyncSandbox, probes: Probes, env: dict[str, str] | None = None
) -> dict[str, str]:
    """Return the environment that a command has."""
    result = await sandbox.run(probes.show_environment(), env=env)
    assert result.exit_code == 0, f"the probe show_environment() failed: {result}"
    pairs = (item.partition("=") for item in result.stdout.split("\0") if item)
    return {name: value for name, _, value in pairs}


class SurroundingsContract(ContractBase):
    """What a command finds when it starts, and what it may leave behind."""

    # ----- environment

    @clause("env.create")
    async def test_environment_of_create_is_everywhere(self, make: Maker) -> None:
        """If this fails, `env=` of `create()` is dropped, or only reaches the first process."""
        sandbox = await make(env={"SBX_ONE": "1", "SBX_TWO": "two words"})
        found = await environment(sandbox, self.probes)
        assert (found.get("SBX_ONE"), found.get("SBX_TWO")) == ("1", "two words")
        again = await environment(sandbox, self.probes, {"SBX_THREE": "3"})
        assert (again.get("SBX_ONE"), again.get("SBX_THREE")) == ("1", "3")

    @clause("env.call")
    async def test_environment_of_the_call_wins(self, make: Maker) -> None:
        """If this fails, `env=` of a call is dropped, or loses to that of `create()`."""
        sandbox = await make(env={"SBX_ONE": "of create", "SBX_TWO": "of create"})
        found = await environment(sandbox, self.probes, {"SBX_ONE": "of the call"})
        assert (found.get("SBX_ONE"), found.get("SBX_TWO")) == ("of the call", "of create")

    @clause("env.call-only")
    async def test_environment_of_a_call_ends_with_it(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, `env=` of a call changes the sandbox."""
        key = name("SBX").replace("-", "_")
        assert (await environment(sandbox, self.probes, {key: "x"})).get(key) == "x"
        assert key not in await environment(sandbox, self.probes)

    @clause("env.is-data")
    @pytest.mark.parametrize("value", AWKWARD, ids=range(len(AWKWARD)))
    async def test_value_arrives_as_it_is(self, sandbox: AsyncSandbox, value: str) -> None:
        """If this fails, values go through a shell, or through a file with lines."""
        assert (await environment(sandbox, self.probes, {"SBX_VALUE": value}))["SBX_VALUE"] == value

    @clause("env.odd-names")
    @pytest.mark.parametrize("key", ["A B", "A;id", "1A", "a.b", "ü"])
    async def test_odd_name_arrives(self, sandbox: AsyncSandbox, key: str) -> None:
        """If this fails, names go through a shell, which drops or runs them."""
        assert (await environment(sandbox, self.probes, {key: "x"})).get(key) == "x"

    @clause("env.overrides")
    @pytest.mark.parametrize("key", ["PATH", "HOME", "LD_PRELOAD", "BASH_ENV", "PYTHONPATH"])
    async def test_variable_can_be_replaced(self, sandbox: AsyncSandbox, key: str) -> None:
        """If this fails, the adapter starts a program of its own with the caller's variables."""
        value = "/bin:/usr/bin" if key == "PATH" else ""
        assert (await environment(sandbox, self.probes, {key: value})).get(key) == value

    @clause("env.nothing-inherited")
    async def test_nothing_of_the_caller_is_inherited(
        self, make: Maker, name: Names, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If this fails, this process's environment is handed down, credentials included."""
        canary = name("canary")
        monkeypatch.setenv("SBX_CANARY", canary)
        sandbox = await make(env={"SBX_OWN": f"own-{canary}"})
        assert "SBX_CANARY" not in await environment(sandbox, self.probes)
        own = await sandbox.run(self.probes.environments_with(f"own-{canary}"))
        assert own.stdout.strip(), "the probe environments_with() does not find what is there"
        seen = await sandbox.run(self.probes.environments_with(f"SBX_CANARY={canary}"))
        assert seen.stdout == ""

    @clause("env.bad-names")
    @pytest.mark.parametrize("key", BAD_NAMES, ids=repr)
    async def test_impossible_name_is_refused(self, sandbox: AsyncSandbox, key: str) -> None:
        """If this fails, a name changes meaning on its way, such as `A=B` with value `C`."""
        with pytest.raises(ConfigurationError):
            await sandbox.run(self.probes.exit(0), env={key: "x"})

    # ----- working directory

    @clause("cwd.default")
    async def test_commands_start_in_the_working_directory(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, commands start somewhere else each time."""
        path = name("file")
        await sandbox.run(self.probes.write_file(path, "here"))
        where = (await sandbox.run(self.probes.show_directory())).stdout.strip()
        assert where.startswith("/")
        assert (await sandbox.run(self.probes.show_file(f"{where}/{path}"))).stdout == "here"

    @clause("cwd.given")
    async def test_cwd_is_where_a_command_starts(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, `cwd=` is dropped, or a relative one starts elsewhere."""
        folder = name("folder with a 'quote'")
        where = (await sandbox.run(self.probes.show_directory())).stdout.strip()
        made = await sandbox.run(self.probes.make_many(folder, 1))
        assert made.exit_code == 0, f"the probe make_many() failed: {made}"
        for cwd in (folder, f"{where}/{folder}"):
            result = await sandbox.run(self.probes.show_directory(), cwd=cwd)
            assert result.stdout.strip() == f"{where}/{folder}"
        assert (await sandbox.run(self.probes.show_directory(), cwd="/")).stdout.strip() == "/"

    @clause("cwd.missing")
    async def test_missing_cwd_is_path_not_found(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, a missing directory became an exit code of the shell's."""
        with pytest.raises(PathNotFound):
            await sandbox.run(self.probes.exit(0), cwd=name("missing"))

    @clause("cwd.not-a-directory")
    async def test_cwd_that_is_a_file_is_an_error(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, a wrong directory became an exit code, or is said to be missing."""
        path = name("file")
        await sandbox.run(self.probes.write_file(path, ""))
        with pytest.raises(FileSystemError) as caught:
            await sandbox.run(self.probes.exit(0), cwd=path)
        assert not isinstance(caught.value, PathNotFound)

    # ----- stdin

    @clause("stdin.empty")
    async def test_stdin_is_at_its_end(self, sandbox: AsyncSandbox) -> None:
        """If this fails, commands inherit a stdin that stays open, and `cat` never ends."""
        result = await sandbox.run(self.probes.count_stdin())
        assert result.stdout.strip() == "0"

    @needs(Capability.STDIN)
    @clause("stdin.given")
    @pytest.mark.parametrize(
        "data", [b"", b"x", b"no newline", b"\0\xff\r\n\x04\x1a", "ümlaut"], ids=repr
    )
    async def test_stdin_arrives_as_it_is(self, sandbox: AsyncSandbox, data: bytes | str) -> None:
        """If this fails, look for a terminal, for text mode, or for an end that is not sent."""
        result = await sandbox.run(self.probes.copy_stdin(), stdin=data)
        raw = data.encode() if isinstance(data, str) else data
        assert result.stdout == raw.decode("utf-8", "backslashreplace")

    @needs(Capability.STDIN)
    @clause("stdin.large")
    async def test_ten_mib_go_in_and_out(self, sandbox: AsyncSandbox) -> None:
        """If this fails, output is only read when all input is written: both sides wait."""
        data = bytes(range(32, 127)) * (10 * MIB // 95)
        result = await sandbox.run(self.probes.copy_stdin(), stdin=data)
        assert len(result.stdout) == len(data)
        assert result.stdout.encode() == data

    @needs(Capability.STDIN)
    @clause("stdin.not-read")
    async def test_unread_stdin_delays_nothing(self, sandbox: AsyncSandbox) -> None:
        """If this fails, writing to a command that has ended is waited for, or is an error."""
        result = await sandbox.run(self.probes.exit(3), stdin=b"x" * MIB)
        assert result.exit_code == 3

    @needs(Capability.STDIN)
    @clause("stdin.refused")
    @pytest.mark.parametrize("data", [7, ["x"], object()], ids=["int", "list", "object"])
    async def test_wrong_stdin_is_refused(self, sandbox: AsyncSandbox, data: Any) -> None:
        """If this fails, a wrong argument raises a builtin exception, or is ignored."""
        with pytest.raises(ConfigurationError):
            await sandbox.run(self.probes.copy_stdin(), stdin=data)

    # ----- background

    @clause("background.not-awaited")
    async def test_background_child_is_not_awaited(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, `run()` waits for the end of the pipes instead of the command's."""
        path = name("beat")
        result = await sandbox.run(self.probes.leave_a_heartbeat(path, b"at once"))
        assert (result.exit_code, result.stdout) == (0, "at once")
        await pulse.lives(path)

    @clause("background.lives-on")
    async def test_background_child_lives_on(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the end of a command ends its process group or session."""
        path = name("beat")
        await sandbox.run(self.probes.leave_a_daemon(path))
        await pulse.begun(path)
        await sandbox.run(self.probes.exit(0))
        await pulse.lives(path)
        await pulse.lives(path)

    @clause("background.daemon")
    async def test_client_reaches_a_server_of_an_earlier_command(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, the server died with its command, or the loopback is down."""
        sandbox = await make()
        path = name("port")
        server = shlex.join(self.probes.serve(path))
        await sandbox.run(f"{server} < /dev/null > /dev/null 2>&1 &")
        pulse = self.pulse_of(sandbox, oracle)
        await pulse.begun(path)
        port = int((await sandbox.run(self.probes.show_file(path))).stdout)
        result = await sandbox.run(self.probes.reach("tcp", "127.0.0.1", port, name("token")))
        assert result.stdout == "reached\n", result
