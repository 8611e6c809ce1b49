"""Backends that break what commands are promised."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import replace
from typing import Any

import anyio
from wrapping import Command, Env, PassingBackend, PassingProcess, PassingSandbox

from sandboxio.errors import (
    CapabilityNotSupported,
    ExecutionTimeout,
    ProviderError,
    SandboxError,
)
from sandboxio.models import Capability, ExecResult


class ChangedResult(PassingSandbox):
    """Changes what `run()` returns."""

    def changed(self, result: ExecResult) -> ExecResult:
        raise NotImplementedError

    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        return self.changed(await super().run(cmd, **options))


class ExitCodesOfSevenBits(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        return replace(result, exit_code=result.exit_code & 0x7F)


class StderrMerged(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        return replace(result, stdout=result.stdout + result.stderr, stderr="")


class LastLineLost(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        whole, newline, _ = result.stdout.rpartition("\n")
        return replace(result, stdout=whole + newline) if newline else result


class NothingIsNone(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        nothing: Any = None
        return result if result.stdout or result.stderr else replace(result, stdout=nothing)


class OutputCutAt64KiB(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        return replace(result, stdout=result.stdout[:65536], stderr=result.stderr[:65536])


class UndecodableRaises(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        if "\\x" in result.stdout + result.stderr:
            raise ProviderError("'utf-8' codec can't decode byte 0xff in position 0")
        return result


class NotFoundIs126(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        return replace(result, exit_code=126) if result.exit_code == 127 else result


class ListsThroughAShell(PassingSandbox):
    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        simple = isinstance(cmd, list) and cmd[:1] == ["printf"]
        return await super().run(" ".join(cmd) if simple else cmd, **options)


class StringsWithoutAShell(PassingSandbox):
    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        plain = isinstance(cmd, str) and "$(" in cmd
        return await super().run(shlex.split(str(cmd)) if plain else cmd, **options)


class OddStdinRefused(PassingSandbox):
    """Declares stdin, and refuses it."""

    async def run(
        self, cmd: Command, *, stdin: bytes | str | None = None, **options: Any
    ) -> ExecResult:
        if stdin is not None:
            raise CapabilityNotSupported("no stdin", capability=Capability.STDIN)
        return await super().run(cmd, **options)


class CallEnvDropped(PassingSandbox):
    async def run(self, cmd: Command, *, env: Env = None, **options: Any) -> ExecResult:
        return await super().run(cmd, **options)


class CallEnvKept(PassingSandbox):
    """Keeps the environment of a call for all later ones."""

    def __init__(self, inner: Any, options: Any) -> None:
        super().__init__(inner, options)
        self.kept: dict[str, str] = {}

    async def run(self, cmd: Command, *, env: Env = None, **options: Any) -> ExecResult:
        if not isinstance(env, dict):
            return await super().run(cmd, env=self.kept if env is None else env, **options)
        result = await super().run(cmd, env={**self.kept, **env}, **options)
        self.kept.update(env)
        return result


class CwdDropped(PassingSandbox):
    async def run(self, cmd: Command, *, cwd: str | None = None, **options: Any) -> ExecResult:
        return await super().run(cmd, **options)


class EnvOfCreateDropped(PassingBackend):
    async def create(self, **options: Any) -> Any:
        return await super().create(**{**options, "env": None})


class SecretsDropped(PassingBackend):
    async def create(self, **options: Any) -> Any:
        return await super().create(**{**options, "secrets": None})


# ----- deadlines


class TimeoutIgnored(PassingSandbox):
    async def run(
        self, cmd: Command, *, timeout: float | None = None, **options: Any
    ) -> ExecResult:
        short = isinstance(timeout, float) and 0 < timeout < 1
        timeout = None if short else timeout
        return await super().run(cmd, timeout=timeout, **options)


class TimeoutForgetsOutput(PassingSandbox):
    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        try:
            return await super().run(cmd, **options)
        except ExecutionTimeout as error:
            error.stdout = error.stderr = ""
            raise


class TimeoutNotConfirmed(PassingSandbox):
    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        try:
            return await super().run(cmd, **options)
        except ExecutionTimeout as error:
            error.kill_confirmed = False
            raise


class TimeoutKillsAll(PassingSandbox):
    """Kills the sibling of a command that timed out as well."""

    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        try:
            return await super().run(cmd, **options)
        except ExecutionTimeout:
            await self.inner.run("kill -9 -1")
            raise


class ExitCode137IsATimeout(ChangedResult):
    def changed(self, result: ExecResult) -> ExecResult:
        if result.exit_code == 137:
            raise ExecutionTimeout("The command was killed, so it must have timed out.")
        return result


class TimeoutKillsTheGroupOnly(PassingSandbox):
    """Signals the process group, and takes the end of the command for the end of its tree."""

    async def run(
        self, cmd: Command, *, timeout: float | None = None, **options: Any
    ) -> ExecResult:
        if not isinstance(timeout, float) or not 0 < timeout < 10:
            return await super().run(cmd, timeout=timeout, **options)
        out = {"stdout": b"", "stderr": b""}
        async with self.inner.stream(cmd, **options) as process:
            with anyio.move_on_after(timeout):
                async for chunk in process:
                    out[chunk.stream] += chunk.data
                result = await process.wait()
                text = {name: data.decode() for name, data in out.items()}
                return replace(result, **text, streamed=False)
            await process.signal(9)
            await process.wait()
        text = {name: data.decode() for name, data in out.items()}
        raise ExecutionTimeout("Too long.", stdout=text["stdout"], stderr=text["stderr"])


# ----- cancellation


class CancelledRunIsForgotten(PassingSandbox):
    """Never leaves the stream that it runs a command with, when it is cancelled."""

    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        beats = isinstance(cmd, list) and any("echo >>" in str(word) for word in cmd)
        if not beats:
            return await super().run(cmd, **options)
        out = {"stdout": b"", "stderr": b""}
        process = self.inner.stream(cmd, **options)
        await process.__aenter__()
        try:
            async for chunk in process:
                out[chunk.stream] += chunk.data
            result = await process.wait()
        except SandboxError as error:
            await process.__aexit__(None, None, None)
            if isinstance(error, ExecutionTimeout):
                error.stdout, error.stderr = out["stdout"].decode(), out["stderr"].decode()
            raise
        await process.__aexit__(None, None, None)
        text = {name: data.decode("utf-8", "backslashreplace") for name, data in out.items()}
        return replace(result, **text, streamed=False)


class CancellationBecomesAnError(PassingSandbox):
    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        try:
            return await super().run(cmd, **options)
        except anyio.get_cancelled_exc_class() as error:
            raise ProviderError("The operation was cancelled.") from error


# ----- streams


class EarlyBreakForgotten(PassingProcess):
    """Leaves a command alone whose block is left without an error before it has ended."""

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None and self.inner.returncode is None:
            return
        await super().__aexit__(kind, error, trace)


class EarlyBreakLeaks(PassingSandbox):
    process_type = EarlyBreakForgotten


class SecondWaitFails(PassingProcess):
    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.waited = False

    async def wait(self) -> ExecResult:
        if self.waited:
            raise ProviderError("The exit status was taken already.")
        self.waited = True
        return await self.inner.wait()


class WaitNotIdempotent(PassingSandbox):
    process_type = SecondWaitFails


class ResultNotStreamed(PassingProcess):
    async def wait(self) -> ExecResult:
        return replace(await self.inner.wait(), streamed=False)


class WaitDoesNotSayStreamed(PassingSandbox):
    process_type = ResultNotStreamed


class Readahead(PassingProcess):
    """Holds all output in memory before it hands any of it out."""

    async def __aenter__(self) -> Any:
        await super().__aenter__()
        self.chunks: list[Any] = []
        self.error: SandboxError | None = None
        self.task = asyncio.create_task(self.read())
        return self

    async def read(self) -> None:
        try:
            async for chunk in self.inner:
                self.chunks.append(chunk)
        except SandboxError as error:
            self.error = error

    async def __anext__(self) -> Any:
        while not self.chunks and not self.task.done():
            await asyncio.wait([self.task], timeout=0.002)
        if self.chunks:
            return self.chunks.pop(0)
        if self.error is not None:
            raise self.error
        raise StopAsyncIteration

    async def wait(self) -> ExecResult:
        await asyncio.wait([self.task])
        self.chunks.clear()
        if self.error is not None:
            raise self.error
        return await self.inner.wait()

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([self.task])
        await super().__aexit__(kind, error, trace)


class NoBackPressure(PassingSandbox):
    process_type = Readahead


class StreamEnvDropped(PassingSandbox):
    def stream(self, cmd: Command, *, env: Env = None, **options: Any) -> PassingProcess:
        return super().stream(cmd, **options)


# ----- code, and what calls leave


class RichResultsDropped(PassingSandbox):
    async def run_code(self, code: str, **options: Any) -> ExecResult:
        return replace(await self.inner.run_code(code, **options), results=())


class DescriptorForEachCommand(PassingSandbox):
    """Opens something for every command, and forgets it."""

    async def run(self, cmd: Command, **options: Any) -> ExecResult:
        os.open(os.devnull, os.O_RDONLY)
        return await super().run(cmd, **options)
