"""Backends that break what the life of a sandbox, its files and its records are promised."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, ClassVar

import anyio
from anyio.lowlevel import checkpoint
from wrapping import Passing, PassingBackend, PassingFiles, PassingSandbox

from sandboxio.errors import (
    ConnectError,
    CreateTimeout,
    FileSystemError,
    PathNotFound,
    SandboxError,
    SandboxGone,
)
from sandboxio.models import ExecResult

GROWS_BOUND = 10.0
"""Seconds for a file that is written to every few milliseconds to be longer than it was."""

# ----- create, context, kill


class CreateCancelledLeaks(PassingBackend):
    """Shields the whole create, and forgets what it made when it finds itself cancelled."""

    async def create(self, **options: Any) -> Any:
        made: list[Any] = []
        with anyio.CancelScope(shield=True):
            made.append(await super().create(**options))
        await checkpoint()
        return made[0]


class CreateTimeoutIsABuiltin(PassingBackend):
    async def create(self, **options: Any) -> Any:
        try:
            return await super().create(**options)
        except CreateTimeout as error:
            raise TimeoutError("creating took too long") from error


class CancelledBlockLeaks(PassingSandbox):
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, anyio.get_cancelled_exc_class()):
            return
        await super().__aexit__(kind, error, trace)


class KillNotIdempotent(PassingSandbox):
    def __init__(self, inner: Any, options: Any) -> None:
        super().__init__(inner, options)
        self.killed = False

    async def kill(self) -> None:
        if self.killed:
            raise SandboxGone("The sandbox was killed already.")
        await self.inner.kill()
        self.killed = True


class KillSetsAFlag(PassingSandbox):
    """Marks the handle as dead, and leaves the sandbox running."""

    def __init__(self, inner: Any, options: Any) -> None:
        super().__init__(inner, options)
        self.killed = False

    async def kill(self) -> None:
        self.killed = True

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.killed = True

    def __getattribute__(self, name: str) -> Any:
        if name in ("run", "run_code", "stream", "files") and self.killed:
            raise SandboxGone("The sandbox was killed.")
        return super().__getattribute__(name)


class NoLifetime(PassingBackend):
    """Promises a lifetime in its policy, and gives the provider none."""

    async def create(self, *, timeout: Any = 300, **options: Any) -> Any:
        short = isinstance(timeout, float) and 0.1 < timeout < 20
        return await super().create(timeout=3600 if short else timeout, **options)


# ----- connect, managed


class ConnectCreates(PassingBackend):
    async def connect(self, sandbox_id: str) -> Any:
        try:
            return await super().connect(sandbox_id)
        except ConnectError:
            return await super().create()


class LeavingAConnectedOneKills(PassingBackend):
    async def connect(self, sandbox_id: str) -> Any:
        return KillsOnLeaving(await self.inner.connect(sandbox_id), {})


class KillsOnLeaving(PassingSandbox):
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self.inner.kill()


class LabelsDropped(PassingBackend):
    async def create(self, **options: Any) -> Any:
        return await super().create(**{**options, "metadata": None})


class LabelFilterIgnored(PassingBackend):
    async def list_managed(self, *, labels: Any = None) -> Any:
        return await self.inner.list_managed()


class KillManagedAlwaysTrue(PassingBackend):
    async def kill_managed(self, sandbox_id: str) -> bool:
        await self.inner.kill_managed(sandbox_id)
        return True


# ----- errors


class CauseLost(PassingBackend):
    async def create(self, **options: Any) -> Any:
        try:
            return await super().create(**options)
        except SandboxError as error:
            error.__cause__ = None
            raise


class RawErrorEscapes(PassingBackend):
    async def create(self, **options: Any) -> Any:
        try:
            return await super().create(**options)
        except SandboxError as error:
            if error.__cause__ is not None:
                raise error.__cause__ from None
            raise


# ----- files


class RelativeElsewhere(PassingFiles):
    """Starts relative paths at another directory than commands."""

    async def read(self, path: str) -> bytes:
        plain = isinstance(path, str) and path.endswith("/theirs") and not path.startswith("/")
        return await self.inner.read(f"/tmp/{path}" if plain else path)


class RelativePathsDiffer(PassingSandbox):
    files_type = RelativeElsewhere


class MissingIsEmpty(PassingFiles):
    async def read(self, path: str) -> bytes:
        try:
            return await self.inner.read(path)
        except PathNotFound:
            return b""


class MissingFileIsEmpty(PassingSandbox):
    files_type = MissingIsEmpty


class CutsWrites(PassingFiles):
    async def write(self, path: str, data: Any) -> None:
        short = data[:5000] if isinstance(data, bytes | str) else data
        await self.inner.write(path, short)


class WritesCut(PassingSandbox):
    files_type = CutsWrites


class ResetsMode(PassingFiles):
    async def write(self, path: str, data: Any) -> None:
        await self.inner.write(path, data)
        await self.sandbox.inner.run(["chmod", "644", path])


class OverwritingResetsMode(PassingSandbox):
    files_type = ResetsMode


class FirstPage(PassingFiles):
    async def ls(self, path: str = ".") -> Any:
        return (await self.inner.ls(path))[:500]


class ListsOnePage(PassingSandbox):
    files_type = FirstPage


class FollowsLinks(PassingFiles):
    async def upload(self, local: Any, remote: str) -> None:
        real = os.path.realpath(local) if local else local  # noqa: ASYNC240 - that is the fault
        await self.inner.upload(real, remote)


class HostLinksFollowed(PassingSandbox):
    files_type = FollowsLinks


class InPlace(PassingFiles):
    """Empties a file before it writes to it."""

    async def write(self, path: str, data: Any) -> None:
        if isinstance(data, bytes) and len(data) > 1 << 20:
            await self.inner.write(path, b"")
        await self.inner.write(path, data)


class WritesInPlace(PassingSandbox):
    files_type = InPlace


class HostFiles(PassingFiles):
    """Takes a path that is not there for one of the host."""

    async def read(self, path: str) -> bytes:
        try:
            return await self.inner.read(path)
        except PathNotFound:
            mine = anyio.Path(path)
            if await mine.is_file():
                return await mine.read_bytes()
            raise


class HostFilesRead(PassingSandbox):
    files_type = HostFiles


class BesideTheMounts(PassingFiles):
    """Writes what lies below a mount to where no command sees it."""

    async def write(self, path: str, data: Any) -> None:
        if isinstance(path, str) and path.startswith("/tmp/"):
            return
        await self.inner.write(path, data)


class WrittenBesideTheMounts(PassingSandbox):
    files_type = BesideTheMounts


class WaitsForAWriter(PassingFiles):
    async def read(self, path: str) -> bytes:
        try:
            return await self.inner.read(path)
        except FileSystemError:
            if path.endswith("/pipe"):
                await anyio.sleep_forever()
            raise


class PipesWaitedFor(PassingSandbox):
    files_type = WaitsForAWriter


class SizeFirst(PassingFiles):
    """Fails when a file is longer than it was said to be: read so slowly that one that grows is."""

    async def read(self, path: str) -> bytes:
        data = await self.inner.read(path)
        if not path.endswith("/growing"):
            return data
        with anyio.move_on_after(GROWS_BOUND):
            while len(data) == len(await self.inner.read(path)):
                await checkpoint()
            raise FileSystemError(f"{path!r} changed while it was read.")
        return data


class GrowingFileFails(PassingSandbox):
    files_type = SizeFirst


class MakesWritable(PassingFiles):
    async def write(self, path: str, data: Any) -> None:
        if isinstance(path, str) and path.startswith("nook"):
            await self.sandbox.inner.run(["chmod", "u+w", path])
        await self.inner.write(path, data)


class ReadOnlyMadeWritable(PassingSandbox):
    files_type = MakesWritable


# ----- secrets and records


class SecretInTheRepr(PassingSandbox):
    def __repr__(self) -> str:
        return f"<Sandbox {self.inner.id} secrets={self.options.get('secrets')}>"


class MaskedInPieces(PassingSandbox):
    """Masks a message in pieces of eight characters, so that what lies across them is shown."""

    async def run(self, cmd: Any, **options: Any) -> ExecResult:
        try:
            return await super().run(cmd, **options)
        except SandboxError as error:
            for secret in (self.options.get("secrets") or {}).values():
                whole = error.message.replace("***", secret)
                pieces = [whole[at : at + 8] for at in range(0, len(whole), 8)]
                error.message = "".join(piece.replace(secret, "***") for piece in pieces)
                error.args = (error.message,)
            raise


class ChangingSink(Passing):
    """Changes, or drops, what comes to a sink."""

    def changed(self, event: Any) -> Any:
        raise NotImplementedError

    async def emit(self, event: Any) -> None:
        changed = self.changed(event)
        if changed is not None:
            await self.inner.emit(changed)


class TellsItsSink(PassingBackend):
    """Tells the broken sink what it has to leave unmasked."""

    async def create(self, **options: Any) -> Any:
        PathsUnmasked.secrets += (options.get("secrets") or {}).values()
        return await super().create(**options)


class PathsUnmasked(ChangingSink):
    secrets: ClassVar[list[str]] = []

    def changed(self, event: Any) -> Any:
        if not self.secrets or event.path is None:
            return event
        return replace(event, path=event.path.replace("***", self.secrets[-1]))


class MakingDirectoriesUnrecorded(ChangingSink):
    def changed(self, event: Any) -> Any:
        return None if event.event == "file_mkdir" else event


class OnlyCommandsRecorded(ChangingSink):
    def changed(self, event: Any) -> Any:
        return event if event.event == "exec" else None


class FailuresUnrecorded(ChangingSink):
    def changed(self, event: Any) -> Any:
        return event if event.outcome == "ok" else None


class OutputUncounted(ChangingSink):
    def changed(self, event: Any) -> Any:
        return replace(event, bytes_out=0) if event.event == "stream" else event


class AbandonedUnrecorded(ChangingSink):
    def changed(self, event: Any) -> Any:
        return None if event.outcome == "abandoned" else event


class NeverDenied(ChangingSink):
    def changed(self, event: Any) -> Any:
        return replace(event, network_denials=0)


class EnvironmentMaskedEverywhere(ChangingSink):
    """Masks every value of the environment, however short."""

    def changed(self, event: Any) -> Any:
        if event.argv is None:
            return event
        return replace(event, argv=tuple(word.replace("in", "***") for word in event.argv))
