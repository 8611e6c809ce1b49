"""What a fake remembers of every call that reached it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from sandboxio.models import NetworkPolicy, Resources

__all__ = ["Call"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call, after the engine has checked it; a call that the engine refuses is none.

    Fields that the kind of call does not have keep their defaults.

    Attributes:
        op: ``"create"``, ``"connect"``, ``"run"``, ``"run_code"``, ``"stream"``, ``"read"``,
            ``"write"``, ``"stat"``, ``"ls"``, ``"mkdir"``, ``"remove"``, ``"kill"``,
            ``"list_managed"``, ``"kill_managed"`` or ``"health"``. An upload is a ``"write"``, a
            download a ``"read"``.
        at: Second of the fake's clock.
        sandbox_id: The sandbox, if there is one yet.
        argv: The program and its arguments; ``run("text")`` has ``("/bin/sh", "-c", "text")``.
        code: Source text of ``run_code``.
        language: Its language.
        context_id: Its context.
        env: Environment of this call: the sandbox's, and what the call added. It holds the values
            of secrets: what a test asserts is up to the test.
        secret_names: Which names of the environment are secrets (``create`` only).
        cwd: Working directory.
        stdin: What was given as stdin.
        timeout: Seconds: the lifetime for ``create``, the deadline for a command.
        path: Path of a file operation.
        data: Content that was written.
        template: Template or image (``create`` only).
        resources: Caps in effect (``create`` only).
        network: The policy in effect: for ``create`` the one asked for, else the sandbox's.
        metadata: Labels (``create`` only).

    Example:
        >>> from sandboxio_testing import FakeBackend
        >>> async def check() -> None:
        ...     fake = FakeBackend()
        ...     await fake.sandbox.run(["pytest", "-q"], timeout=60)
        ...     assert fake.calls[-1].argv == ("pytest", "-q")
    """

    op: str
    at: float
    sandbox_id: str | None = None
    argv: tuple[str, ...] = ()
    code: str | None = None
    language: str | None = None
    context_id: str | None = None
    env: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    secret_names: frozenset[str] = frozenset()
    cwd: str | None = None
    stdin: bytes = field(default=b"", repr=False)
    timeout: float | None = None
    path: str | None = None
    data: bytes | None = field(default=None, repr=False)
    template: str | None = None
    resources: Resources | None = None
    network: NetworkPolicy | None = None
    metadata: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> str:
        """The command as text: what was handed to the shell, or the arguments as a shell quotes them."""
        if self.argv[:2] == ("/bin/sh", "-c") and len(self.argv) == 3:
            return self.argv[2]
        return shlex.join(self.argv)
