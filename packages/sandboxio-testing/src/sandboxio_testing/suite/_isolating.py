"""Isolation that is really there, and said truly."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from sandboxio.errors import ConfigurationError, UnverifiedIsolationWarning
from sandboxio.models import IsolationTier
from sandboxio.protocols import AsyncSandbox, Backend

from ._attempts import attempt
from ._base import ContractBase, Maker, Names
from ._clause_mark import clause
from ._listeners import from_outside
from ._oracle import Oracle, known

__all__ = ["IsolatingContract"]

SHARED_KERNEL = (IsolationTier.CONTAINER, IsolationTier.UNKNOWN)
"""Tiers whose sandboxes must not have rights, for they would be the host's."""


@contextmanager
def host_process(marker: str) -> Generator[None, None, None]:
    """Run a process on this host with a marker in its command line."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; print('up', flush=True); sys.stdin.read()", marker],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield
    finally:
        process.communicate(b"")


class IsolatingContract(ContractBase):
    """Tiers, and what they are worth."""

    # ----- the tier

    @clause("isolation.reported")
    async def test_one_tier_is_reported(self, sandbox: AsyncSandbox, subject: Backend) -> None:
        """If this fails, backend, sandbox and policy disagree."""
        assert isinstance(subject.isolation, IsolationTier)
        assert sandbox.isolation is subject.isolation
        assert sandbox.policy.isolation is subject.isolation

    @clause("isolation.required")
    async def test_higher_tier_is_refused_before_anything_is_made(
        self, subject: Backend, oracle: Oracle
    ) -> None:
        """If this fails, `require_isolation` is only looked at by `sandboxio.create()`."""
        higher = [tier for tier in IsolationTier if tier > subject.isolation]
        if not higher:
            pytest.skip("there is no higher tier")
        before = await oracle.sandboxes()
        for tier in higher:
            error = await attempt(
                subject.create(template=self.template, require_isolation=tier, timeout=30)
            )
            assert isinstance(error, ConfigurationError), f"{tier}: {error!r}"
        assert await oracle.sandboxes() <= before

    @clause("isolation.satisfied")
    async def test_own_tier_is_accepted(self, subject: Backend, make: Maker) -> None:
        """If this fails, a backend refuses what it offers."""
        if subject.isolation is IsolationTier.UNKNOWN:
            pytest.skip("an unknown tier satisfies nothing: isolation.unknown is the clause")
        sandbox = await make(require_isolation=subject.isolation)
        assert sandbox.isolation.satisfies(subject.isolation)

    @clause("isolation.unknown")
    async def test_unknown_tier_is_no_requirement(self, subject: Backend, oracle: Oracle) -> None:
        """If this fails, "unknown" passes for a tier."""
        before = await oracle.sandboxes()
        error = await attempt(
            subject.create(template=self.template, require_isolation=IsolationTier.UNKNOWN)
        )
        assert isinstance(error, ConfigurationError), repr(error)
        assert await oracle.sandboxes() <= before

    # ----- what it is worth

    @clause("isolation.not-privileged")
    async def test_provider_gave_no_privileges(self, sandbox: AsyncSandbox, oracle: Oracle) -> None:
        """If this fails, look for privileged mode, added capabilities, or shared namespaces."""
        facts = await oracle.facts(sandbox.id)
        assert known(facts.privileged, "privileges") is False

    @clause("isolation.no-mount")
    async def test_code_cannot_mount(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, code inside has CAP_SYS_ADMIN on this host's kernel."""
        if sandbox.isolation not in SHARED_KERNEL:
            pytest.skip("it has a kernel of its own")
        assert (await sandbox.run(self.probes.mount(name("mount")))).exit_code != 0

    @clause("isolation.no-user-namespaces")
    async def test_code_cannot_make_a_user_namespace(self, sandbox: AsyncSandbox) -> None:
        """If this fails, code inside becomes root of a namespace, and reaches much of the kernel."""
        if sandbox.isolation not in SHARED_KERNEL:
            pytest.skip("it has a kernel of its own")
        result = await sandbox.run(self.probes.make_user_namespace())
        if result.exit_code == 127:
            pytest.skip("the probe make_user_namespace() needs a program that is not there")
        assert result.exit_code != 0, "a user namespace was made"

    @clause("isolation.no-raw-sockets")
    async def test_code_cannot_open_a_raw_socket(self, sandbox: AsyncSandbox) -> None:
        """If this fails, code inside has CAP_NET_RAW, and can forge and overhear packets."""
        if sandbox.isolation not in SHARED_KERNEL:
            pytest.skip("it has a kernel of its own")
        result = await sandbox.run(self.probes.open_raw_socket())
        if result.exit_code == 127:
            pytest.skip("the probe open_raw_socket() needs a program that is not there")
        assert result.exit_code in (0, 9), f"the probe open_raw_socket() does not work: {result}"
        assert result.exit_code == 9, result.stdout

    @clause("isolation.no-new-privileges")
    async def test_code_cannot_gain_privileges(self, sandbox: AsyncSandbox) -> None:
        """If this fails, a set-user-id program of the image is a way up."""
        if sandbox.isolation not in SHARED_KERNEL:
            pytest.skip("it has a kernel of its own")
        status = (await sandbox.run(self.probes.show_privileges())).stdout
        assert "NoNewPrivs:\t1" in status.splitlines(), status

    @clause("isolation.no-host-files")
    async def test_files_of_the_host_are_not_seen(
        self, make: Maker, name: Names, tmp_path: Path
    ) -> None:
        """If this fails, a directory of this host is mounted: its temporary, the user's, or all."""
        marker = name("host-file")
        folders = {tmp_path, Path(tempfile.gettempdir()), Path.home(), Path.cwd()}
        with ExitStack() as stack:
            placed = 0
            for folder in folders:
                try:
                    (folder / marker).write_text("of the host")
                except OSError:
                    continue
                stack.callback((folder / marker).unlink)
                placed += 1
            assert placed, "no directory of this host can be written"
            sandbox = await make()
            found = await sandbox.run(self.probes.find_by_name(marker))
            assert found.stdout == ""
            await sandbox.run(self.probes.write_file(marker, "inside"))
            own = await sandbox.run(self.probes.find_by_name(marker))
            assert own.stdout.count(marker) == 1, f"the probe find_by_name() does not work: {own}"
            for folder in folders:
                seen = await sandbox.run(self.probes.show_file(str(folder / marker)))
                assert "of the host" not in seen.stdout, f"{folder} of the host is seen inside"

    @clause("isolation.no-host-paths")
    async def test_provider_mounts_nothing_of_the_host(
        self, sandbox: AsyncSandbox, oracle: Oracle
    ) -> None:
        """If this fails, a directory or a control socket of this host is mounted."""
        facts = await oracle.facts(sandbox.id)
        assert known(facts.host_paths, "mounts") == ()

    @clause("isolation.no-host-processes")
    async def test_processes_of_the_host_are_not_seen(
        self, sandbox: AsyncSandbox, name: Names
    ) -> None:
        """If this fails, the sandbox shares the host's process namespace."""
        marker = name("host-process")
        with host_process(marker):
            command = self.probes.commands_with(marker)
            _, outside = await to_thread.run_sync(from_outside, command)
            if not outside.strip():
                pytest.skip("the probe commands_with() does not work on this host")
            assert (await sandbox.run(command)).stdout == ""

    @clause("isolation.sandboxes-apart")
    async def test_sandboxes_do_not_see_each_other(
        self, sandbox: AsyncSandbox, make: Maker, oracle: Oracle, name: Names
    ) -> None:
        """If this fails, sandboxes share files or processes, and tenants each other's data."""
        other, path = await make(), name("beat")
        await other.run(self.probes.leave_a_daemon(path))
        await self.pulse_of(other, oracle).begun(path)
        assert (await other.run(self.probes.commands_with(path))).stdout.strip()
        assert (await sandbox.run(self.probes.commands_with(path))).stdout == ""
        assert (await other.run(self.probes.find_by_name(path))).stdout.strip()
        assert (await sandbox.run(self.probes.find_by_name(path))).stdout == ""

    @clause("isolation.warned")
    async def test_unknown_tier_warns_once(self, subject: Backend) -> None:
        """If this fails, an unknown tier is used without a word, or a known one with a warning."""
        fresh = self.new_fresh_backend(subject)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                await (await fresh.create(template=self.template, timeout=60)).kill()
        seen = [item for item in caught if item.category is UnverifiedIsolationWarning]
        assert len(seen) == (1 if subject.isolation is IsolationTier.UNKNOWN else 0), seen
