"""Secrets: where they belong, and nowhere else."""

from __future__ import annotations

import logging
import secrets
import traceback
import warnings
from collections.abc import Iterator

import pytest

from sandboxio.errors import SandboxError
from sandboxio.models import Capability
from sandboxio.protocols import AsyncSandbox, Backend

from ._attempts import attempt
from ._base import ContractBase, Maker
from ._clause_mark import clause, needs
from ._operations import Operation
from ._oracle import Oracle, known
from ._surroundings import environment

__all__ = ["SecretingContract", "canary"]


def canary() -> str:
    """Return a secret with everything in it that a mask may trip over."""
    return f"s3cr.et+(*[{secrets.token_hex(8)}"


def shown(error: BaseException) -> str:
    """Return all that is printed of an error, its causes and notes included."""
    return "\n".join([str(error), repr(error), *traceback.format_exception(error)])


class SecretingContract(ContractBase):
    """`secrets=`."""

    def failing(self, sandbox: AsyncSandbox, secret: str) -> Iterator[tuple[str, Operation]]:
        """Return calls that fail, with a secret in what they fail about."""
        files = sandbox.files
        yield "cwd", lambda: sandbox.run(self.probes.exit(0), cwd=f"missing-{secret}")
        yield "timeout", lambda: sandbox.run([*self.probes.sleep(300)], timeout=0.2)
        yield "argument", lambda: sandbox.run(["x", f"{secret}\0"])
        yield "env", lambda: sandbox.run(["x"], env={f"A={secret}": "x"})
        if Capability.RUN_CODE in sandbox.capabilities:
            yield "language", lambda: sandbox.run_code("1", language=secret)
        if Capability.FILESYSTEM in sandbox.capabilities:
            yield "read", lambda: files.read(f"missing-{secret}")
            yield "write", lambda: files.write(f"missing-{secret}/file", b"x")
            yield "ls", lambda: files.ls(f"missing-{secret}")
            yield "remove", lambda: files.remove(f"missing-{secret}")
        if Capability.UPLOAD_DOWNLOAD in sandbox.capabilities:
            yield "upload", lambda: files.upload(f"/missing-{secret}", "file")
            yield "download", lambda: files.download(f"missing-{secret}", "/missing/file")

    async def assert_masked(self, sandbox: AsyncSandbox, secret: str) -> None:
        """Fail if an error of a sandbox, or a warning beside it, shows a secret."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for what, operation in self.failing(sandbox, secret):
                error = await attempt(operation())
                assert isinstance(error, SandboxError), f"{what}: {error!r}"
                assert secret not in shown(error), f"{what}: {shown(error)}"
                path: object = getattr(error, "path", "")
                assert secret not in str(path), f"{what}: path is {path}"
        assert not [item for item in caught if secret in str(item.message)]

    @clause("secrets.given")
    async def test_commands_have_the_secrets(self, make: Maker) -> None:
        """If this fails, `secrets=` is dropped, or what commands get is the mask."""
        secret = canary()
        sandbox = await make(env={"SBX_ONE": "1"}, secrets={"SBX_SECRET": secret})
        found = await environment(sandbox, self.probes)
        assert (found.get("SBX_ONE"), found.get("SBX_SECRET")) == ("1", secret)

    @clause("secrets.reprs")
    async def test_no_repr_shows_a_secret(self, make: Maker, subject: Backend) -> None:
        """If this fails, an object keeps the environment in a field that its repr shows."""
        secret = canary()
        sandbox = await make(env={"SBX_API_KEY": f"{secret}-2"}, secrets={"SBX_SECRET": secret})
        things: list[object] = [subject, sandbox, sandbox.files, sandbox.policy, sandbox.native]
        if Capability.STREAMING in sandbox.capabilities:
            things.append(sandbox.stream(self.probes.exit(0), env={"SBX_TOKEN": f"{secret}-3"}))
        for thing in things:
            assert secret not in repr(thing), type(thing)
            assert secret not in str(thing), type(thing)

    @clause("secrets.errors")
    async def test_no_error_shows_a_secret(self, make: Maker) -> None:
        """If this fails, a message is made of arguments, and not masked."""
        secret = canary()
        sandbox = await make(secrets={"SBX_SECRET": secret})
        await self.assert_masked(sandbox, secret)

    @clause("secrets.errors")
    async def test_no_status_error_shows_a_secret(self, make: Maker) -> None:
        """If this fails, `raise_for_status()` quotes what a command printed."""
        secret = canary()
        sandbox = await make(secrets={"SBX_SECRET": secret})
        result = await sandbox.run(self.probes.say(b"", secret.encode(), 3))
        assert secret in result.stderr
        with pytest.raises(SandboxError) as caught:
            result.raise_for_status()
        assert secret not in str(caught.value)
        assert secret not in repr(caught.value)

    @clause("secrets.errors")
    async def test_failed_create_shows_no_secret(self, subject: Backend) -> None:
        """If this fails, a refusal quotes the request."""
        secret = canary()
        for wrong in ({"A=B": secret}, {"A": f"{secret}\0"}):
            error = await attempt(subject.create(template=self.template, secrets=wrong))
            assert isinstance(error, SandboxError), repr(error)
            assert secret not in shown(error)

    @clause("secrets.logs")
    async def test_no_log_record_shows_a_secret(
        self, make: Maker, caplog: pytest.LogCaptureFixture
    ) -> None:
        """If this fails, a record is made of arguments, or of the provider's own words."""
        secret = canary()
        with caplog.at_level(logging.DEBUG):
            sandbox = await make(secrets={"SBX_SECRET": secret}, metadata={"note": secret})
            await sandbox.run([*self.probes.say(secret.encode()), secret], env={"SBX_ONE": secret})
            for _, operation in self.failing(sandbox, secret):
                await attempt(operation())
            await sandbox.kill()
        assert [item for item in caplog.records if item.name == "sandboxio"], "nothing was logged"
        for record in caplog.records:
            assert secret not in record.getMessage(), record.name
            assert secret not in repr(vars(record)), record.name

    @clause("secrets.of-a-call")
    async def test_credential_of_a_call_is_masked(self, sandbox: AsyncSandbox) -> None:
        """If this fails, only what `create()` was given is masked."""
        secret = canary()
        error = await attempt(
            sandbox.run(self.probes.exit(0), cwd=f"missing-{secret}", env={"SBX_API_KEY": secret})
        )
        assert isinstance(error, SandboxError), repr(error)
        assert secret not in shown(error)

    @clause("secrets.after-connect")
    async def test_connected_handle_masks_secrets(self, subject: Backend, make: Maker) -> None:
        """If this fails, the secrets are only known to the handle that created the sandbox."""
        secret = canary()
        sandbox = await make(secrets={"SBX_SECRET": secret})
        async with await subject.connect(sandbox.id) as connected:
            assert (await environment(connected, self.probes)).get("SBX_SECRET") == secret
            await self.assert_masked(connected, secret)

    @clause("secrets.provider")
    async def test_provider_shows_no_secret(self, make: Maker, oracle: Oracle) -> None:
        """If this fails, secrets stand in a command line, a label, or the container's settings.

        The guest takes the environment over its own connection, once it runs.
        """
        secret = canary()
        sandbox = await make(secrets={"SBX_SECRET": secret})
        await sandbox.run(self.probes.exit(0), env={"SBX_TOKEN": f"{secret}-2"})
        description = known((await oracle.facts(sandbox.id)).description, "a description")
        assert description
        assert secret not in description

    @needs(Capability.STREAMING)
    @clause("secrets.errors")
    async def test_failed_stream_shows_no_secret(self, make: Maker) -> None:
        """If this fails, a stream is not held to what `run()` is held to."""
        secret = canary()
        sandbox = await make(secrets={"SBX_SECRET": secret})

        async def stream() -> None:
            async with sandbox.stream(self.probes.exit(0), cwd=f"missing-{secret}") as process:
                await process.wait()

        error = await attempt(stream())
        assert isinstance(error, SandboxError), repr(error)
        assert secret not in shown(error)
