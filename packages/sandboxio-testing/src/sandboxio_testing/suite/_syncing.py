"""The sync facade, over this backend."""

from __future__ import annotations

import threading

import pytest
from anyio import to_thread

import sandboxio
from sandboxio.errors import ExecutionTimeout, PathNotFound, SandboxError, SandboxGone
from sandboxio.models import Capability
from sandboxio.protocols import Backend

from ._attempts import attempt
from ._base import ContractBase
from ._bounds import SHORT
from ._clause_mark import clause
from ._oracle import Oracle

__all__ = ["SyncingContract"]

WORKER = "AnyIO worker thread"
"""How the names of workers begin that the event loop library ends by itself."""

TARGET = "contract"
"""The name under which the backend is registered for `create_sync()`."""


class SyncingContract(ContractBase):
    """`create_sync()` and `connect_sync()`."""

    @pytest.fixture
    def target(self, subject: Backend) -> str:
        """A DSN that means the backend that is judged."""
        sandboxio.register(TARGET, lambda: subject)
        return f"{TARGET}://"

    def open_sync(self, target: str) -> sandboxio.Sandbox:
        """Create a sandbox without an event loop."""
        return sandboxio.create_sync(target, template=self.template, timeout=60)

    def use(self, target: str) -> str:
        """Do a little of everything, and return the id of the sandbox."""
        with self.open_sync(target) as sandbox:
            result = sandbox.run(self.probes.say(b"out", b"err", 3))
            assert (result.exit_code, result.stdout, result.stderr) == (3, "out", "err")
            if Capability.STREAMING in sandbox.capabilities:
                with sandbox.stream(self.probes.say(b"streamed", b"", 4)) as process:
                    assert b"".join(chunk.data for chunk in process) == b"streamed"
                    assert process.wait().exit_code == 4
            if Capability.FILESYSTEM in sandbox.capabilities:
                sandbox.files.write("file", b"\0content\xff")
                assert sandbox.files.read("file") == b"\0content\xff"
            if Capability.RUN_CODE in sandbox.capabilities:
                assert sandbox.run_code("print(6 * 7)").stdout == "42\n"
            return sandbox.id

    @clause("sync.works")
    async def test_facade_does_what_the_async_one_does(self, target: str, oracle: Oracle) -> None:
        """If this fails, the backend depends on the event loop that it was made in."""
        sandbox_id = await to_thread.run_sync(self.use, target)
        assert not await oracle.exists(sandbox_id)

    @clause("sync.in-a-running-loop")
    async def test_facade_works_inside_a_running_loop(self, target: str, oracle: Oracle) -> None:
        """If this fails, the facade cannot be used in a notebook."""
        sandbox_id = self.use(target)
        assert not await oracle.exists(sandbox_id)

    @clause("sync.frees-its-thread")
    async def test_thread_ends_with_the_sandbox(self, target: str) -> None:
        """If this fails, each sandbox leaves an event loop running in this process."""

        def once() -> set[threading.Thread]:
            with self.open_sync(target) as sandbox:
                sandbox.run(self.probes.exit(0))
                return set(threading.enumerate())

        def left() -> list[threading.Thread]:
            once()  # what a backend keeps for all of its sandboxes is there now
            before = set(threading.enumerate())
            new = once() - before
            assert new, "there is no thread of the sandbox, so that its end proves nothing"
            # Idle workers of an event loop that has ended are about to notice it.
            return [item for item in new if item.is_alive() and not item.name.startswith(WORKER)]

        assert await to_thread.run_sync(left) == []

    @clause("sync.errors")
    async def test_errors_are_the_same_classes(self, target: str) -> None:
        """If this fails, an error changes on its way out of the facade's thread."""

        def fail() -> list[SandboxError]:
            caught: list[SandboxError] = []
            sandbox = self.open_sync(target)
            with sandbox:
                try:
                    sandbox.run(self.probes.exit(0), cwd="missing")
                except SandboxError as error:
                    caught.append(error)
                try:
                    sandbox.run(self.probes.sleep(300), timeout=SHORT)
                except SandboxError as error:
                    caught.append(error)
            try:
                sandbox.run(self.probes.exit(0))
            except SandboxError as error:
                caught.append(error)
            return caught

        errors = await to_thread.run_sync(fail)
        assert [type(error) for error in errors] == [PathNotFound, ExecutionTimeout, SandboxGone]

    @clause("sync.errors")
    async def test_cause_comes_through_the_facade(self) -> None:
        """If this fails, an error is made anew on its way out of the facade's thread."""
        backend = self.new_unreachable_backend()
        sandboxio.register(f"{TARGET}_unreachable", lambda: backend)
        target = f"{TARGET}_unreachable://"
        error = await attempt(to_thread.run_sync(self.open_sync, target))
        assert isinstance(error, SandboxError), repr(error)
        assert error.__cause__ is not None
