"""A fake sandbox as the engine drives it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from anyio.lowlevel import checkpoint

from sandboxio.errors import (
    CapabilityNotSupported,
    DiskFull,
    OutOfMemory,
    ProcessLimitExceeded,
)
from sandboxio.models import (
    AppliedCap,
    AppliedPolicy,
    Capability,
    ExecResult,
    Resources,
    RichOutput,
)
from sandboxio.spi import (
    CodeResult,
    Command,
    ExitCause,
    ProvisionRequest,
)

from .calls import Call
from .clock import LIFETIME, Timer
from .command import FakeProcess
from .filing import MachineFiles
from .handles import HostInput, HostOutput
from .machine import WORKDIR, Machine
from .nodes import fail
from .process import Proc, Program, Steps
from .scripts import Script, acted, check_result
from .world import World

__all__ = ["DEFAULTS", "FakeSandbox"]

DEFAULTS = Resources(cpu=1.0, memory_mb=512, disk_mb=256, processes=128)
"""Caps of a fake sandbox when the caller names none."""


class FakeSandbox(MachineFiles):
    """A `SandboxDriver`, and what ``sandbox.native`` of a fake is."""

    def __init__(self, world: World, request: ProvisionRequest) -> None:
        caps = request.resources
        machine = Machine(
            world.clock,
            world.internet,
            request.network,
            memory_mb=caps.memory_mb or DEFAULTS.memory_mb or 0,
            disk_mb=caps.disk_mb or DEFAULTS.disk_mb or 0,
            processes=caps.processes or DEFAULTS.processes or 0,
        )
        super().__init__(world, f"fake-{next(world.ids):04}", request.network, machine)
        self._request = request
        self._processes: list[FakeProcess] = []
        self._contexts: dict[str, dict[str, Any]] = {}
        self._ends_at = float("inf")
        self._lifetime: Timer | None = None
        self.created_at: datetime = world.clock.date()

    def __repr__(self) -> str:
        return f"<FakeSandbox {self.id} {self.gone or 'running'}>"

    # --- its life

    def usable(self) -> None:
        """It is ready: its lifetime begins."""
        self._ends_at = self._clock.current_time() + self._request.timeout
        self._lifetime = self._clock.at(
            self._ends_at, lambda: self.end("its lifetime is over"), order=LIFETIME
        )

    def end(self, why: str) -> None:
        """End it, and all that runs in it."""
        with self._clock.lock:
            if self.gone is not None:
                return
            self.gone = why
            for process in self._processes:
                process.lose()
            self.machine.stop()
            if self._lifetime is not None:
                self._lifetime.cancel()
            self._world.sandboxes.pop(self.id, None)
            self._clock.changed()

    @property
    def name(self) -> str:
        """The name that it was given before it existed."""
        return self._request.name

    @property
    def labels(self) -> dict[str, str]:
        """The caller's metadata."""
        return dict(self._request.metadata)

    @property
    def native(self) -> FakeSandbox:
        """Itself."""
        return self

    @property
    def capabilities(self) -> Capability:
        """What the fake declares."""
        return self._world.capabilities

    @property
    def workdir(self) -> str:
        """Where relative paths start."""
        return WORKDIR

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values that it was created with."""
        names = self._request.secret_names
        return tuple(value for name, value in self._request.env.items() if name in names)

    @property
    def remaining(self) -> float:
        """Seconds of lifetime left."""
        return max(0.0, self._ends_at - self._clock.current_time())

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force; the fake keeps its caps itself."""
        how = "the fake itself" if self._world.resource_caps else "the template of the fake"

        def cap(name: str) -> AppliedCap:
            value: float | None = getattr(self._request.resources, name)
            return AppliedCap(value or getattr(DEFAULTS, name), how, verified=True)

        return AppliedPolicy(
            isolation=self._world.isolation,
            network=self._request.network,
            network_mechanism="the fake itself, which has no network",
            network_verified=True,
            lifetime_s=self._request.timeout,
            cpu=cap("cpu"),
            memory_mb=cap("memory_mb"),
            disk_mb=cap("disk_mb"),
            processes=cap("processes"),
            notes=("The fake isolates nothing, because it runs nothing.",),
        )

    @property
    def network_denials(self) -> int:
        """How often code of it tried to reach what its policy denies."""
        return self.machine.denials

    async def alive(self) -> bool:
        """Say whether it still exists."""
        self._world.faults.check_provider()
        return self.gone is None

    async def terminate(self) -> None:
        """End it."""
        with self._clock.call():
            await checkpoint()
            faults = self._world.faults
            self._note(Call(op="kill", at=self._now(), sandbox_id=self.id))
            if faults.kill_hangs:
                await self._clock.wait_until(lambda: self.gone is not None)
            if faults.kill_fails is not None and self.gone is None:
                raise faults.kill_fails
            faults.check_provider()
            self.end("it was killed")

    async def detach(self) -> None:
        """Nothing is held for it."""

    # --- commands

    async def start(self, command: Command) -> FakeProcess:
        """Start a command."""
        with self._clock.call():
            await checkpoint()
            with self._clock.lock:
                self._check()
                call = self._called(command)
                self._world.faults.check_start(next(self._world.started))
                cwd = self._directory(command.cwd)
                script = self._world.scripts.find(call)
                program, _ = self._program(script, call, lambda proc: proc.exec(command.argv))
                return self._start(program, call, cwd, command.keep_stdin_open)

    def _called(self, command: Command) -> Call:
        is_code = command.call == "run_code"
        call = Call(
            op=command.call,
            at=self._now(),
            sandbox_id=self.id,
            argv=command.argv,
            code=command.stdin.decode("utf-8", "replace") if is_code else None,
            language="python" if is_code else None,
            env={**self._request.env, **command.env},
            cwd=command.cwd,
            stdin=command.stdin,
            timeout=command.timeout,
            network=self._request.network,
        )
        self._note(call)
        return call

    def _program(
        self, script: Script | None, call: Call, otherwise: Program
    ) -> tuple[Program, ExecResult | None]:
        """Return what is to run, and what was scripted for it."""
        faults = self._world.faults
        if faults.out_of_memory:
            return _starved, None
        if faults.disk_full:
            return _without_room, None
        if faults.output_flood:
            return _flooding, None
        if script is None:
            return otherwise, None
        if script.raises is not None:
            raise script.raises
        result = script.returns(call) if callable(script.returns) else script.returns
        if result is not None:
            rich = Capability.STATEFUL_CODE in self.capabilities and call.op == "run_code"
            check_result(result, f"on_{call.op}()", rich=rich)
        return acted(script, result), result

    def _start(self, program: Program, call: Call, cwd: str, keep_open: bool) -> FakeProcess:
        stdin, output = HostInput(call.stdin, open_=keep_open), HostOutput()
        argv = call.argv or ("python3",)
        try:
            proc = self.machine.start(
                program, argv=argv, env=call.env, cwd=cwd, stdin=stdin, output=output
            )
        except OSError:
            raise ProcessLimitExceeded(
                "The sandbox may not start another process.", limit="processes"
            ) from None
        timeout = call.timeout or 0.0
        process = FakeProcess(self._clock, self.machine, proc, stdin, output, timeout)
        self._processes = [known for known in self._processes if not known.ended]
        self._processes.append(process)
        return process

    def _directory(self, path: str | None) -> str:
        with self._files(path or "."):
            if path is None:
                return WORKDIR
            self.machine.tree.directory(path, WORKDIR)
            return self.machine.tree.real_path(path, WORKDIR)

    async def run_code(
        self,
        code: str,
        *,
        language: str,
        context_id: str | None,
        env: Mapping[str, str],
        timeout: float,
    ) -> CodeResult:
        """Run code in a context that keeps its variables."""
        with self._clock.call():
            await checkpoint()
            with self._clock.lock:
                self._check()
                call = Call(
                    op="run_code",
                    at=self._now(),
                    sandbox_id=self.id,
                    code=code,
                    language=language,
                    context_id=context_id,
                    env={**self._request.env, **env},
                    timeout=timeout,
                    network=self._request.network,
                )
                self._note(call)
                self._world.faults.check_start(next(self._world.started))
                script = self._world.scripts.find(call)
                if script is None and language != "python":
                    raise CapabilityNotSupported(
                        f"The fake knows Python only, not {language!r}.",
                        capability=Capability.RUN_CODE,
                        hint="Say what the code does: fake.on_run_code(match=..., returns=...).",
                    )
                names = {} if context_id is None else self._contexts.setdefault(context_id, {})
                shown: list[str] = []
                model = self.machine.code(code, names, shown)
                program, result = self._program(script, call, model)
                process = self._start(program, call, WORKDIR, keep_open=False)
        try:
            out = {"stdout": bytearray(), "stderr": bytearray()}
            while (chunk := await process.receive()) is not None:
                out[chunk.stream] += chunk.data
            ended = await process.wait()
        except BaseException:
            await process.kill()
            raise
        self._raise_for(ended.cause)
        stdout, stderr = bytes(out["stdout"]), bytes(out["stderr"])
        results = () if result is None or result.results is None else result.results
        results += tuple(RichOutput("text/plain", text) for text in shown)
        return CodeResult(ended.exit_code, stdout, stderr, results)

    def _raise_for(self, cause: ExitCause) -> None:
        caps = self._request.resources
        if cause is ExitCause.OUT_OF_MEMORY:
            raise OutOfMemory(
                "The code used up the memory.", limit="memory_mb", value=caps.memory_mb
            )
        if cause is ExitCause.PROCESS_LIMIT:
            raise ProcessLimitExceeded(
                "The code was refused a process.", limit="processes", value=caps.processes
            )
        if cause is ExitCause.DISK_FULL:
            raise DiskFull("The code left the disk full.", limit="disk_mb", value=caps.disk_mb)


def _starved(proc: Proc) -> Steps:
    yield from proc.tick()
    proc.use_memory(proc.kernel.memory + 1)
    raise fail(12)


def _without_room(proc: Proc) -> Steps:
    proc.family.disk_full = True
    return (yield from proc.complain("write error: No space left on device"))


def _flooding(proc: Proc) -> Steps:
    while True:
        yield from proc.write(1, b"flood\n" * 10000)
