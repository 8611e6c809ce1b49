"""What a command gets from the guest, and what comes back of it."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from sandboxio.errors import ConfigurationError, FileSystemError, PathNotFound
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend

MIB = 1 << 20

SHOW_ARGUMENTS = ["sh", "-c", 'for argument; do printf "<%s>" "$argument"; done', "sh"]


@pytest.fixture
def sandbox(shared_sandbox: AsyncSandbox) -> AsyncSandbox:
    """No test here needs one of its own."""
    return shared_sandbox


@pytest.mark.parametrize("code", [0, 1, 3, 124, 126, 127, 137, 143, 255])
async def test_exit_code_is_the_commands_own(sandbox: AsyncSandbox, code: int) -> None:
    result = await sandbox.run(f"exit {code}")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", "")


@pytest.mark.parametrize("signum", [1, 2, 6, 9, 15])
async def test_signalled_command_has_128_and_the_signal(sandbox: AsyncSandbox, signum: int) -> None:
    assert (await sandbox.run(f"kill -{signum} $$")).exit_code == 128 + signum


async def test_command_that_is_not_found_is_127_with_a_line_on_stderr(
    sandbox: AsyncSandbox,
) -> None:
    result = await sandbox.run(["no-such-program", "x"])
    assert result.exit_code == 127
    assert result.stdout == ""
    assert result.stderr == "sandboxio: no-such-program: command not found\n"


async def test_dangling_link_is_not_found(sandbox: AsyncSandbox) -> None:
    await sandbox.run(["ln", "-s", "nowhere", "link"])
    assert (await sandbox.run(["./link"])).exit_code == 127


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        ("#!/bin/sh\nexit 0\n", 0o644, "Permission denied"),
        ("exit 0\n", 0o755, "Exec format error"),
        ("#!/no/such/interpreter\n", 0o755, "bad interpreter"),
        ("", 0o755, "Exec format error"),
    ],
    ids=["not executable", "no interpreter line", "bad interpreter", "empty"],
)
async def test_what_cannot_be_executed_is_126_and_says_why(
    sandbox: AsyncSandbox, content: str, mode: int, why: str
) -> None:
    await sandbox.files.write("script", content)
    await sandbox.run(["chmod", f"{mode:o}", "script"])
    result = await sandbox.run(["./script"])
    assert result.exit_code == 126
    assert result.stderr == f"sandboxio: ./script: {why}\n"


async def test_program_that_is_nowhere_is_not_found_whatever_else_is_on_the_path(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.run("mkdir -p closed; chmod 000 closed; echo > plain")
    result = await sandbox.run(["no-such-program"], env={"PATH": "closed:plain:missing::/bin"})
    assert (result.exit_code, result.stderr.split(": ")[-1]) == (127, "command not found\n")


async def test_directory_cannot_be_executed(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run(["/tmp"])
    assert (result.exit_code, result.stderr) == (126, "sandboxio: /tmp: Permission denied\n")


async def test_program_that_may_not_run_is_passed_over_for_one_that_may(
    sandbox: AsyncSandbox,
) -> None:
    await sandbox.files.mkdir("a")
    await sandbox.files.mkdir("b")
    await sandbox.files.write("a/tool", "#!/bin/sh\necho a\n")
    await sandbox.files.write("b/tool", "#!/bin/sh\necho b\n")
    await sandbox.run(["chmod", "755", "b/tool"])
    result = await sandbox.run(["tool"], env={"PATH": "nowhere:a:b"})
    assert (result.exit_code, result.stdout) == (0, "b\n")


@pytest.mark.parametrize(
    "argument",
    [
        "",
        " ",
        "*",
        "--",
        "-c",
        "$(id)",
        "`id`",
        "a'b\"c",
        "line\nline",
        "\t",
        "😀",
        "\\",
        "-delete",
    ],
)
async def test_arguments_arrive_as_they_are(sandbox: AsyncSandbox, argument: str) -> None:
    result = await sandbox.run([*SHOW_ARGUMENTS, argument, "", argument])
    assert result.stdout == f"<{argument}><><{argument}>"


async def test_argument_that_is_not_utf8_arrives_as_it_is(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run([*SHOW_ARGUMENTS, os.fsdecode(b"\xff\xfe")])
    assert result.stdout == "<\\xff\\xfe>"


@pytest.mark.parametrize(
    "value", ["", " a ", "x\ny", "$HOME", "`id`", "a'b\"c", "back\\", "😀", "%s", "a=b"]
)
async def test_environment_arrives_as_it_is(sandbox: AsyncSandbox, value: str) -> None:
    result = await sandbox.run(["sh", "-c", 'printf %s "$VALUE"'], env={"VALUE": value})
    assert result.stdout == value


@pytest.mark.parametrize("name", ["A B", "A;id", "1A", "a.b-c", "Ä"])
async def test_any_name_that_a_process_can_have_arrives(sandbox: AsyncSandbox, name: str) -> None:
    result = await sandbox.run(["env"], env={name: "here"})
    assert f"{name}=here" in result.stdout.splitlines()


async def test_nothing_of_the_hosts_environment_is_inherited(
    sandbox: AsyncSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBX_TEST_CANARY", "leaked")
    result = await sandbox.run(["env"])
    assert {line.partition("=")[0] for line in result.stdout.splitlines()} <= {"PATH", "HOME", "LC_CTYPE"}  # fmt: skip


async def test_environment_of_a_call_wins_and_does_not_stay(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run("echo $HOME", env={"HOME": "/mine"})).stdout == "/mine\n"
    assert (await sandbox.run("echo $HOME")).stdout != "/mine\n"


async def test_working_directory_is_the_sandboxs_own_or_relative_to_it(
    sandbox: AsyncSandbox,
) -> None:
    home = (await sandbox.run(["pwd"])).stdout
    await sandbox.files.mkdir("sub dir")
    assert (await sandbox.run(["pwd"], cwd="sub dir")).stdout == f"{home.strip()}/sub dir\n"
    assert (await sandbox.run(["pwd"], cwd="/")).stdout == "/\n"
    assert (await sandbox.run(["pwd"], cwd=".")).stdout == home


async def test_missing_working_directory_is_an_error_and_no_exit_code(
    sandbox: AsyncSandbox,
) -> None:
    with pytest.raises(PathNotFound) as caught:
        await sandbox.run(["true"], cwd="missing")
    assert caught.value.path == "missing"
    assert "'missing'" in caught.value.message


async def test_file_as_working_directory_is_an_error(sandbox: AsyncSandbox) -> None:
    await sandbox.files.write("file", "")
    with pytest.raises(FileSystemError, match="not a directory"):
        await sandbox.run(["true"], cwd="file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every directory")
async def test_working_directory_without_permission_is_an_error(sandbox: AsyncSandbox) -> None:
    await sandbox.run("mkdir closed; chmod 000 closed")
    with pytest.raises(FileSystemError, match="permission denied"):
        await sandbox.run(["true"], cwd="closed")


async def test_stdin_is_at_its_end_if_there_is_none(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("read x; echo $?; cat")
    assert result.stdout == "1\n"


@pytest.mark.parametrize("size", [0, 1, 65536, MIB, 10 * MIB])
async def test_stdin_arrives_whole(sandbox: AsyncSandbox, size: int) -> None:
    data = os.urandom(size)
    await sandbox.files.write("expected", data)
    result = await sandbox.run("cmp - expected && echo same", stdin=data)
    assert (result.stdout, result.stderr) == ("same\n", "")


async def test_ten_mebibytes_in_and_out_together(sandbox: AsyncSandbox) -> None:
    data = "0123456789abcdef" * (10 * MIB // 16)
    result = await sandbox.run(["cat"], stdin=data)
    assert result.stdout == data


async def test_command_that_does_not_read_its_stdin_ends_as_it_likes(
    sandbox: AsyncSandbox,
) -> None:
    result = await sandbox.run(["true"], stdin=b"x" * (4 * MIB))
    assert result.exit_code == 0


async def test_command_that_closes_its_stdin_goes_on(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run("exec <&-; echo on", stdin=b"x" * (4 * MIB))
    assert (result.exit_code, result.stdout) == (0, "on\n")


async def test_endless_writer_before_a_closed_pipe_ends(sandbox: AsyncSandbox) -> None:
    # SIGPIPE must have its default meaning again, which Python takes from it.
    result = await sandbox.run("yes | head -1")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "y\n", "")


async def test_unterminated_here_document_ends(sandbox: AsyncSandbox) -> None:
    assert (await sandbox.run("cat <<END\nhello")).stdout == "hello"


async def test_call_beyond_a_frame_is_refused_and_the_sandbox_lives(sandbox: AsyncSandbox) -> None:
    with pytest.raises(ConfigurationError, match="1 MiB"):
        await sandbox.run(["true", "x" * (2 * MIB)])
    with pytest.raises(ConfigurationError, match="1 MiB"):
        await sandbox.files.stat("x" * (2 * MIB))
    assert (await sandbox.run(["true"])).ok


async def test_argument_beyond_the_kernels_limit_is_126(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run(["echo", "x" * 200_000])
    assert (result.exit_code, result.stderr) == (126, "sandboxio: echo: Argument list too long\n")


async def test_code_of_any_length_runs(sandbox: AsyncSandbox) -> None:
    code = "x = 0\n" + "x += 1\n" * 100_000 + "print(x)"
    assert (await sandbox.run_code(code)).stdout == "100000\n"


async def test_code_that_fails_has_its_status_and_traceback(sandbox: AsyncSandbox) -> None:
    result = await sandbox.run_code("import sys; print('out'); sys.exit(3)")
    assert (result.exit_code, result.stdout) == (3, "out\n")
    result = await sandbox.run_code("1/0")
    assert result.exit_code == 1
    assert "ZeroDivisionError" in result.stderr


async def test_commands_start_in_a_session_of_their_own_without_stray_descriptors(
    sandbox: AsyncSandbox,
) -> None:
    show = "echo $(ls /proc/self/fd | wc -l) $(cut -d' ' -f6 /proc/$$/stat) $$"
    found, session, shell = (await sandbox.run(show)).stdout.split()
    # The three standard ones, and the directory that ls reads.
    assert found == "4"
    assert session == shell


async def test_signals_have_their_default_meaning(with_host_driver: Any, guest_python: str) -> None:
    """Also for what a shell starts in the background, which ignores two of them."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    try:
        with with_host_driver(guest_python) as driver:
            async with await DriverBackend(driver).create(timeout=60) as sandbox:
                await check_signals(sandbox)
    finally:
        signal.signal(signal.SIGQUIT, before)


async def check_signals(sandbox: AsyncSandbox) -> None:
    status = (await sandbox.run(["cat", "/proc/self/status"])).stdout
    fields: dict[str, Any] = dict(line.split(":\t", 1) for line in status.splitlines())
    # 32 and 33 belong to the C library; they are as the test run itself was started with them.
    mine = ~(1 << 31 | 1 << 32)
    assert int(fields["SigIgn"], 16) & mine == 0
    assert int(fields["SigBlk"], 16) & mine == 0
