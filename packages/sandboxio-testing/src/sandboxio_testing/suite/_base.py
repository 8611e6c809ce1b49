"""What every class of the suite has: the author's part, and the fixtures made of it."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Literal, Protocol, cast

import anyio
import pytest

from sandboxio.audit import AuditConfig
from sandboxio.models import Capability, IsolationTier, NetworkPolicy, Resources
from sandboxio.protocols import AsyncSandbox, Backend, ReapableBackend

from ._bounds import PUT_AWAY, TEST
from ._guard import refuse_overrides
from ._oracle import Oracle
from ._probes import Probes
from ._pulse import Pulse
from ._witness import Witness

__all__ = ["FAILED", "ContractBase", "Maker", "Names"]

FAILED = pytest.StashKey[bool]()
"""Set on a test that failed: its sandbox is not used again."""

Names = Callable[[str], str]


class BackendFactory(Protocol):
    """A class or a callable without arguments that makes a backend."""

    def __call__(self) -> Backend:
        """Make one."""
        ...


class AuditedFactory(Protocol):
    """A class or a callable that makes a backend which records."""

    def __call__(self, *, audit: AuditConfig) -> Backend:
        """Make one."""
        ...


class WitnessFactory(Protocol):
    """A class or a callable without arguments that makes a witness."""

    def __call__(self) -> Witness:
        """Make one."""
        ...


LIFETIME = 120.0
"""Seconds that a sandbox of the suite lives, should everything else fail."""


class Maker:
    """Creates sandboxes for one test, and puts them away after it."""

    def __init__(self, backend: Backend, oracle: Oracle, template: str | None) -> None:
        self._backend = backend
        self._oracle = oracle
        self._template = template
        self._made: list[AsyncSandbox] = []

    async def __call__(
        self,
        *,
        resources: Resources = Resources(),
        network: NetworkPolicy = NetworkPolicy(),
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        timeout: float = LIFETIME,
        metadata: Mapping[str, str] | None = None,
        require_isolation: IsolationTier | None = None,
        backend: Backend | None = None,
    ) -> AsyncSandbox:
        """Create a sandbox that ends with the test."""
        return self.keep(
            await (backend or self._backend).create(
                template=self._template,
                resources=resources,
                network=network,
                env=env,
                secrets=secrets,
                timeout=timeout,
                metadata=metadata,
                require_isolation=require_isolation,
            )
        )

    def keep(self, sandbox: AsyncSandbox) -> AsyncSandbox:
        """Put this sandbox away after the test, too."""
        self._made.append(sandbox)
        return sandbox

    async def put_away(self) -> None:
        """End all of them, however that can be done."""
        while self._made:
            await put_away(self._made.pop(), self._oracle)


async def put_away(sandbox: AsyncSandbox, oracle: Oracle) -> None:
    """End a sandbox; that a backend cannot end its own fails the clause about it, no other."""
    with anyio.move_on_after(PUT_AWAY, shield=True):
        with suppress(Exception):
            await sandbox.kill()
        await oracle.destroy_if_it_can(sandbox.id)


class Pool:
    """The sandbox that the tests of a class share as long as it is well."""

    def __init__(self, maker: Maker, probes: Probes) -> None:
        self._maker = maker
        self._probes = probes
        self._sandbox: AsyncSandbox | None = None

    async def get(self) -> AsyncSandbox:
        """Return a sandbox that runs commands."""
        if self._sandbox is not None and not await self._is_well(self._sandbox):
            await self.discard()
        if self._sandbox is None:
            self._sandbox = await self._maker(timeout=30 * LIFETIME)
        return self._sandbox

    async def _is_well(self, sandbox: AsyncSandbox) -> bool:
        with anyio.move_on_after(PUT_AWAY):
            try:
                return (await sandbox.run(self._probes.exit(0))).exit_code == 0
            except Exception:  # noqa: BLE001 - whatever it is, another test did it: take a new one
                return False
        return False

    async def discard(self) -> None:
        """End it; the next test gets a new one."""
        self._sandbox = None
        await self._maker.put_away()


class ContractBase:
    """The author's part of the suite. Set what differs from the defaults in a subclass.

    Attributes:
        backend: A backend, its class, or a callable without arguments that makes one; a new one is
            made for each event loop.
        witness: A `Witness`, its class, or a callable without arguments that makes one.
        probes: The commands that run inside.
        template: Passed to `create()`.
        known_gaps: Clauses that the backend does not keep yet, each with the address of an issue.
            They become strict xfails. ``"exec.nul"`` is the whole clause,
            ``"exec.nul::test_name"`` one test of it, ``"exec.nul::test_name[trio]"`` one case.
        loops: Event loops that the backend supports.
        resource_caps_supported: ``False`` if the template owns all caps, and `Resources` is
            refused.
        short_lifetime: Seconds; the shortest lifetime that the backend can create a sandbox for.
        many: How many sandboxes are made in a row where the number is what is tested.
        cancel_points: At how many of its waits a create is cancelled.
        bound: Seconds after which a test fails because it hangs.
        unreachable: Like ``backend``, but with a provider that does not answer; ``None`` if the
            provider is always there.
        silent: Like ``backend``, but with a provider that takes requests and never answers; ``None``
            if the author cannot make one.
        refusing: Like ``backend``, but with a provider that refuses to end what it created.
        stuck: Like ``backend``, but with a provider that never confirms the end of what it created.
        audited: Makes a backend like ``backend`` that records as an `AuditConfig` says;
            ``None`` for ``backend`` itself, if it is a class that takes ``audit=``.
        credential: The environment variable of the provider's credential, or ``None``.
        public_name: A name of the outside that the host can resolve.
        outside: Host and port that a sandbox with ``egress="allow"`` can connect to; ``None`` for
            a listener that the suite opens on this host.

    Example:
        >>> from sandboxio_testing.suite import BackendContract
        >>> class TestMine(BackendContract):  # doctest: +SKIP
        ...     backend = MyBackend
        ...     witness = MyWitness()
        ...     known_gaps = {"exec.nul": "https://example.org/my-backend/issues/7"}
    """

    __sandboxio_contract__: ClassVar[bool] = True
    pytestmark: ClassVar[Any] = [
        pytest.mark.anyio,
        # Said once by a backend of that tier, to whichever test comes first; it has its own clause.
        pytest.mark.filterwarnings("ignore::sandboxio.errors.UnverifiedIsolationWarning"),
    ]

    backend: ClassVar[Backend | BackendFactory]
    witness: ClassVar[Witness | WitnessFactory]
    probes: ClassVar[Probes] = Probes()
    template: ClassVar[str | None] = None
    known_gaps: ClassVar[Mapping[str, str]] = {}
    loops: ClassVar[tuple[str, ...]] = ("asyncio", "trio")
    resource_caps_supported: ClassVar[bool] = True
    short_lifetime: ClassVar[float] = 2.0
    many: ClassVar[int] = 10
    cancel_points: ClassVar[int] = 8
    bound: ClassVar[float] = TEST
    unreachable: ClassVar[Backend | BackendFactory | None] = None
    silent: ClassVar[Backend | BackendFactory | None] = None
    refusing: ClassVar[Backend | BackendFactory | None] = None
    stuck: ClassVar[Backend | BackendFactory | None] = None
    audited: ClassVar[AuditedFactory | None] = None
    credential: ClassVar[str | None] = None
    public_name: ClassVar[str] = "example.com"
    outside: ClassVar[tuple[str, int] | None] = None

    def __init_subclass__(cls) -> None:
        refuse_overrides(cls)

    @classmethod
    def new_backend(cls) -> Backend:
        """Return the author's backend; a new one, unless the author gave an instance."""
        return cast(Backend, made(cls.backend, "create"))

    @classmethod
    def new_unreachable_backend(cls) -> Backend:
        """Return the author's backend whose provider does not answer, or skip."""
        if cls.unreachable is None:
            pytest.skip("the author gives no `unreachable` backend: the provider is always there")
        return cast(Backend, made(cls.unreachable, "create"))

    @classmethod
    def new_failing_backend(cls, how: Literal["silent", "refusing", "stuck"]) -> Backend:
        """Return the author's backend whose provider fails in one of the other ways, or skip."""
        given: Backend | BackendFactory | None = getattr(cls, how)
        if given is None:
            pytest.skip(f"the author gives no `{how}` backend")
        return cast(Backend, made(given, "create"))

    @classmethod
    def new_fresh_backend(cls, subject: Backend) -> Backend:
        """Return a backend like `subject` that was never used, or skip."""
        fresh = cls.new_backend()
        return cls.new_audited_backend(AuditConfig()) if fresh is subject else fresh

    @classmethod
    def new_audited_backend(cls, audit: AuditConfig) -> Backend:
        """Return a backend like the author's that records, or skip."""
        if cls.audited is not None:
            return cls.audited(audit=audit)
        given: Any = cls.backend
        if inspect.isclass(given) and "audit" in inspect.signature(given).parameters:
            return cast(AuditedFactory, given)(audit=audit)
        pytest.skip("the author gives no `audited`, and `backend` takes no audit=")

    async def pass_time(self, seconds: float) -> None:
        """Let time pass outside the sandbox; a backend with a clock of its own overrides it."""
        await anyio.sleep(seconds)

    # ----- fixtures

    @pytest.fixture(scope="class", params=["asyncio", "trio"])
    @classmethod
    def anyio_backend(cls, request: pytest.FixtureRequest) -> str:
        """Run everything on both event loops, in whatever project this is."""
        loop: str = request.param
        if loop not in cls.loops:
            pytest.skip(f"the author says that this backend does not support {loop}")
        return loop

    @pytest.fixture(scope="class")
    @classmethod
    def subject(cls, anyio_backend: str) -> Backend:
        """The backend that is judged."""
        return cls.new_backend()

    @pytest.fixture(scope="class")
    @classmethod
    def oracle(cls, anyio_backend: str) -> Oracle:
        """The witness; a class without one fails, because most clauses are worth nothing then."""
        witness = getattr(cls, "witness", None)
        if witness is None:
            pytest.fail(f"{cls.__name__} has no `witness`", pytrace=False)
        return Oracle(cast(Witness, made(witness, "sandboxes")))

    @pytest.fixture(scope="class")
    @classmethod
    async def pool(cls, subject: Backend, oracle: Oracle) -> AsyncGenerator[Pool, None]:
        """The shared sandbox, made when it is first needed."""
        maker = Maker(subject, oracle, cls.template)
        yield Pool(maker, cls.probes)
        await maker.put_away()

    @pytest.fixture(autouse=True)
    def applies(self, request: pytest.FixtureRequest, subject: Backend) -> None:
        """Skip, by name, what needs a capability that is not declared: another clause is for that."""
        for mark in request.node.iter_markers("needs"):
            capability: Capability = mark.args[0]
            if capability not in subject.capabilities:
                pytest.skip(f"{capability} is not declared; capability.undeclared is the clause")

    @pytest.fixture
    async def sandbox(
        self, pool: Pool, request: pytest.FixtureRequest
    ) -> AsyncGenerator[AsyncSandbox, None]:
        """A sandbox that other tests use too; a test that harms one takes one from `make`."""
        yield await pool.get()
        if request.node.stash.get(FAILED, False):
            await pool.discard()

    @pytest.fixture
    async def make(self, subject: Backend, oracle: Oracle) -> AsyncGenerator[Maker, None]:
        """Creates sandboxes for this test alone."""
        maker = Maker(subject, oracle, self.template)
        yield maker
        await maker.put_away()

    @pytest.fixture
    def pulse(self, sandbox: AsyncSandbox, oracle: Oracle) -> Pulse:
        """Looks after heartbeats in `sandbox`."""
        return self.pulse_of(sandbox, oracle)

    @pytest.fixture
    def name(self) -> Names:
        """Makes names that nothing else has, for files, markers and values."""
        token = secrets.token_hex(4)
        return lambda what: f"{what}-{token}"

    @pytest.fixture
    def reapable(self, subject: Backend) -> ReapableBackend:
        """The backend, if it can list what it holds."""
        if not hasattr(subject, "list_managed"):
            pytest.skip("the backend is no ReapableBackend")
        return cast(ReapableBackend, subject)

    def pulse_of(self, sandbox: AsyncSandbox, oracle: Oracle) -> Pulse:
        """Return what looks after heartbeats in a sandbox."""
        return Pulse(sandbox, self.probes, oracle)


def made(value: object, member: str) -> object:
    """Return the instance that the author gave, or what the author's class or callable makes."""
    if not inspect.isclass(value) and hasattr(value, member):
        return value
    assert callable(value), f"{value!r} has no {member}() and cannot be called to make one"
    return value()
