"""Creating a sandbox, its block, and its end."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest

from sandboxio.errors import CapabilityNotSupported, ConfigurationError, CreateTimeout, SandboxGone
from sandboxio.models import AppliedPolicy, Capability, IsolationTier
from sandboxio.protocols import AsyncSandbox, Backend

from ._attempts import attempt, interrupt, spread
from ._base import ContractBase, Maker, Names
from ._clause_mark import clause
from ._descriptors import open_descriptors
from ._operations import each_operation
from ._oracle import Oracle

__all__ = ["CreatingContract"]

BAD_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {"timeout": 0},
    {"timeout": -1},
    {"timeout": float("nan")},
    {"timeout": float("inf")},
    {"timeout": None},
    {"timeout": True},
    {"timeout": "60"},
    {"template": 7},
    {"template": ""},
    {"env": ["A"]},
    {"env": {"A": 1}},
    {"secrets": "A"},
    {"metadata": {"": "x"}},
    {"metadata": {"a": 1}},
    {"network": "deny"},
    {"resources": 512},
    {"require_isolation": "container"},
)


BUSY = 44
"""Commands at the same time: more than the workers of an event loop, which are 40 by default."""


class CreatingContract(ContractBase):
    """How a sandbox comes and goes."""

    @clause("create.usable")
    async def test_created_sandbox_runs_a_command(self, make: Maker) -> None:
        """If this fails, look at what `create()` waits for before it returns."""
        sandbox = await make()
        result = await sandbox.run(self.probes.say(b"here"))
        assert (result.exit_code, result.stdout) == (0, "here")

    @clause("create.exists")
    async def test_created_sandbox_exists_at_the_provider(
        self, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, `AsyncSandbox.id` may not be the id that the witness uses."""
        sandbox = await make()
        assert sandbox.id in await oracle.sandboxes()

    @clause("create.describes-itself")
    async def test_sandbox_describes_itself(
        self, make: Maker, sandbox: AsyncSandbox, subject: Backend
    ) -> None:
        """If this fails, a property of the sandbox is missing, shared, or of another type."""
        other = await make()
        assert sandbox.id
        assert sandbox.id != other.id
        assert sandbox.backend == subject.name
        assert isinstance(sandbox.capabilities, Capability)
        assert isinstance(sandbox.isolation, IsolationTier)
        assert isinstance(sandbox.policy, AppliedPolicy)
        assert sandbox.native is not None

    @clause("create.timeout")
    async def test_create_that_takes_too_long_leaves_nothing(
        self, subject: Backend, oracle: Oracle
    ) -> None:
        """If this fails, the timeout of `create()` does not bound the creating itself."""
        before = await oracle.sandboxes()
        with pytest.raises(CreateTimeout):
            await subject.create(template=self.template, timeout=1e-6)
        assert await oracle.sandboxes() <= before

    @clause("create.cancelled")
    async def test_create_cancelled_at_any_wait_leaves_nothing(
        self, subject: Backend, oracle: Oracle
    ) -> None:
        """If this fails, something was created whose id the cancelled call did not know yet.

        Name the sandbox before you ask the provider for it, and destroy that name on the way out.
        """
        before = await oracle.sandboxes()
        whole = await interrupt(lambda: subject.create(template=self.template, timeout=60), at=0)
        assert whole.result is not None, f"an undisturbed create failed: {whole.error!r}"
        await whole.result.kill()
        for at in spread(whole.waits, self.cancel_points):
            cut = await interrupt(lambda: subject.create(template=self.template, timeout=60), at)
            assert cut.error is None, f"cancelled at wait {at}, it raised {cut.error!r}"
            if cut.result is not None:
                await cut.result.kill()
            left = await oracle.sandboxes() - before
            for sandbox_id in left:
                await oracle.destroy_if_it_can(sandbox_id)
            assert not left, f"cancelled at wait {at} of {whole.waits}, it left {left}"

    @clause("create.bad-arguments")
    @pytest.mark.parametrize("arguments", BAD_ARGUMENTS, ids=str)
    async def test_bad_argument_is_refused_before_anything_is_made(
        self, subject: Backend, oracle: Oracle, arguments: dict[str, Any]
    ) -> None:
        """If this fails, an argument is used before it is checked."""
        before = await oracle.sandboxes()
        with pytest.raises(ConfigurationError):
            await subject.create(**arguments)
        assert await oracle.sandboxes() <= before

    @clause("create.ends-what-it-made")
    async def test_many_in_a_row_leave_none(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, look for a kill that returns before the provider is done."""
        ids: set[str] = set()
        for _ in range(self.many):
            async with await make() as sandbox:
                ids.add(sandbox.id)
        assert len(ids) == self.many
        assert not ids & await oracle.sandboxes()

    @clause("create.frees-descriptors")
    async def test_ended_sandboxes_leave_no_descriptor(self, subject: Backend) -> None:
        """If this fails, a client, pipe or socket of a sandbox outlives it."""
        if open_descriptors() == 0:
            pytest.skip("this system does not list descriptors")

        async def once() -> None:
            async with await subject.create(template=self.template, timeout=60) as sandbox:
                await sandbox.run(self.probes.exit(0))

        await once()  # what is opened once for all is open now
        before = open_descriptors()
        for _ in range(self.many):
            await once()
        after = open_descriptors()
        assert after < before + self.many, f"{before} descriptors became {after}"

    # ----- the block

    @clause("context.normal")
    async def test_leaving_the_block_ends_the_sandbox(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, `__aexit__` does not end the sandbox, or does not wait for its end."""
        async with await make() as sandbox:
            assert await oracle.exists(sandbox.id)
        assert not await oracle.exists(sandbox.id)

    @clause("context.error")
    async def test_exception_in_the_block_ends_the_sandbox(
        self, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, teardown is skipped, or replaces the exception of the block."""
        sandbox = await make()
        mine = ValueError("of the block")

        async def block() -> None:
            async with sandbox:
                raise mine

        assert await attempt(block()) is mine
        assert not await oracle.exists(sandbox.id)

    @clause("context.cancelled")
    async def test_cancellation_in_the_block_ends_the_sandbox(
        self, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, teardown is cancelled with the block; it has to be shielded."""
        sandbox = await make()
        with anyio.CancelScope() as scope:
            async with sandbox:
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert not await oracle.exists(sandbox.id)

    @clause("context.cancelled-again")
    async def test_teardown_survives_repeated_cancellation(
        self, make: Maker, oracle: Oracle, anyio_backend: str
    ) -> None:
        """If this fails, teardown runs in the cancelled task itself.

        On asyncio a second `task.cancel()` goes through a shielded scope; a task of its own is out
        of its reach. See `sandboxio.spi.run_to_the_end`.
        """
        sandbox = await make()
        entered = anyio.Event()

        async def block() -> None:
            async with sandbox:
                entered.set()
                await anyio.sleep_forever()

        if anyio_backend == "asyncio":
            await _cancel_natively_until_done(block, entered)
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(block)
                await entered.wait()
                group.cancel_scope.cancel()
        assert not await oracle.exists(sandbox.id)

    # ----- kill

    @clause("kill.real")
    async def test_kill_ends_the_sandbox_and_its_processes(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, `kill()` returns before the provider confirmed the end."""
        sandbox = await make()
        path = name("beat")
        await sandbox.run(self.probes.leave_a_daemon(path))
        await self.pulse_of(sandbox, oracle).begun(path)
        await sandbox.kill()
        assert not await oracle.exists(sandbox.id)
        assert not await oracle.processes_if_it_can_tell(sandbox.id, path)

    @clause("kill.idempotent")
    async def test_second_kill_succeeds(self, make: Maker) -> None:
        """If this fails, `kill()` does not remember that it has succeeded."""
        sandbox = await make()
        await sandbox.kill()
        await sandbox.kill()

    @clause("kill.together")
    async def test_two_kills_at_once_succeed(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, the second kill met a sandbox that was on its way out."""
        sandbox = await make()
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.kill)
            group.start_soon(sandbox.kill)
        assert not await oracle.exists(sandbox.id)

    @clause("kill.busy")
    async def test_kill_ends_commands_in_flight(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, teardown waits for the commands, or they report an exit code."""
        sandbox = await make()
        paths = [name(f"beat{number}") for number in range(3)]
        errors: list[Exception | None] = []

        async def command(path: str) -> None:
            errors.append(await attempt(sandbox.run(self.probes.beat(path))))

        async with anyio.create_task_group() as group:
            for path in paths:
                group.start_soon(command, path)
            await self.pulse_of(sandbox, oracle).begun(*paths)
            await sandbox.kill()
        assert [type(error) for error in errors] == [SandboxGone] * 3, repr(errors)
        assert not await oracle.exists(sandbox.id)

    @clause("kill.beside-busy")
    async def test_busy_sandbox_does_not_hold_up_another(
        self, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, teardown waits for the workers or connections that commands occupy."""
        busy, other, path = await make(), await make(), name("beat")

        async def command(argv: list[str]) -> None:
            await attempt(busy.run(argv))

        async with anyio.create_task_group() as group:
            for _ in range(BUSY - 1):
                group.start_soon(command, self.probes.sleep(300))
            group.start_soon(command, self.probes.beat(path))
            await self.pulse_of(busy, oracle).begun(path)
            await other.kill()
            assert not await oracle.exists(other.id)
            await busy.kill()
        assert not await oracle.exists(busy.id)

    @clause("kill.cancelled-scope")
    async def test_kill_in_a_cancelled_scope_ends_the_sandbox(
        self, make: Maker, oracle: Oracle
    ) -> None:
        """If this fails, `kill()` is cut short by the cancellation that it is called in."""
        sandbox = await make()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await sandbox.kill()
        assert not await oracle.exists(sandbox.id)

    @clause("kill.then-gone")
    async def test_everything_raises_gone_after_kill(self, make: Maker, tmp_path: Path) -> None:
        """If this fails, an operation does not ask whether its sandbox has ended."""
        sandbox = await make()
        await sandbox.kill()
        for what, operation in each_operation(sandbox, self.probes, tmp_path):
            error = await attempt(operation())
            assert isinstance(error, SandboxGone | CapabilityNotSupported), f"{what}: {error!r}"
            if isinstance(error, CapabilityNotSupported):
                assert error.capability is not None
                assert error.capability not in sandbox.capabilities, f"{what}: {error!r}"


async def _cancel_natively_until_done(
    block: Callable[[], Coroutine[Any, Any, None]], entered: anyio.Event
) -> None:
    import asyncio

    task = asyncio.create_task(block())
    await entered.wait()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0.002)
    assert task.cancelled(), "the cancellation did not come out of the block"
