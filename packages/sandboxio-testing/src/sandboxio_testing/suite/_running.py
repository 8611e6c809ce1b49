"""Exit codes, output and arguments of commands."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from sandboxio.errors import ConfigurationError, OutputLimitExceeded
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._base import ContractBase, Names
from ._bounds import GRACE
from ._clause_mark import clause, needs
from ._descriptors import open_descriptors
from ._pulse import Pulse

__all__ = ["RunningContract"]

MIB = 1 << 20

COMMANDS = 20
"""Commands after which a descriptor that each of them leaves stands out."""

AWKWARD = (
    "plain",
    "",
    " spaces at both ends ",
    "'single' and \"double\" quotes",
    "back\\slash at the end \\",
    "$HOME ${HOME} $(id) `id` $((1+1))",
    "* ? [a-z] ~ {a,b}",
    "a;b|c&d>e<f!g#h(i)",
    "two\nlines\n",
    "tab\tand\rreturn",
    "-n",
    "--help",
    "--",
    "ümlaut, 日本, 👩🏽\u200d🚀",
    "%s %d %%",
)
"""Texts that only arrive whole where nothing on the way takes them for more than data."""

BAD_COMMANDS: tuple[Any, ...] = ([], [""], "", "  ", ["a\0b"], [1], 7, None, b"true", {"a": "b"})


class RunningContract(ContractBase):
    """What a command is, and what comes back of it."""

    # ----- exit codes

    @clause("exec.exit-code")
    @pytest.mark.parametrize("code", [0, 1, 3, 255])
    async def test_exit_code_is_the_commands_own(self, sandbox: AsyncSandbox, code: int) -> None:
        """If this fails, look for a shell or a wrapper whose own exit code is reported."""
        assert (await sandbox.run(self.probes.exit(code))).exit_code == code

    @needs(Capability.STREAMING)
    @clause("exec.exit-code-streamed")
    @pytest.mark.parametrize("code", [0, 3, 255])
    async def test_exit_code_of_a_stream_is_the_commands_own(
        self, sandbox: AsyncSandbox, code: int
    ) -> None:
        """If this fails, `wait()` and `returncode` have another source than `run()`."""
        async with sandbox.stream(self.probes.exit(code)) as process:
            result = await process.wait()
            assert (result.exit_code, process.returncode) == (code, code)

    @clause("exec.exit-code-background")
    async def test_exit_code_is_kept_beside_a_background_child(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, the exit code is asked for when the command has been forgotten."""
        path = name("beat")
        result = await sandbox.run(self.probes.leave_a_heartbeat(path, b"left", 3))
        assert (result.exit_code, result.stdout) == (3, "left")
        await pulse.begun(path)

    @clause("exec.signalled")
    @pytest.mark.parametrize("signum", [9, 15])
    async def test_signal_is_exit_code_128_plus_n(self, sandbox: AsyncSandbox, signum: int) -> None:
        """If this fails, the provider reports signals in another way (-9, 9, 1)."""
        assert (await sandbox.run(self.probes.die_of(signum))).exit_code == 128 + signum

    @clause("exec.not-found")
    @pytest.mark.parametrize("by", ["list", "shell"])
    async def test_unknown_program_is_127(self, sandbox: AsyncSandbox, by: str) -> None:
        """If this fails, the provider reports a failed start as 126, as 1, or as an error."""
        program = self.probes.missing_program
        result = await sandbox.run([program] if by == "list" else program)
        assert (result.exit_code, result.stdout) == (127, "")
        assert result.stderr.strip(), "nothing on stderr says what is wrong"

    @clause("exec.not-executable")
    async def test_file_that_is_no_program_is_126(self, sandbox: AsyncSandbox) -> None:
        """If this fails, the provider reports a failed start as 127, as 1, or as an error."""
        result = await sandbox.run([self.probes.not_executable])
        assert (result.exit_code, result.stdout) == (126, "")
        assert result.stderr.strip(), "nothing on stderr says what is wrong"

    @clause("exec.no-interpreter")
    async def test_script_without_its_interpreter_says_so(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, a failed start became an error of the provider's, or a silent one."""
        script = f"./{name('script')}"
        await sandbox.run(self.probes.write_file(script, "#!/no/such/interpreter\n"))
        made = await sandbox.run(self.probes.change_mode("755", script))
        assert made.exit_code == 0, f"the probe change_mode() failed: {made}"
        result = await sandbox.run([script])
        assert result.exit_code in (126, 127), result
        assert result.stdout == ""
        assert result.stderr.strip(), "nothing on stderr says what is wrong"

    # ----- output

    @clause("exec.streams-apart")
    async def test_stdout_and_stderr_are_apart(self, sandbox: AsyncSandbox) -> None:
        """If this fails, look for a terminal: on one, both streams are the same."""
        result = await sandbox.run(self.probes.say(b"to stdout\n", b"to stderr\n"))
        assert (result.stdout, result.stderr) == ("to stdout\n", "to stderr\n")

    @clause("exec.last-line")
    async def test_last_line_needs_no_newline(self, sandbox: AsyncSandbox) -> None:
        """If this fails, output is read line by line."""
        result = await sandbox.run(self.probes.say(b"first\nlast", b"one\ntwo"))
        assert (result.stdout, result.stderr) == ("first\nlast", "one\ntwo")

    @clause("exec.no-output")
    async def test_no_output_is_an_empty_text(self, sandbox: AsyncSandbox) -> None:
        """If this fails, "nothing" comes as `None`, or as text of the provider's."""
        result = await sandbox.run(self.probes.exit(0))
        assert (result.stdout, result.stderr) == ("", "")

    @clause("exec.nul")
    async def test_nul_and_returns_arrive(self, sandbox: AsyncSandbox) -> None:
        """If this fails, look for text mode, or for C strings on the way."""
        result = await sandbox.run(self.probes.say(b"a\0b\0", b"10%\r20%\r\n"))
        assert (result.stdout, result.stderr) == ("a\0b\0", "10%\r20%\r\n")

    @clause("exec.undecodable")
    async def test_bytes_that_are_not_utf8_are_escaped(self, sandbox: AsyncSandbox) -> None:
        """If this fails, decoding raises, or replaces what it cannot decode."""
        result = await sandbox.run(self.probes.say(b"\xff\xfe\x00x\xc3", b"\x80"))
        assert (result.stdout, result.stderr) == ("\\xff\\xfe\0x\\xc3", "\\x80")

    @clause("exec.split-character")
    async def test_character_in_pieces_arrives_whole(self, sandbox: AsyncSandbox) -> None:
        """If this fails, each chunk is decoded by itself."""
        first, second, third, fourth = (bytes([byte]) for byte in "🙂".encode())
        command = self.probes.say_in_turn(
            ("stdout", first),
            ("stdout", second),
            ("stderr", b"between"),
            ("stdout", third),
            ("stdout", fourth),
        )
        result = await sandbox.run(command)
        assert (result.stdout, result.stderr) == ("🙂", "between")

    @clause("exec.multibyte")
    async def test_long_multibyte_output_arrives_whole(self, sandbox: AsyncSandbox) -> None:
        """If this fails, characters are broken where chunks are."""
        result = await sandbox.run(self.probes.repeat("日本語", 34_000))
        assert len(result.stdout) == 102_000
        assert result.stdout == "日本語" * 34_000

    @clause("exec.both-streams")
    async def test_much_output_on_both_streams_arrives(self, sandbox: AsyncSandbox) -> None:
        """If this fails, output is cut (often at 64 KiB), or its last part is lost at the end."""
        size = 300_000
        result = await sandbox.run(self.probes.flood_both(size, b"\nlast words", 1))
        assert (len(result.stdout), len(result.stderr)) == (size, size + 11)
        assert result.stdout == "o" * size
        assert result.stderr == "e" * size + "\nlast words"
        assert result.exit_code == 1

    @clause("exec.long-line")
    async def test_line_of_5_mib_arrives_whole(self, sandbox: AsyncSandbox) -> None:
        """If this fails, there is a limit on the length of a line."""
        result = await sandbox.run(self.probes.repeat("x", 5 * MIB))
        assert len(result.stdout) == 5 * MIB
        assert result.stdout.count("x") == 5 * MIB

    @clause("exec.order")
    async def test_order_within_a_stream_is_kept(self, sandbox: AsyncSandbox) -> None:
        """If this fails, chunks overtake each other."""
        result = await sandbox.run(self.probes.count_up(20_000))
        assert result.stdout == "".join(f"{number}\n" for number in range(1, 20_001))

    @clause("exec.output-at-bound")
    async def test_output_of_exactly_the_bound_is_returned(
        self, sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If this fails, the bound is off by one, or `SBX_MAX_OUTPUT_MB` is not read."""
        monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
        result = await sandbox.run(self.probes.repeat("x", MIB))
        assert len(result.stdout) == MIB

    @clause("exec.output-over-bound")
    async def test_output_over_the_bound_is_refused(
        self, sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """If this fails, output is cut silently, or the host's memory has no bound."""
        monkeypatch.setenv("SBX_MAX_OUTPUT_MB", "1")
        with pytest.raises(OutputLimitExceeded) as caught:
            await sandbox.run(self.probes.repeat("x", MIB + 1))
        assert caught.value.stdout.startswith("xxx")
        assert caught.value.stdout.endswith("xxx")
        with pytest.raises(OutputLimitExceeded):
            await sandbox.run(["yes"])
        assert (await sandbox.run(self.probes.exit(0))).exit_code == 0

    # ----- arguments

    @clause("exec.list-without-shell")
    async def test_list_is_run_without_a_shell(self, sandbox: AsyncSandbox) -> None:
        """If this fails, the list is joined into a text for a shell."""
        result = await sandbox.run(self.probes.show_arguments("$HOME", "a b", "*"))
        assert result.stdout == "$HOME\0a b\0*\0"

    @clause("exec.string-by-shell")
    async def test_string_is_run_by_a_shell(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a string is split into words, or run as one program."""
        result = await sandbox.run(self.probes.shell_text)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "42", "")

    @clause("exec.arguments-are-data")
    @pytest.mark.parametrize("argument", AWKWARD, ids=range(len(AWKWARD)))
    async def test_argument_arrives_as_it_is(self, sandbox: AsyncSandbox, argument: str) -> None:
        """If this fails, arguments are quoted, split or expanded on their way."""
        result = await sandbox.run(self.probes.show_arguments("first", argument, "last"))
        assert result.stdout == f"first\0{argument}\0last\0"

    @clause("exec.bad-command")
    @pytest.mark.parametrize("command", BAD_COMMANDS, ids=repr)
    async def test_impossible_command_is_refused(self, sandbox: AsyncSandbox, command: Any) -> None:
        """If this fails, a wrong argument became an exit code, or a builtin exception."""
        with pytest.raises(ConfigurationError):
            await sandbox.run(command)

    @clause("exec.broken-pipe")
    async def test_reader_that_ends_early_ends_its_writer(self, sandbox: AsyncSandbox) -> None:
        """If this fails, commands start with SIGPIPE ignored, and `yes | head -n 1` never ends."""
        result = await sandbox.run(self.probes.impatient_reader())
        assert result.stdout == "y\n"

    @clause("exec.frees-descriptors")
    async def test_ended_commands_leave_no_descriptor(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a pipe, socket or connection of a command outlives it."""
        if open_descriptors() == 0:
            pytest.skip("this system does not list descriptors")

        async def once() -> None:
            await sandbox.run(self.probes.exit(0))
            if Capability.STREAMING in sandbox.capabilities:
                async with sandbox.stream(self.probes.exit(0)) as process:
                    await process.wait()

        await once()  # what is opened once for all is open now
        before = open_descriptors()
        for _ in range(COMMANDS):
            await once()
        after = open_descriptors()
        assert after < before + COMMANDS, f"{before} descriptors became {after}"

    # ----- at the same time

    @clause("concurrency.many")
    async def test_fifty_commands_each_get_their_own_output(self, sandbox: AsyncSandbox) -> None:
        """If this fails, commands share a connection, a buffer or a worker that mixes them up."""
        results: dict[int, tuple[int, str, str]] = {}

        async def one(number: int) -> None:
            command = self.probes.say(b"out %d" % number, b"err %d" % number, number)
            result = await sandbox.run(command)
            results[number] = (result.exit_code, result.stdout, result.stderr)

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
        assert results == {n: (n, f"out {n}", f"err {n}") for n in range(50)}

    @clause("concurrency.event-loop")
    async def test_event_loop_goes_on_during_a_call(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, a call blocks its thread; a vendor SDK belongs into a worker thread.

        The first command ends when the second one was made, on the same event loop.
        """
        path = name("go")
        first = 0

        async def waiting() -> None:
            nonlocal first
            # A call that blocks everything has to end by itself, or nothing here could fail it.
            command = self.probes.say_around(b"a", path, b"b")
            first = len((await sandbox.run(command, timeout=GRACE)).stdout)

        async with anyio.create_task_group() as group:
            group.start_soon(waiting)
            await sandbox.run(self.probes.write_file(path, ""))
        assert first == 2
