"""What a test says that goes wrong with the provider."""

from __future__ import annotations

from dataclasses import dataclass

from sandboxio.errors import (
    AuthError,
    DiskFull,
    NetworkPolicyViolation,
    ProcessLimitExceeded,
    RateLimitError,
    SandboxCorrupted,
    SandboxUnreachable,
)

__all__ = ["CREDENTIAL", "Faults"]

CREDENTIAL = "SBX_FAKE_TOKEN"
"""The variable that a missing credential of the fake is said to be in; it needs none."""


class ProviderFailed(Exception):
    """What the provider's own library would have raised: the cause of what comes out."""


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong, until something else is said; see `FakeBackend.simulate`."""

    create_takes: float = 0
    create_fails: Exception | None = None
    kill_hangs: bool = False
    kill_fails: Exception | None = None
    auth_missing: bool = False
    rate_limited: float | bool = False
    unreachable: bool = False
    corrupted: bool = False
    run_fails: Exception | None = None
    files_fail: Exception | None = None
    out_of_memory: bool = False
    process_limit: bool = False
    disk_full: bool = False
    output_flood: bool = False
    egress_violation: bool = False
    fails_every: int = 0

    def check_provider(self) -> None:
        """Raise what every call of the provider meets."""
        if self.auth_missing:
            raise AuthError(
                f"The credential {CREDENTIAL} is not set.", hint=f"export {CREDENTIAL}=..."
            ) from ProviderFailed("401 Unauthorized")
        if self.rate_limited is not False:
            after = None if self.rate_limited is True else float(self.rate_limited)
            raise RateLimitError(
                "The provider throttles requests.", retry_after=after
            ) from ProviderFailed("429 Too Many Requests")
        if self.unreachable:
            raise SandboxUnreachable("The fake provider does not answer.") from ProviderFailed(
                "connection refused"
            )

    def check_sandbox(self) -> None:
        """Raise what every call of a sandbox meets."""
        self.check_provider()
        if self.corrupted:
            raise SandboxCorrupted("The sandbox broke the guest protocol, and was ended.")

    def check_start(self, count: int) -> None:
        """Raise what the start of the `count`-th command meets."""
        self.check_sandbox()
        if self.fails_every and count % self.fails_every == 0:
            raise SandboxUnreachable("The connection was reset.") from ProviderFailed(
                "connection reset by peer"
            )
        if self.run_fails is not None:
            raise self.run_fails
        if self.process_limit:
            raise ProcessLimitExceeded(
                "The sandbox may not start another process.", limit="processes"
            )
        if self.egress_violation:
            raise NetworkPolicyViolation("The command attempted egress that its policy denies.")

    def check_files(self, *, grows: bool = False) -> None:
        """Raise what every file operation meets, and what those meet that need room."""
        self.check_sandbox()
        if self.files_fail is not None:
            raise self.files_fail
        if grows and self.disk_full:
            raise DiskFull("No space is left in the sandbox.", limit="disk_mb")
