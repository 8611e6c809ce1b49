"""The values that cross the public API: frozen, comparable with ``==``, free of behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import Enum, Flag, auto
from typing import Any, Literal, cast

from .errors import ConfigurationError, ExecutionError

__all__ = [
    "PIPE",
    "AppliedCap",
    "AppliedPolicy",
    "BackendConfig",
    "Capability",
    "ExecResult",
    "FileInfo",
    "Health",
    "IsolationTier",
    "ManagedSandbox",
    "Meter",
    "NetworkPolicy",
    "OutputChunk",
    "Resources",
    "RichOutput",
]


LONGEST_REPR = 198
"""Characters of the representation of a value; what is longer is cut."""


class _ShortRepr:
    """A dataclass that shows what differs from its defaults, and never more than fits a line."""

    def __init_subclass__(cls) -> None:
        # A subclass that is a dataclass would be given the long one again.
        cls.__repr__ = _ShortRepr.__repr__  # type: ignore[method-assign]  # that is its purpose

    def __repr__(self) -> str:
        shown = (
            f"{part.name}={value!r}"
            for part in fields(cast("Any", self))
            if part.repr and (value := getattr(self, part.name)) != part.default
        )
        text = f"{type(self).__name__}({', '.join(shown)})"
        return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 2]}…)"


class Capability(Flag):
    """What a sandbox can do. Discover it per sandbox; never infer it from a backend's name.

    Example:
        >>> from sandboxio import Capability
        >>> Capability.STREAMING in (Capability.RUN_COMMAND | Capability.STREAMING)
        True
    """

    RUN_COMMAND = auto()
    """``run()`` runs a program."""
    RUN_CODE = auto()
    """``run_code()`` runs source text."""
    STATEFUL_CODE = auto()
    """``run_code(context_id=...)`` keeps variables between calls."""
    STREAMING = auto()
    """``stream()`` hands out output while the command runs."""
    FILESYSTEM = auto()
    """``files.read``, ``write``, ``ls``, ``mkdir``, ``remove``."""
    UPLOAD_DOWNLOAD = auto()
    """``files.upload`` and ``files.download``."""
    PTY = auto()
    """Commands on a pseudo-terminal."""
    PAUSE_RESUME = auto()
    """The sandbox can be paused and resumed."""
    SNAPSHOT_FORK = auto()
    """The sandbox can be snapshotted or forked."""
    GPU = auto()
    """``Resources(gpu=...)`` is honoured."""
    LSP = auto()
    """A language server."""
    GIT = auto()
    """Git operations of the provider's own."""
    NETWORK_POLICY = auto()
    """The egress policy is enforced. Without it, nothing can be created: deny is the default."""
    TUNNELS = auto()
    """Ports of the sandbox can be reached from outside."""
    COST_REPORTING = auto()
    """Cost can be attributed after the fact."""
    STDIN = auto()
    """``stdin=``, and ``Process.send``, ``send_eof`` and ``signal``."""
    NETWORK_ALLOWLIST = auto()
    """``NetworkPolicy(allow=...)`` is enforced by the backend."""


class Stdin(Enum):
    """How a streamed command's stdin begins, when it is not given as data."""

    PIPE = "pipe"


PIPE = Stdin.PIPE
"""``stream(..., stdin=PIPE)``: stdin stays open for `Process.send` until `Process.send_eof`."""


_RANKS = {"unknown": 0, "container": 10, "gvisor": 20, "microvm": 30}


class IsolationTier(Enum):
    """How well a sandbox resists kernel escape by a hostile tenant, and nothing else.

    Example:
        >>> from sandboxio import IsolationTier
        >>> IsolationTier.MICROVM.satisfies(IsolationTier.CONTAINER)
        True
        >>> IsolationTier.UNKNOWN.satisfies(IsolationTier.CONTAINER)
        False
    """

    UNKNOWN = "unknown"
    """Undeclared or unverified: satisfies no requirement."""
    CONTAINER = "container"
    """A shared kernel. For trusted, development and CI code only."""
    GVISOR = "gvisor"
    """A user-space kernel: defence in depth, not the equal of a virtual machine."""
    MICROVM = "microvm"
    """A guest kernel of its own: the floor for untrusted multi-tenant code."""

    @property
    def rank(self) -> int:
        """Position in the order; spaced so that a tier can be inserted."""
        return _RANKS[self.value]

    def satisfies(self, minimum: IsolationTier) -> bool:
        """Say whether this tier is at least ``minimum``; ``UNKNOWN`` satisfies nothing."""
        return self.rank > 0 and minimum.rank > 0 and self.rank >= minimum.rank

    def __lt__(self, other: object) -> bool:
        return self.rank < other.rank if isinstance(other, IsolationTier) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.rank <= other.rank if isinstance(other, IsolationTier) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.rank > other.rank if isinstance(other, IsolationTier) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.rank >= other.rank if isinstance(other, IsolationTier) else NotImplemented


@dataclass(frozen=True)
class Resources:
    """Caps of a sandbox. ``None`` means the backend's own modest default, never unbounded.

    Attributes:
        cpu: Cores, for example ``0.5``.
        memory_mb: Memory and swap together, in MiB.
        disk_mb: What may be stored, in MiB; refused where it cannot be enforced.
        gpu: Accelerator model; needs ``Capability.GPU``.
        processes: How many processes and threads may exist at once.

    Example:
        >>> from sandboxio import Resources
        >>> Resources(memory_mb=1024)
        Resources(cpu=None, memory_mb=1024, disk_mb=None, gpu=None, processes=None)
    """

    cpu: float | None = None
    memory_mb: int | None = None
    disk_mb: int | None = None
    gpu: str | None = None
    processes: int | None = None


@dataclass(frozen=True, repr=False)
class NetworkPolicy(_ShortRepr):
    """What a sandbox may reach. The default denies everything.

    Attributes:
        egress: ``"deny"``, ``"allow"``, or ``"learn"`` (reserved; refused).
        allow: Host names and CIDRs that may be reached although ``egress`` is ``"deny"``;
            refused by backends that cannot enforce a list.
        ingress_ports: Ports to be reachable from outside; refused by backends without
            ``Capability.TUNNELS``.

    Example:
        >>> from sandboxio import NetworkPolicy
        >>> NetworkPolicy() == NetworkPolicy(egress="deny")
        True
    """

    egress: Literal["deny", "allow", "learn"] = "deny"
    allow: tuple[str, ...] = ()
    ingress_ports: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class RichOutput:
    """One rich result of an interpreter.

    Attributes:
        mime_type: For example ``"text/html"`` or ``"image/png"``.
        data: Text; binary payloads are base64 text.

    Example:
        >>> from sandboxio import RichOutput
        >>> RichOutput("text/html", "<b>2</b>").mime_type
        'text/html'
    """

    mime_type: str
    data: str

    def __repr__(self) -> str:
        return f"<RichOutput {self.mime_type[:100]} {len(self.data)} characters>"


@dataclass(frozen=True, repr=False)
class OutputChunk:
    """A piece of what a running command wrote.

    Attributes:
        stream: ``"stdout"`` or ``"stderr"``.
        data: Bytes as written; a chunk may end in the middle of a character.

    Example:
        >>> from sandboxio import OutputChunk
        >>> OutputChunk("stdout", b"hello").data
        b'hello'
    """

    stream: Literal["stdout", "stderr"]
    data: bytes

    def __repr__(self) -> str:
        return f"<OutputChunk {self.stream} {len(self.data)} bytes>"


@dataclass(frozen=True, repr=False)
class FileInfo(_ShortRepr):
    """One entry of a directory in the sandbox.

    Attributes:
        path: Path in the sandbox. Bytes of a name that are not UTF-8 appear as surrogates
            (``surrogateescape``), so the path can be handed back as it is.
        size: Bytes.
        is_dir: Whether it is a directory; a link to a directory is not one.
        is_link: Whether it is a symbolic link.
        mode: Permission bits, or ``None`` where the backend does not tell.
        mtime: Modification time in seconds since the epoch, or ``None``.

    Example:
        >>> from sandboxio import FileInfo
        >>> FileInfo("/work/a.txt", size=3, is_dir=False).size
        3
    """

    path: str
    size: int
    is_dir: bool
    is_link: bool = False
    mode: int | None = None
    mtime: float | None = None


@dataclass(frozen=True)
class Meter:
    """What a call took.

    Attributes:
        duration_ms: From the call to its end.
        backend: Name of the backend.
        waiting_ms: The part until the command had started; ``None`` where that is not told.
        running_ms: The rest.

    Example:
        >>> from sandboxio import Meter
        >>> Meter(duration_ms=2, backend="local").backend
        'local'
    """

    duration_ms: int
    backend: str
    waiting_ms: int | None = None
    running_ms: int | None = None


@dataclass(frozen=True, repr=False)
class ExecResult:
    r"""How a command or a piece of code ended.

    Attributes:
        exit_code: 0 to 255; a process that died of signal *n* has 128 + *n*.
        stdout: Decoded as UTF-8; undecodable bytes appear as ``\xNN``. Empty when streamed.
        stderr: The same for stderr.
        results: Rich outputs of an interpreter; ``None`` where the backend has none.
        meter: What the call took.
        streamed: Whether the output was handed out by a stream, and is therefore not here.

    Example:
        >>> from sandboxio import ExecResult
        >>> ExecResult(0, "2.2.1\n", "").ok
        True
    """

    exit_code: int
    stdout: str
    stderr: str
    results: tuple[RichOutput, ...] | None = None
    meter: Meter | None = None
    streamed: bool = False

    def __repr__(self) -> str:
        # What a program wrote may be anything, and any length.
        sizes = f"stdout={len(self.stdout)} stderr={len(self.stderr)} characters"
        what = "streamed" if self.streamed else sizes
        meter = "" if self.meter is None else f" {self.meter.duration_ms} ms {self.meter.backend}"
        return f"<ExecResult exit={self.exit_code} {what}{meter}"[:190] + ">"

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0."""
        return self.exit_code == 0

    def raise_for_status(self) -> ExecResult:
        """Return this result if it is ok.

        Raises:
            ExecutionError: The exit code is not 0.
        """
        if self.ok:
            return self
        # Not a word of the output: errors are logged, and a command may print a secret.
        raise ExecutionError(f"The command exited with status {self.exit_code}.", result=self)


@dataclass(frozen=True, repr=False)
class ManagedSandbox(_ShortRepr):
    """A sandbox that a backend still holds, as `sandboxio reap` lists it.

    Attributes:
        sandbox_id: Its id.
        backend: Name of the backend.
        state: ``"running"``, ``"stopped"`` or ``"paused"``.
        created_at: Aware time of its creation, if known.
        labels: The caller's metadata as stored.
        owner: Who made it (for example ``"pid 4711 on host"``), if known.
        owner_alive: Whether that owner still lives; ``None`` if it cannot be told.

    Example:
        >>> from sandboxio import ManagedSandbox
        >>> ManagedSandbox("sbx-1", "local", "running").state
        'running'
    """

    sandbox_id: str
    backend: str
    state: Literal["running", "stopped", "paused"]
    created_at: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict[str, str])
    owner: str | None = None
    owner_alive: bool | None = None


@dataclass(frozen=True)
class AppliedCap:
    """One cap as it was really applied.

    Attributes:
        value: In the unit that the field of `AppliedPolicy` names.
        mechanism: What enforces it, for example ``"cgroup v2 memory.max"``.
        verified: Whether it was read back from what enforces it after the start.

    Example:
        >>> from sandboxio import AppliedCap
        >>> AppliedCap(512, "cgroup v2 memory.max", verified=True).value
        512
    """

    value: float
    mechanism: str
    verified: bool


@dataclass(frozen=True, repr=False)
class AppliedPolicy(_ShortRepr):
    """What is in force on one sandbox, as applied and read back, not as asked for.

    Attributes:
        isolation: Tier of this sandbox.
        network: The policy in force.
        network_mechanism: What enforces it, for example ``"own network namespace"``.
        network_verified: Whether that was checked after the start.
        lifetime_s: Seconds after which the sandbox ends, whatever happens to its creator.
        cpu: Cores.
        memory_mb: MiB, swap included.
        processes: Processes and threads.
        disk_mb: MiB.
        notes: Facts a reader of this policy must know, one sentence each.

    Example:
        >>> from sandboxio import AppliedPolicy, IsolationTier, NetworkPolicy
        >>> AppliedPolicy(IsolationTier.CONTAINER, NetworkPolicy(), "none", True, 300).cpu is None
        True
    """

    isolation: IsolationTier
    network: NetworkPolicy
    network_mechanism: str
    network_verified: bool
    lifetime_s: float
    cpu: AppliedCap | None = None
    memory_mb: AppliedCap | None = None
    processes: AppliedCap | None = None
    disk_mb: AppliedCap | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Health(_ShortRepr):
    """Whether a backend could create a sandbox now; cheap to ask, and free of secrets.

    Attributes:
        ok: Whether it could.
        detail: One sentence: what was found, or what is wrong.
        hint: The fix, when ``ok`` is false.
        facts: Versions and the like, as pairs in a stable order.

    Example:
        >>> from sandboxio import Health
        >>> Health(ok=True, detail="bwrap 0.11.0").hint is None
        True
    """

    ok: bool
    detail: str
    hint: str | None = None
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class BackendConfig(_ShortRepr):
    """Typed configuration of one sandbox; each backend has a subclass with its own options.

    Every field means what the argument of ``create()`` of that name means. An argument given
    to ``create()`` as well must not contradict it.

    Attributes:
        template: Image or template; the backend's default if ``None``.
        resources: Caps.
        network: Egress policy.
        env: Environment of every command.
        secrets: Like ``env``, and redacted everywhere.
        timeout: Lifetime in seconds.
        metadata: Labels.
        require_isolation: Least tier that is accepted.

    Example:
        >>> from sandboxio_local import LocalConfig
        >>> LocalConfig(timeout=60).timeout
        60
    """

    template: str | None = None
    resources: Resources = Resources()
    network: NetworkPolicy = NetworkPolicy()
    env: dict[str, str] | None = field(default=None, repr=False)
    secrets: dict[str, str] | None = field(default=None, repr=False)
    timeout: float = 300
    metadata: dict[str, str] | None = None
    require_isolation: IsolationTier | None = None

    @property
    def backend(self) -> str:
        """Name of the backend that this configures; every subclass overrides it."""
        raise ConfigurationError(
            "BackendConfig itself names no backend.",
            hint="Use the backend's own class, for example LocalConfig or DockerConfig.",
        )
