"""Running source text."""

from __future__ import annotations

import pytest

from sandboxio.errors import CapabilityNotSupported
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox

from ._base import ContractBase, Maker, Names
from ._clause_mark import clause, needs
from ._pulse import Pulse
from ._stopping import beating_code, timed_out_when_it_beat

__all__ = ["CodingContract"]


@needs(Capability.RUN_CODE)
class CodingContract(ContractBase):
    """`run_code()`."""

    @clause("code.runs")
    async def test_code_runs_and_prints(self, sandbox: AsyncSandbox) -> None:
        """If this fails, look at how code reaches the interpreter."""
        result = await sandbox.run_code("import sys\nprint(6 * 7)\nprint('e', file=sys.stderr)")
        assert (result.exit_code, result.stdout, result.stderr) == (0, "42\n", "e\n")
        empty = await sandbox.run_code("")
        assert (empty.exit_code, empty.stdout) == (0, "")

    @clause("code.errors")
    @pytest.mark.parametrize(
        ("code", "error"),
        [("def", "SyntaxError"), ("print('x')\n1 / 0", "ZeroDivisionError")],
        ids=["syntax", "runtime"],
    )
    async def test_error_is_an_exit_code(
        self, sandbox: AsyncSandbox, code: str, error: str
    ) -> None:
        """If this fails, an error of the code is lost, or raised on the host."""
        result = await sandbox.run_code(code)
        assert result.exit_code not in (0, None)
        assert error in result.stderr
        assert result.stdout == ("x\n" if "print" in code else "")

    @clause("code.exit")
    async def test_sys_exit_is_the_exit_code(self, sandbox: AsyncSandbox) -> None:
        """If this fails, an interpreter that is kept open swallows `sys.exit()`."""
        result = await sandbox.run_code("import sys\nprint('before')\nsys.exit(3)\nprint('after')")
        assert (result.exit_code, result.stdout) == (3, "before\n")

    @clause("code.large")
    async def test_code_of_200_kb_runs(self, sandbox: AsyncSandbox) -> None:
        """If this fails, code is passed as an argument; one has at most 128 KiB on Linux."""
        code = f"text = {'x' * 200_000!r}\nprint(len(text))"
        assert (await sandbox.run_code(code)).stdout == "200000\n"

    @clause("code.is-data")
    async def test_code_arrives_as_it_is(self, sandbox: AsyncSandbox) -> None:
        """If this fails, code goes through a shell, a here-document or a template."""
        text = "'\"`$HOME $(id) \\ % {} \nEOF\n日本 👩🏽\u200d🚀"
        result = await sandbox.run_code(f"print(ascii({text!r}))")
        assert result.stdout == ascii(text) + "\n"

    @clause("code.one-shot")
    async def test_nothing_is_kept_without_a_context(self, sandbox: AsyncSandbox) -> None:
        """If this fails, calls without a context share an interpreter."""
        assert (await sandbox.run_code("kept = 1")).exit_code == 0
        result = await sandbox.run_code("print(kept)")
        assert result.exit_code != 0
        assert "NameError" in result.stderr

    @clause("code.environment")
    async def test_code_has_the_environment(self, make: Maker) -> None:
        """If this fails, an interpreter is started without the sandbox's environment."""
        sandbox = await make(env={"SBX_ONE": "of create", "SBX_TWO": "of create"})
        code = "import os\nprint(os.environ.get('SBX_ONE'), os.environ.get('SBX_TWO'))"
        result = await sandbox.run_code(code, env={"SBX_TWO": "of the call"})
        assert result.stdout == "of create of the call\n"

    @clause("code.timeout")
    async def test_deadline_of_code_raises(
        self, sandbox: AsyncSandbox, name: Names, pulse: Pulse
    ) -> None:
        """If this fails, code is run in another way than commands, and not killed like them."""
        path = name("beat")
        await timed_out_when_it_beat(
            lambda seconds: sandbox.run_code(beating_code(path), timeout=seconds), pulse, path
        )
        await pulse.is_dead(path)

    @clause("code.language")
    async def test_unknown_language_is_refused(self, sandbox: AsyncSandbox) -> None:
        """If this fails, an argument that cannot be honoured is ignored."""
        with pytest.raises(CapabilityNotSupported):
            await sandbox.run_code("print(1)", language="no-such-language")

    @clause("code.no-results")
    async def test_results_are_not_made_up(self, sandbox: AsyncSandbox) -> None:
        """If this fails, rich results are made from stdout."""
        if Capability.STATEFUL_CODE in sandbox.capabilities:
            pytest.skip("the backend has an interpreter")
        assert (await sandbox.run_code("print(1)\n1 + 1")).results is None

    @needs(Capability.STATEFUL_CODE)
    @clause("code.results")
    async def test_value_of_the_last_expression_is_a_result(self, sandbox: AsyncSandbox) -> None:
        """If this fails, rich results are declared, and not handed out."""
        result = await sandbox.run_code("print('printed')\n6 * 7")
        assert result.stdout == "printed\n"
        assert result.results is not None
        assert [item.data for item in result.results if item.mime_type == "text/plain"] == ["42"]
        assert not (await sandbox.run_code("silent = 1")).results

    @needs(Capability.STATEFUL_CODE)
    @clause("code.context")
    async def test_context_keeps_variables_apart(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, contexts are not kept, or are one."""
        one, two = name("one"), name("two")
        assert (await sandbox.run_code("kept = 41", context_id=one)).exit_code == 0
        assert (await sandbox.run_code("print(kept + 1)", context_id=one)).stdout == "42\n"
        other = await sandbox.run_code("print(kept)", context_id=two)
        assert other.exit_code != 0
        assert "NameError" in other.stderr
