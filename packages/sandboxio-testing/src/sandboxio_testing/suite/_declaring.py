"""Capabilities, checked both ways, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sandboxio.errors import (
    AuthError,
    CapabilityNotSupported,
    CreationError,
    ProviderError,
    SandboxError,
    SandboxUnreachable,
)
from sandboxio.models import Capability, NetworkPolicy, Resources
from sandboxio.protocols import AsyncSandbox, Backend

from ._attempts import attempt
from ._base import ContractBase, Names
from ._bounds import SHORT
from ._clause_mark import clause
from ._hostfolder import names_of
from ._operations import NO_FILE, each_operation, each_refusal
from ._oracle import Oracle

__all__ = ["DeclaringContract"]

FLOOR = Capability.RUN_COMMAND | Capability.NETWORK_POLICY

PROVEN = (
    FLOOR
    | Capability.RUN_CODE
    | Capability.STATEFUL_CODE
    | Capability.STREAMING
    | Capability.FILESYSTEM
    | Capability.UPLOAD_DOWNLOAD
    | Capability.STDIN
    | Capability.NETWORK_ALLOWLIST
)
"""Capabilities that have clauses of their own in this version of the suite."""

IN_CALLS = (
    Capability.RUN_CODE,
    Capability.STATEFUL_CODE,
    Capability.STREAMING,
    Capability.FILESYSTEM,
    Capability.UPLOAD_DOWNLOAD,
    Capability.STDIN,
)
"""Capabilities that calls of a sandbox need."""

AT_CREATE: dict[Capability, dict[str, Any]] = {
    Capability.GPU: {"resources": Resources(gpu="T4")},
    Capability.TUNNELS: {"network": NetworkPolicy(ingress_ports=(8080,))},
    Capability.NETWORK_ALLOWLIST: {"network": NetworkPolicy(allow=("example.com",))},
}
"""Capabilities that are asked for when a sandbox is created."""

LATER = (
    Capability.PTY
    | Capability.PAUSE_RESUME
    | Capability.SNAPSHOT_FORK
    | Capability.LSP
    | Capability.GIT
    | Capability.COST_REPORTING
)
"""Capabilities that no call of this version leads to."""

WRONG: tuple[Any, ...] = (7, b"x", object(), ["x", 7])
"""Values that no text, number or mapping is."""


class DeclaringContract(ContractBase):
    """What a backend says that it can do, and how it says that it cannot."""

    @clause("capability.floor")
    async def test_backend_runs_commands_and_enforces_a_policy(self, subject: Backend) -> None:
        """If this fails, the backend declares too little for anything to be created with it."""
        assert FLOOR in subject.capabilities, subject.capabilities

    @clause("capability.proven")
    async def test_nothing_is_declared_that_nothing_proves(self, subject: Backend) -> None:
        """If this fails, a capability is declared that this version of the suite cannot prove.

        A capability of the future stays undeclared until there are a call and a clause for it.
        """
        unproven = subject.capabilities & ~PROVEN
        assert not unproven, f"declared, and without a clause: {unproven}"

    @clause("capability.sandbox-agrees")
    async def test_sandbox_declares_what_its_backend_does(
        self, subject: Backend, sandbox: AsyncSandbox
    ) -> None:
        """If this fails, a default sandbox cannot do what its backend promises, or can do more."""
        assert sandbox.capabilities == subject.capabilities

    @clause("capability.undeclared")
    @pytest.mark.parametrize("capability", IN_CALLS, ids=lambda flag: flag.name)
    async def test_undeclared_operation_is_refused(
        self, sandbox: AsyncSandbox, subject: Backend, tmp_path: Path, capability: Capability
    ) -> None:
        """If this fails, a call works, or does nothing, without its capability being declared.

        Callers branch on what is declared: declare what works, and refuse the rest.
        """
        if capability in subject.capabilities:
            pytest.skip(f"{capability} is declared")
        tried = 0
        for needed, what, operation in each_refusal(sandbox, self.probes, tmp_path):
            if needed is not capability:
                continue
            tried += 1
            error = await attempt(operation())
            assert isinstance(error, CapabilityNotSupported), f"{what}: {error!r}"
            assert error.capability is capability, f"{what}: {error!r}"
            assert error.hint
        if not tried:
            pytest.skip(
                f"no call leads to {capability}, because another one is not declared either"
            )
        assert names_of(tmp_path) == ["local"], "it did something here"
        there = await sandbox.run(self.probes.is_there(NO_FILE))
        assert there.exit_code == 1, "it did something in the sandbox"

    @clause("capability.undeclared")
    @pytest.mark.parametrize("capability", AT_CREATE, ids=lambda flag: flag.name)
    async def test_undeclared_request_is_refused(
        self, subject: Backend, oracle: Oracle, capability: Capability
    ) -> None:
        """If this fails, `create()` accepts what it cannot give."""
        if capability in subject.capabilities:
            pytest.skip(f"{capability} is declared")
        before = await oracle.sandboxes()
        asked = AT_CREATE[capability]
        error = await attempt(subject.create(template=self.template, **asked))
        assert isinstance(error, CapabilityNotSupported), repr(error)
        assert error.capability is capability, repr(error)
        assert await oracle.sandboxes() <= before

    # ----- errors

    @clause("errors.shape")
    async def test_error_has_code_hint_and_page(self, sandbox: AsyncSandbox, name: Names) -> None:
        """If this fails, an error is raised bare, or is not one of `sandboxio.errors`."""
        for code, call in {
            "SBX_E1701": sandbox.run(self.probes.exit(0), cwd=name("missing")),
            "SBX_E1302": sandbox.run(self.probes.sleep(300), timeout=SHORT),
            "SBX_E1000": sandbox.run([]),
        }.items():
            error = await attempt(call)
            assert isinstance(error, SandboxError), f"{code}: {error!r}"
            assert error.code == code
            assert error.hint
            assert error.url.endswith(f"/{code}")
            assert code in str(error)
            assert error.hint in str(error)
            assert error.retryable in (True, False, None)

    @clause("errors.no-builtins")
    async def test_wrong_argument_raises_no_builtin(
        self, sandbox: AsyncSandbox, subject: Backend, tmp_path: Path
    ) -> None:
        """If this fails, an argument is used before it is checked."""
        for wrong in WRONG:

            async def stream(argument: Any = wrong) -> None:
                async with sandbox.stream(argument) as process:
                    await process.wait()

            calls = {
                "stream": stream(),
                "run": sandbox.run(wrong),
                "run env": sandbox.run(["x"], env=wrong),
                "run cwd": sandbox.run(["x"], cwd=wrong),
                "run_code": sandbox.run_code(wrong),
                "language": sandbox.run_code("1", language=wrong),
                "read": sandbox.files.read(wrong),
                "upload": sandbox.files.upload(tmp_path, wrong),
                "connect": subject.connect(wrong),
            }
            for what, call in calls.items():
                error = await attempt(call)
                assert isinstance(error, SandboxError), f"{what}={wrong!r}: {error!r}"

    @clause("errors.cause")
    async def test_failure_of_the_provider_has_its_cause(self) -> None:
        """If this fails, a raw error of the provider escapes, or its cause is lost."""
        backend = self.new_unreachable_backend()
        for what, call in {
            "create": backend.create(template=self.template, timeout=20),
            "connect": backend.connect("sbx-00000000000000aa"),
        }.items():
            error = await attempt(call)
            assert isinstance(error, SandboxError), f"{what}: {error!r}"
            assert error.__cause__ is not None, f"{what}: {error!r} has no cause"
            assert not isinstance(error.__cause__, SandboxError), f"{what}: {error.__cause__!r}"

    @clause("errors.cause")
    async def test_unreachable_provider_is_named(self) -> None:
        """If this fails, "the provider does not answer" is not told from other failures."""
        backend = self.new_unreachable_backend()
        error = await attempt(backend.create(template=self.template, timeout=20))
        assert isinstance(error, SandboxUnreachable | CreationError | ProviderError), repr(error)

    @clause("errors.credential")
    async def test_missing_credential_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """If this fails, a user without the credential does not learn which variable to set."""
        if self.credential is None:
            pytest.skip("the author names no `credential`: the backend needs none")
        monkeypatch.delenv(self.credential, raising=False)
        backend = self.new_backend()
        error = await attempt(backend.create(template=self.template, timeout=20))
        assert isinstance(error, AuthError), repr(error)
        assert self.credential in f"{error.message} {error.hint}"

    @clause("errors.no-builtins")
    async def test_failing_operation_raises_no_builtin(
        self, sandbox: AsyncSandbox, tmp_path: Path
    ) -> None:
        """If this fails, a builtin such as `FileNotFoundError` or `TimeoutError` comes out."""
        path = "no-such-folder/no-such-file"
        for what, operation in each_operation(sandbox, self.probes, tmp_path, path):
            error = await attempt(operation())
            assert error is None or isinstance(error, SandboxError), f"{what}: {error!r}"
            assert error is not None or not what.startswith("files.") or what == "files.ls", what
