"""Every error that sandboxio raises, as one tree.

::

    SandboxError                         base of all; carries code, hint, url, retryable
    ├── ConfigurationError               SBX_E1000  a bad argument, DSN or option
    │   ├── BackendNotFound              SBX_E1001  no backend has that name
    │   ├── BackendNotInstalled          SBX_E1002  known, but its wheel is missing
    │   └── NoRoute                      SBX_E1003  no configured backend fits the request
    ├── CapabilityNotSupported           SBX_E1101  this backend cannot do that
    ├── CreationError                    SBX_E1201  no usable sandbox came of it
    ├── ConnectError                     SBX_E1202  a management call was not serviced
    │   └── SandboxUnreachable           SBX_E1205  the backend does not answer
    ├── CreateTimeout                    SBX_E1203  also a CreationError and a SandboxTimeout
    ├── SandboxGone                      SBX_E1204  the sandbox no longer exists
    │   └── SandboxCorrupted             SBX_E1206  it broke the guest protocol and was ended
    ├── ProviderError                    SBX_E1207  the provider failed in a way we do not know
    ├── ExecutionError                   SBX_E1301  non-zero exit, from raise_for_status()
    ├── SandboxTimeout                   (base only, no code)
    │   ├── CreateTimeout                SBX_E1203
    │   └── ExecutionTimeout             SBX_E1302  the deadline of a call passed
    ├── NetworkPolicyViolation           SBX_E1401  egress that the policy denies
    ├── ResourceLimitExceeded            SBX_E1402  a cap was hit
    │   ├── OutOfMemory                  SBX_E1403  the memory cap killed the command
    │   ├── ProcessLimitExceeded         SBX_E1404  the process cap refused a process
    │   ├── DiskFull                     SBX_E1405  the disk cap refused a write
    │   └── OutputLimitExceeded          SBX_E1406  more output than a call may hold
    ├── AuthError                        SBX_E1501  a credential is missing or refused
    ├── RateLimitError                   SBX_E1502  the provider throttles
    ├── AuditSinkError                   SBX_E1601  a sink failed under on_sink_failure="fail"
    └── FileSystemError                  SBX_E1700  a file operation failed
        └── PathNotFound                 SBX_E1701  the path does not exist in the sandbox

No class here inherits from a builtin exception other than ``Exception``, so ``except
TimeoutError`` and ``except OSError`` never catch one by accident: a builtin ``TimeoutError``
around a sandbox call is always the caller's own deadline.

Codes are public and stable. Message wording is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .models import Capability, ExecResult
    from .routing import RouteDecision

__all__ = [
    "AuditSinkError",
    "AuditSinkWarning",
    "AuthError",
    "BackendNotFound",
    "BackendNotInstalled",
    "CapabilityNotSupported",
    "ConfigurationError",
    "ConnectError",
    "CreateTimeout",
    "CreationError",
    "DiskFull",
    "ExecutionError",
    "ExecutionTimeout",
    "FileSystemError",
    "NetworkPolicyViolation",
    "NoRoute",
    "OrphanedSandboxWarning",
    "OutOfMemory",
    "OutputLimitExceeded",
    "PathNotFound",
    "ProcessLimitExceeded",
    "ProviderError",
    "RateLimitError",
    "ResourceLimitExceeded",
    "SandboxCorrupted",
    "SandboxError",
    "SandboxGone",
    "SandboxTimeout",
    "SandboxUnreachable",
    "UnverifiedIsolationWarning",
]

DOCS_URL = "https://docs.sandboxio.dev/errors/"
"""Where the page of each code lives; the code is appended."""


class SandboxError(Exception):
    """Base of every error that sandboxio raises.

    Attributes:
        code: Stable identifier, ``SBX_Ennnn``; ``None`` only on bases that are never raised.
        message: What happened, without secrets, environment values or user code.
        hint: The fix, as a command or a change to make.
        url: The documentation page of this code.
        retryable: ``True`` if the same call may succeed when it is made again, ``False`` if it
            cannot, ``None`` if that is not known. sandboxio itself never reruns a command.

    Example:
        >>> from sandboxio.errors import SandboxError, ConfigurationError
        >>> try:
        ...     raise ConfigurationError("timeout is 0", hint="pass a timeout above 0")
        ... except SandboxError as error:
        ...     print(error.code, "|", error.hint)
        SBX_E1000 | pass a timeout above 0
    """

    code: ClassVar[str | None] = None
    default_hint: ClassVar[str] = "Run: sandboxio doctor"
    default_retryable: ClassVar[bool | None] = None

    def __init__(
        self, message: str, *, hint: str | None = None, retryable: bool | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = self.default_hint if hint is None else hint
        self.retryable = self.default_retryable if retryable is None else retryable

    @property
    def url(self) -> str:
        """Address of the documentation page of this error's code."""
        return DOCS_URL + (self.code or "")

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}" if self.code else self.message]
        if self.hint:
            lines.append(f"  Fix:  {self.hint}")
        lines.append(f"  Docs: {self.url}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.code} {repr(self.message)[:140]}>"

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only constructors defeat the default, and errors do cross process pools.
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(
    kind: type[SandboxError], args: tuple[object, ...], state: dict[str, object]
) -> SandboxError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class ConfigurationError(SandboxError):
    """A request could not be understood: a bad argument, DSN, option or file.

    Raised before anything is created.
    """

    code = "SBX_E1000"
    default_hint = "Correct the argument named in the message."
    default_retryable: ClassVar[bool | None] = False


class BackendNotFound(ConfigurationError):
    """No backend is registered or installed under that name."""

    code = "SBX_E1001"
    default_hint = "Install the wheel that provides the backend, or call sandboxio.register()."


class BackendNotInstalled(ConfigurationError):
    """The backend is known, but the wheel that provides it is not installed."""

    code = "SBX_E1002"
    default_hint = 'Install it, for example: uv pip install "sandboxio[docker]"'


class NoRoute(ConfigurationError):
    """No configured backend satisfies the request; the message lists each with its reason.

    Attributes:
        decision: Every candidate with its reason, as a value.
    """

    code = "SBX_E1003"
    default_hint = "Relax the request, or enable a backend that satisfies it."
    default_retryable = None

    def __init__(
        self,
        message: str,
        *,
        decision: RouteDecision | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.decision = decision


class CapabilityNotSupported(SandboxError):
    """The backend does not declare the capability that this call needs.

    Nothing was done: sandboxio never emulates a capability and never ignores an argument.

    Attributes:
        capability: The missing capability, or ``None`` when a typed argument is refused that
            is not a capability of its own.
    """

    code = "SBX_E1101"
    default_hint = "Use a backend that declares it; see sandbox.capabilities."
    default_retryable = False

    def __init__(
        self,
        message: str,
        *,
        capability: Capability | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.capability = capability


class CreationError(SandboxError):
    """The backend failed to produce a usable sandbox; nothing of it is left behind."""

    code = "SBX_E1201"
    default_hint = "Run: sandboxio doctor"


class ConnectError(SandboxError):
    """The backend would not service a management call such as connect or kill."""

    code = "SBX_E1202"
    default_hint = "List what exists: sandboxio reap"


class SandboxUnreachable(ConnectError):
    """The backend, or the way to it, does not answer; the sandbox may still exist."""

    code = "SBX_E1205"
    default_hint = "Check that the backend is running: sandboxio doctor"
    default_retryable = True


class SandboxGone(SandboxError):
    """The sandbox no longer exists: it was killed, its lifetime ended, or it was reclaimed.

    Not a timeout. The sandbox's lifetime is the ``timeout`` of ``create()``.
    """

    code = "SBX_E1204"
    default_hint = "Create a new sandbox; raise create(timeout=...) if its lifetime was too short."
    default_retryable = False


class SandboxCorrupted(SandboxGone):
    """The sandbox sent something that the guest protocol does not allow, and was ended."""

    code = "SBX_E1206"
    default_hint = "Create a new sandbox. Treat what ran in this one as hostile."


class ProviderError(SandboxError):
    """The provider failed in a way that sandboxio does not know; see ``__cause__``."""

    code = "SBX_E1207"
    default_hint = "Look at __cause__; if it is a common failure, report it so that it gets a code."


class ExecutionError(SandboxError):
    """A command exited non-zero and the caller asked for that to raise.

    Attributes:
        result: The whole result, output included.
    """

    code = "SBX_E1301"
    default_hint = "Inspect error.result.stderr."
    default_retryable = False

    def __init__(
        self,
        message: str,
        *,
        result: ExecResult,
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.result = result


class SandboxTimeout(SandboxError):
    """Catches every sandboxio timeout; never raised itself."""


class CreateTimeout(CreationError, SandboxTimeout):
    """``create()`` took longer than its timeout; nothing of the sandbox is left behind."""

    code = "SBX_E1203"
    default_hint = (
        "Raise create(timeout=...), or find out why the backend is slow: sandboxio doctor"
    )
    default_retryable = True


class ExecutionTimeout(SandboxTimeout):
    """A command or a file operation passed its deadline, and its process tree was killed.

    Attributes:
        stdout: What the command had written to stdout until then.
        stderr: What it had written to stderr.
        kill_confirmed: ``True`` if the backend confirmed that the whole process tree is gone,
            ``False`` if it could not within the teardown grace.
    """

    code = "SBX_E1302"
    default_hint = "Raise timeout= for this call, or make the command faster."
    default_retryable = None

    def __init__(
        self,
        message: str,
        *,
        stdout: str = "",
        stderr: str = "",
        kill_confirmed: bool = True,
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.stdout = stdout
        self.stderr = stderr
        self.kill_confirmed = kill_confirmed


class NetworkPolicyViolation(SandboxError):
    """Code in the sandbox attempted egress that its network policy denies."""

    code = "SBX_E1401"
    default_hint = "Allow it at create: network=NetworkPolicy(egress='allow'), if you mean to."
    default_retryable = False


class ResourceLimitExceeded(SandboxError):
    """A cap was hit.

    Attributes:
        limit: Name of the cap, for example ``"memory_mb"``.
        value: The cap's value in the unit that its name carries, or ``None`` if unknown.
        stdout: Output until then; where output itself was the cap, its head and its tail.
        stderr: The same for stderr.
    """

    code = "SBX_E1402"
    default_hint = "Raise the cap named in the message, or use less of it."
    default_retryable = False

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        value: float | None = None,
        stdout: str = "",
        stderr: str = "",
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.limit = limit
        self.value = value
        self.stdout = stdout
        self.stderr = stderr


class OutOfMemory(ResourceLimitExceeded):
    """The memory cap killed the command; taken from the kernel's own count, not guessed."""

    code = "SBX_E1403"
    default_hint = "Raise it at create: resources=Resources(memory_mb=...)"


class ProcessLimitExceeded(ResourceLimitExceeded):
    """The cap on processes refused to start one."""

    code = "SBX_E1404"
    default_hint = "End processes of this sandbox, or run fewer at once."


class DiskFull(ResourceLimitExceeded):
    """The disk cap refused a write; the file that was there before is unchanged."""

    code = "SBX_E1405"
    default_hint = "Remove files, or raise it at create: resources=Resources(disk_mb=...)"


class OutputLimitExceeded(ResourceLimitExceeded):
    """A call produced more than it may hold in memory; the command was killed.

    ``stdout`` and ``stderr`` carry the head and the tail of what came.
    """

    code = "SBX_E1406"
    default_hint = "Use stream() or files.download(), or raise SBX_MAX_OUTPUT_MB."


class AuthError(SandboxError):
    """A provider credential is missing or was refused."""

    code = "SBX_E1501"
    default_hint = "Set the credential's environment variable."
    default_retryable = False


class RateLimitError(SandboxError):
    """The provider throttles requests. sandboxio does not retry on your behalf.

    Attributes:
        retry_after: Seconds that the provider asked to wait, or ``None`` if it did not say.
    """

    code = "SBX_E1502"
    default_hint = "Wait error.retry_after seconds, then call again."
    default_retryable = True

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.retry_after = retry_after


class AuditSinkError(SandboxError):
    """An audit sink failed while ``on_sink_failure="fail"`` was configured."""

    code = "SBX_E1601"
    default_hint = "Repair the sink; the operation counts as failed because it went unrecorded."


class FileSystemError(SandboxError):
    """A file operation failed.

    Attributes:
        path: The path in the sandbox (or on the host, for the local side of a transfer).
    """

    code = "SBX_E1700"
    default_hint = "Check the path and its permissions."
    default_retryable = False

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        hint: str | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retryable=retryable)
        self.path = path


class PathNotFound(FileSystemError):
    """The path does not exist."""

    code = "SBX_E1701"
    default_hint = "List what is there: await sandbox.files.ls()"


class UnverifiedIsolationWarning(UserWarning):
    """A sandbox was created on a backend whose isolation tier is ``UNKNOWN``."""


class OrphanedSandboxWarning(UserWarning):
    """A sandbox could not be destroyed within the teardown grace, and may still run."""


class AuditSinkWarning(UserWarning):
    """An audit sink failed; the operation went on."""
