"""`FakeBackend`: sandboxes for tests, which run nothing and remember everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import sandboxio
from sandboxio.audit import AuditConfig
from sandboxio.errors import ConfigurationError
from sandboxio.models import Capability, ExecResult, IsolationTier, OutputChunk
from sandboxio.protocols import AsyncSandbox
from sandboxio.spi import DriverBackend

from ._config import MODELLED
from ._fake.calls import Call
from ._fake.clock import VirtualClock
from ._fake.driver import FakeDriver
from ._fake.faults import Faults
from ._fake.internet import Egress, Page
from ._fake.world import World

__all__ = ["FakeBackend", "Match", "Returns"]

Match = str | re.Pattern[str] | Callable[[Call], bool]
"""A part of the command or code, a pattern to be found in it, or a predicate on the call."""

Returns = ExecResult | Callable[[Call], ExecResult]
"""The result, or what makes it of the call."""


class FakeBackend(DriverBackend):
    """A backend for tests: no daemon, no network, no account, no waiting.

    It is the engine of every other backend over a simulated machine, so arguments are checked,
    deadlines enforced, secrets masked and policies refused as they are in production. It runs
    nothing of what it is given:

    - `on_run`, `on_run_code` and `on_stream` say what a command or a piece of code does.
    - What was not said goes to a small shell with a few programs (``echo``, ``cat``, ``sleep``,
      ``curl``, …), or to a model of very little Python. Whatever these do not know ends with an
      exit code above 0 and says so; it never passes silently.
    - `simulate` says what goes wrong with the provider, `expire` ends a sandbox's lifetime.
    - `calls` is every call that reached it, with the policy in effect.
    - Time is virtual: ``sleep 3600`` and a timeout of an hour take a millisecond, and the same
      happens in every run. See `clock`.

    Args:
        capabilities: What it declares; fewer, to test how code does without.
        isolation: The tier that it reports. It isolates nothing.
        resource_caps: ``False`` for a backend whose template owns all caps: it refuses `Resources`.
        audit: Where the engine's audit events go.

    Example:
        >>> from sandboxio import ExecResult
        >>> from sandboxio_testing import FakeBackend
        >>> async def check() -> None:
        ...     fake = FakeBackend()
        ...     fake.on_run(match="pytest", returns=ExecResult(1, "2 failed", ""))
        ...     result = await fake.sandbox.run(["pytest", "-q"])
        ...     assert result.exit_code == 1
        ...     assert [call.op for call in fake.calls] == ["create", "run"]
    """

    def __init__(
        self,
        *,
        capabilities: Capability = MODELLED,
        isolation: IsolationTier = IsolationTier.CONTAINER,
        resource_caps: bool = True,
        audit: AuditConfig | None = None,
    ) -> None:
        self._world = World(capabilities, isolation, resource_caps)
        self._fake = FakeDriver(self._world)
        self._audited = audit is not None
        self._sandbox: AsyncSandbox | None = None
        self._sync_sandbox: sandboxio.Sandbox | None = None
        super().__init__(self._fake, audit=audit)

    # --- what a test looks at

    @property
    def calls(self) -> list[Call]:
        """Every call that reached the fake, in order."""
        return self._world.calls

    @property
    def egress(self) -> list[Egress]:
        """Every attempt of code to reach the network, and whether the policy let it."""
        return self._world.internet.attempts

    @property
    def clock(self) -> VirtualClock:
        """The time of all sandboxes of this fake."""
        return self._world.clock

    @property
    def live_sandboxes(self) -> tuple[str, ...]:
        """Ids of all sandboxes that live, whoever created them, oldest first."""
        return tuple(self._world.sandboxes)

    def processes(self, sandbox_id: str) -> dict[int, tuple[str, ...]]:
        """Return what runs in a sandbox, by process id; nothing if there is no such sandbox."""
        found = self._world.sandboxes.get(sandbox_id)
        if found is None:
            return {}
        with self.clock.lock:
            return {proc.pid: proc.argv for proc in found.machine.kernel.living()}

    @property
    def open_sandboxes(self) -> frozenset[str]:
        """Ids of the sandboxes that were created and not ended, `sandbox` apart: it is the fake's."""
        own: frozenset[str] = (
            frozenset() if self._sandbox is None else frozenset({self._sandbox.id})
        )
        return super().open_sandboxes - own

    @property
    def sandbox(self) -> AsyncSandbox:
        """A sandbox of this fake with all defaults: made when it is first asked for, always the same."""
        if self._sandbox is None:
            if self._audited:
                raise ConfigurationError(
                    "A fake with an audit sink cannot make a sandbox without an event loop.",
                    hint="Use: await fake.create()",
                )
            request = self._request()
            self._sandbox = self._provisioned(self._fake.provision_now(request), request)
        return self._sandbox

    @property
    def sync_sandbox(self) -> sandboxio.Sandbox:
        """The same sandbox for code without an event loop; `close` it, or let a fixture do so."""
        if self._sync_sandbox is None:
            self._sync_sandbox = sandboxio.connect_sync(self.sandbox.id, backend=self)
        return self._sync_sandbox

    def close(self) -> None:
        """End all sandboxes of this fake. The fixtures of the pytest plugin call it."""
        if self._sync_sandbox is not None:
            self._sync_sandbox.close()
            self._sync_sandbox = None
        for sandbox in list(self._world.sandboxes.values()):
            sandbox.end("the fake was closed")

    # --- what commands and code do

    def on_run(
        self,
        match: Match,
        returns: Returns | None = None,
        *,
        raises: Exception | None = None,
        hangs: bool = False,
        takes: float = 0,
        times: int | None = None,
    ) -> None:
        """Say what ``run()`` does with commands that match; what is said last counts first.

        Args:
            match: A part of the command, a pattern, or a predicate on the `Call`. A list of
                arguments is looked at as a shell would quote it.
            returns: The result, or a function that makes it of the `Call`.
            raises: What the provider raises instead. An error of sandboxio comes out as it is,
                anything else as a `ProviderError` with it as the cause.
            hangs: Never end by itself: the deadline or a kill does it.
            takes: Seconds of the fake's clock before it ends.
            times: For so many calls only.
        """
        self._world.scripts.add(
            "run",
            match=match,
            returns=returns,
            raises=raises,
            hangs=hangs,
            takes=takes,
            times=times,
        )

    def on_run_code(
        self,
        match: Match,
        returns: Returns | None = None,
        *,
        raises: Exception | None = None,
        hangs: bool = False,
        takes: float = 0,
        times: int | None = None,
    ) -> None:
        """Say what ``run_code()`` does with code that matches; as for `on_run`.

        With `Capability.STATEFUL_CODE`, the result may have rich ``results``.
        """
        self._world.scripts.add(
            "run_code",
            match=match,
            returns=returns,
            raises=raises,
            hangs=hangs,
            takes=takes,
            times=times,
            rich=Capability.STATEFUL_CODE in self.capabilities,
        )

    def on_stream(
        self,
        match: Match,
        returns: Returns | None = None,
        *,
        chunks: Sequence[OutputChunk | str | bytes | float] | None = None,
        exit_code: int = 0,
        raises: Exception | None = None,
        hangs: bool = False,
        times: int | None = None,
    ) -> None:
        """Say what ``stream()`` does with commands that match; as for `on_run`.

        Args:
            match: As for `on_run`.
            returns: The output in one piece, and how it ends.
            chunks: Or the output piece by piece: text and bytes for stdout, an `OutputChunk` for
                stderr, and a number for a pause of so many seconds.
            exit_code: How it ends after these chunks.
            raises: As for `on_run`.
            hangs: As for `on_run`.
            times: As for `on_run`.
        """
        self._world.scripts.add(
            "stream",
            match=match,
            returns=returns,
            chunks=chunks,
            exit_code=exit_code,
            raises=raises,
            hangs=hangs,
            times=times,
        )

    def on_request(self, match: str, body: str | bytes = b"", *, status: int = 200) -> None:
        """Say what a URL answers to code in a sandbox whose policy lets it through.

        Args:
            match: A part of the URL.
            body: The content.
            status: The HTTP status.
        """
        data = body.encode() if isinstance(body, str) else body
        self._world.internet.answer(Page(match, status, data))

    # --- what goes wrong

    def simulate(
        self,
        *,
        create_takes: float = 0,
        create_fails: Exception | None = None,
        kill_hangs: bool = False,
        kill_fails: Exception | None = None,
        auth_missing: bool = False,
        rate_limited: float | bool = False,
        unreachable: bool = False,
        corrupted: bool = False,
        run_fails: Exception | None = None,
        files_fail: Exception | None = None,
        out_of_memory: bool = False,
        process_limit: bool = False,
        disk_full: bool = False,
        output_flood: bool = False,
        egress_violation: bool = False,
        fails_every: int = 0,
    ) -> None:
        """Say what goes wrong from now on; each call forgets the one before it.

        Without arguments, everything works again.

        Args:
            create_takes: Seconds of the fake's clock until a sandbox is ready.
            create_fails: What the provider raises; comes out as `CreationError`.
            kill_hangs: Ending a sandbox never finishes: the teardown grace runs out.
            kill_fails: What the provider raises when a sandbox is to end.
            auth_missing: Every call fails with `AuthError`, which names ``SBX_FAKE_TOKEN``.
            rate_limited: Every call fails with `RateLimitError`; a number is its ``retry_after``.
            unreachable: Every call fails with `SandboxUnreachable`, and `health` is not ok.
            corrupted: Every sandbox turns out to have broken the guest protocol.
            run_fails: What the provider raises when a command is to start.
            files_fail: What the provider raises at a file operation.
            out_of_memory: Every command is killed by the memory cap.
            process_limit: No command may start a process.
            disk_full: Every command and every write finds the disk full.
            output_flood: Every command writes without end.
            egress_violation: Every command fails with `NetworkPolicyViolation`.
            fails_every: Every so-many-th command fails with `SandboxUnreachable`, as if the
                connection had been reset.
        """
        self._world.faults = Faults(
            create_takes=create_takes,
            create_fails=create_fails,
            kill_hangs=kill_hangs,
            kill_fails=kill_fails,
            auth_missing=auth_missing,
            rate_limited=rate_limited,
            unreachable=unreachable,
            corrupted=corrupted,
            run_fails=run_fails,
            files_fail=files_fail,
            out_of_memory=out_of_memory,
            process_limit=process_limit,
            disk_full=disk_full,
            output_flood=output_flood,
            egress_violation=egress_violation,
            fails_every=fails_every,
        )

    def expire(self, sandbox_id: str) -> None:
        """End a sandbox as if its lifetime were over, or the provider had reclaimed it.

        Raises:
            ConfigurationError: There is none with that id.
        """
        sandbox = self._world.sandboxes.get(sandbox_id)
        if sandbox is None:
            raise ConfigurationError(f"This fake has no live sandbox {sandbox_id!r}.")
        sandbox.end("its lifetime is over")
