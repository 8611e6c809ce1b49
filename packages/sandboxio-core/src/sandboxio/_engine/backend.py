"""The public `Backend`, made of a driver."""

from __future__ import annotations

import secrets as randomness
import warnings
from collections.abc import AsyncIterator, Mapping

from .._observe.record import Subject
from .._observe.redaction import Redactor, credentials_in
from .._observe.routing import REMAINS, current_route
from ..audit import AuditConfig
from ..errors import (
    ConnectError,
    CreateTimeout,
    CreationError,
    OrphanedSandboxWarning,
    SandboxError,
    UnverifiedIsolationWarning,
)
from ..models import Capability, Health, IsolationTier, ManagedSandbox, NetworkPolicy, Resources
from ..protocols import DEFAULT_TIMEOUT
from ..spi import (
    BackendDriver,
    Check,
    Outcome,
    ProvisionRequest,
    SandboxDriver,
    SupportsLoading,
    run_to_the_end,
)
from ..spi._clock import clock_of
from ..spi._denials import denials_of
from ..spi._prepare import SupportsPrepare, Unprepared
from .boundary import boundary
from .diagnosis import diagnosis
from .live import LiveSandbox
from .recording import Recorder
from .sandbox import EngineSandbox
from .settings import teardown_grace
from .validation import (
    check_env,
    check_isolation,
    check_metadata,
    check_network,
    check_resources,
    check_template,
    check_text,
    check_timeout,
)

__all__ = ["DriverBackend"]

CONNECT_BOUND = 30.0
"""Seconds that attaching to a sandbox may take."""

MANAGEMENT_BOUND = 30.0
"""Seconds that listing or destroying by id may take."""

LOAD_BOUND = 60.0
"""Seconds to import an SDK; a busy machine takes some of them."""

HEALTH_BOUND = 2.0
"""Seconds that a backend has to say how it is."""


class DriverBackend:
    """Turns a `BackendDriver` into a `ReapableBackend`: checks, refusals, deadlines and teardown.

    A backend class of an adapter is this with a constructor of its own.

    Example:
        >>> from sandboxio.spi import DriverBackend
        >>> class MyBackend(DriverBackend):
        ...     def __init__(self) -> None:
        ...         super().__init__(MyDriver())
    """

    def __init__(self, driver: BackendDriver, *, audit: AuditConfig | None = None) -> None:
        self._driver = driver
        self._recorder = Recorder(audit)
        self._clock = clock_of(driver)
        self._warned = False
        self._open: set[str] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.isolation.value}>"

    @property
    def name(self) -> str:
        """What a DSN calls it."""
        return self._driver.name

    @property
    def capabilities(self) -> Capability:
        """What its sandboxes can do."""
        return self._driver.capabilities

    @property
    def isolation(self) -> IsolationTier:
        """The tier of its sandboxes."""
        return self._driver.isolation

    @property
    def open_sandboxes(self) -> frozenset[str]:
        """Ids of the sandboxes that this object created and that have not been ended through it.

        What a test that must not leak looks at; a sandbox whose lifetime is over is still here.
        """
        return frozenset(self._open)

    async def create(
        self,
        *,
        template: str | None = None,
        resources: Resources = Resources(),
        network: NetworkPolicy = NetworkPolicy(),
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        metadata: Mapping[str, str] | None = None,
        require_isolation: IsolationTier | None = None,
    ) -> EngineSandbox:
        """Create a usable sandbox with all policy applied, or raise and leave nothing."""
        request = self._request(
            template=template,
            resources=resources,
            network=network,
            env=env,
            secrets=secrets,
            timeout=timeout,
            metadata=metadata,
            require_isolation=require_isolation,
        )
        redactor = Redactor.for_environment(request.env, secrets or ())
        subject = self._subject(request.name, redactor, request.metadata)
        live: LiveSandbox | None = None
        provisioned = False
        try:
            async with self._recorder.operation(subject, "create"):
                driver = await self._made(request, redactor)
                provisioned = True
                live = self._adopt(driver, subject, request.env)
        except BaseException:
            # That it could not be recorded, or a cancellation meanwhile, comes after the sandbox.
            if live is not None:
                await live.leave(failing=True)
            elif provisioned:
                await self._destroy_remains(request, redactor)
            raise
        routed = current_route()
        return EngineSandbox(live, None if routed is None else routed.decision)

    def _subject(
        self, sandbox_id: str, redactor: Redactor, labels: Mapping[str, str] | None = None
    ) -> Subject:
        """Return what is known of a sandbox before it is there."""
        routed = current_route()
        return Subject(
            sandbox_id,
            self.name,
            self.isolation,
            redactor,
            {} if labels is None else labels,
            routing=None if routed is None else routed.record,
            now=self._clock.current_time,
        )

    def _request(
        self,
        *,
        template: str | None = None,
        resources: Resources = Resources(),
        network: NetworkPolicy = NetworkPolicy(),
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        metadata: Mapping[str, str] | None = None,
        require_isolation: IsolationTier | None = None,
    ) -> ProvisionRequest:
        """Check what `create` was given, or refuse it before anything exists."""
        driver = self._driver
        checked_env = check_env(env)
        checked_secrets = check_env(secrets, "secrets")
        request = ProvisionRequest(
            name=f"sbx-{randomness.token_hex(8)}",
            template=check_template(template),
            timeout=check_timeout(timeout),
            metadata=check_metadata(metadata),
            network=check_network(network, driver.capabilities, driver.name),
            resources=check_resources(
                resources,
                driver.default_resources,
                driver.capabilities,
                driver.name,
                driver.resources_hint,
            ),
            env={**checked_env, **checked_secrets},
            # What looks like a credential is kept like one, so that who attaches masks it too.
            secret_names=frozenset((*checked_secrets, *credentials_in(checked_env))),
        )
        check_isolation(require_isolation, driver.isolation, driver.name)
        self._warn_if_unverified()
        return request

    def _adopt(
        self,
        driver: SandboxDriver,
        subject: Subject,
        env: Mapping[str, str],
        *,
        attached: bool = False,
    ) -> LiveSandbox:
        """Take charge of a sandbox that is there."""
        subject.sandbox_id = driver.id
        subject.policy = driver.policy
        subject.isolation = driver.policy.isolation
        subject.denials = denials_of(driver)
        if not attached:
            self._open.add(driver.id)
        return LiveSandbox(
            driver,
            subject=subject,
            recorder=self._recorder,
            env=env,
            attached=attached,
            clock=self._clock,
            ledger=self._open,
        )

    def _provisioned(self, driver: SandboxDriver, request: ProvisionRequest) -> EngineSandbox:
        """Make a public sandbox of one that a subclass provisioned without waiting."""
        redactor = Redactor.for_environment(request.env, request.secret_names)
        subject = self._subject(request.name, redactor, request.metadata)
        return EngineSandbox(self._adopt(driver, subject, request.env))

    async def _made(self, request: ProvisionRequest, redactor: Redactor) -> SandboxDriver:
        """Provision, and prepare first where the driver says that it has to."""
        try:
            return await self._provision(request, redactor)
        except Unprepared:
            if not isinstance(self._driver, SupportsPrepare):
                raise
        with boundary("Preparing for a sandbox", redactor, CreationError):
            await self._driver.prepare(request)
        return await self._provision(request, redactor)

    async def _provision(self, request: ProvisionRequest, redactor: Redactor) -> SandboxDriver:
        what = "Creating a sandbox"
        routed = current_route()
        bound = request.timeout if routed is None else min(request.timeout, routed.ready_within)
        try:
            with (
                self._clock.move_on_after(bound) as scope,
                boundary(what, redactor, CreationError),
            ):
                return await self._driver.provision(request)
        except BaseException as error:
            remains = await self._destroy_remains(request, redactor)
            if isinstance(error, SandboxError):
                error.add_note(remains)
            raise
        assert scope.cancelled_caught
        late = CreateTimeout(f"The {self.name!r} backend had no sandbox ready within {bound:g} s.")
        late.add_note(await self._destroy_remains(request, redactor))
        raise late

    async def _destroy_remains(self, request: ProvisionRequest, redactor: Redactor) -> str:
        """Destroy what a failed or cancelled create may have left under the name chosen for it.

        Returns whether that is confirmed, in a sentence: a note for the error, and what a router
        says of an attempt before it lets another backend try.
        """
        grace = teardown_grace()
        outcome = Outcome()
        try:
            await run_to_the_end(
                lambda: self._driver.destroy(request.name),
                grace=grace,
                outcome=outcome,
                clock=self._clock,
            )
        finally:
            # Also for a caller that was cancelled, who gets no answer.
            if outcome.gave_up:
                late = f"confirmed within {grace:g} s that nothing is left."
                text = f"The create of {request.name} on {self.name!r} was given up, and it was not"
                warnings.warn(
                    redactor.text(f"{text} {late} Labels: {dict(request.metadata)}."),
                    OrphanedSandboxWarning,
                    stacklevel=4,
                )
        if outcome.finished and outcome.error is None:
            return f"{REMAINS}nothing is left of {request.name}, which is confirmed."
        why = f"no answer within {grace:g} s" if outcome.gave_up else type(outcome.error).__name__
        return f"{REMAINS}it is not confirmed that nothing is left of {request.name}: {why}."

    def _warn_if_unverified(self) -> None:
        if self.isolation is IsolationTier.UNKNOWN and not self._warned:
            self._warned = True
            warnings.warn(
                f"The isolation of the {self.name!r} backend is not verified. Pass "
                "require_isolation= to refuse it.",
                UnverifiedIsolationWarning,
                stacklevel=4,
            )

    async def connect(self, sandbox_id: str) -> EngineSandbox:
        """Attach to a sandbox that exists.

        Leaving the block of what is returned lets go of the sandbox and leaves it running: its
        life belongs to who created it. `kill()` ends it for everybody.

        Raises:
            ConnectError: There is none with that id.
        """
        checked = self._check_id(sandbox_id)
        subject = self._subject(checked, Redactor())
        async with self._recorder.operation(subject, "connect"):
            with self._clock.move_on_after(CONNECT_BOUND):
                with boundary("Connecting", Redactor(), ConnectError):
                    driver = await self._driver.attach(checked)
                subject.redactor = Redactor(driver.secrets)
                return EngineSandbox(self._adopt(driver, subject, {}, attached=True))
            raise ConnectError(
                f"{checked!r} did not answer within {CONNECT_BOUND:g} s.", retryable=True
            )
        raise AssertionError("unreachable")

    async def list_managed(
        self, *, labels: Mapping[str, str] | None = None
    ) -> list[ManagedSandbox]:
        """List every sandbox that sandboxio made and this backend still holds."""
        wanted = check_metadata(labels)
        with (
            self._clock.move_on_after(MANAGEMENT_BOUND),
            boundary("Listing", Redactor(), ConnectError),
        ):
            return await self._driver.list_managed(wanted)
        raise ConnectError(f"{self.name!r} listed nothing within {MANAGEMENT_BOUND:g} s.")

    async def kill_managed(self, sandbox_id: str) -> bool:
        """Destroy a sandbox that sandboxio made; ``False`` if there is none with that id."""
        checked = self._check_id(sandbox_id)
        async with self._recorder.operation(self._subject(checked, Redactor()), "kill"):
            with (
                self._clock.move_on_after(MANAGEMENT_BOUND),
                boundary("Destroying", Redactor(), ConnectError),
            ):
                destroyed = await self._driver.destroy(checked)
                self._open.discard(checked)
                return destroyed
            raise ConnectError(
                f"{checked!r} was not confirmed to be gone in {MANAGEMENT_BOUND:g} s."
            )
        raise AssertionError("unreachable")

    async def health(self) -> Health:
        """Say whether a sandbox could be created now."""
        await self.load()
        with (
            self._clock.move_on_after(HEALTH_BOUND),
            boundary("The health check", Redactor(), ConnectError),
        ):
            return await self._driver.health()
        return Health(
            ok=False, detail=f"no answer within {HEALTH_BOUND:g} s", hint="Is it running?"
        )

    async def load(self) -> None:
        """Load the adapter's SDK, where that takes long; what cannot be loaded says so when asked."""
        if isinstance(self._driver, SupportsLoading):
            with (
                self._clock.move_on_after(LOAD_BOUND),
                boundary("Loading its SDK", Redactor(), ConnectError),
            ):
                await self._driver.load()

    def diagnose(self) -> AsyncIterator[Check]:
        """Yield what `sandboxio doctor` shows of this backend; whoever asks has a bound of its own."""
        return diagnosis(self._driver)

    def _check_id(self, sandbox_id: object) -> str:
        checked = check_text(sandbox_id, "sandbox_id")
        if not checked.strip():
            raise ConnectError("The sandbox id is empty.")
        return checked
