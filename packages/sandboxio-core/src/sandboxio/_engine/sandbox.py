"""The public sandbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, cast

from .._observe.record import Record
from ..errors import CapabilityNotSupported, ConfigurationError, ExecutionTimeout
from ..models import (
    PIPE,
    AppliedPolicy,
    Capability,
    ExecResult,
    IsolationTier,
    Stdin,
)
from ..spi import Command, SupportsCode
from .execution import Execution
from .files import EngineFiles
from .live import LiveSandbox
from .output import decode
from .process import EngineProcess
from .validation import (
    check_argv,
    check_code,
    check_data,
    check_env,
    check_path,
    check_text,
    check_timeout,
)

if TYPE_CHECKING:
    from ..routing import RouteDecision

__all__ = ["EngineSandbox"]


class EngineSandbox:
    """A live sandbox; what `create` and `connect` return."""

    def __init__(self, live: LiveSandbox, route: RouteDecision | None = None) -> None:
        self._live = live
        self._route = route
        self._files = EngineFiles(live)

    def __repr__(self) -> str:
        caps = "|".join(flag.name or "" for flag in self.capabilities)
        start = f"<Sandbox {self.backend}:{self.id[:24]} {self.isolation.value} {self._live.state}"
        return f"{start} caps={caps}"[:190] + ">"

    @property
    def id(self) -> str:
        """Unique within the backend."""
        return self._live.driver.id

    @property
    def backend(self) -> str:
        """Name of the backend."""
        return self._live.backend

    @property
    def route(self) -> RouteDecision | None:
        """The decision of the router that created it, or ``None`` if none did."""
        return self._route

    @property
    def capabilities(self) -> Capability:
        """What this sandbox can do."""
        return self._live.driver.capabilities

    @property
    def isolation(self) -> IsolationTier:
        """Tier of this sandbox."""
        return self._live.driver.policy.isolation

    @property
    def policy(self) -> AppliedPolicy:
        """What is in force, as applied and read back."""
        return self._live.driver.policy

    @property
    def files(self) -> EngineFiles:
        """Its files."""
        return self._files

    @property
    def native(self) -> object:
        """The provider's own object, outside the stability promise."""
        return self._live.driver.native

    async def run(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | None = None,
    ) -> ExecResult:
        """Run a command to its end."""
        command = self._command(check_argv(cmd), timeout, env, cwd, stdin)
        async with self._live.operation("exec", argv=command.argv) as record:
            self._live.ensure_running()
            self._live.require(Capability.RUN_COMMAND, "run()")
            return await Execution(self._live, command).collect(record)

    async def run_code(
        self,
        code: str,
        *,
        language: str = "python",
        context_id: str | None = None,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run source text."""
        source = check_code(code)
        check_text(language, "language")
        if context_id is not None:
            check_text(context_id, "context_id")
        command = self._command(("python3", "-"), timeout, env, None, None)
        async with self._live.operation("run_code", code=code) as record:
            self._live.ensure_running()
            self._live.require(Capability.RUN_CODE, "run_code()")
            if context_id is not None:
                self._live.require(Capability.STATEFUL_CODE, "run_code(context_id=...)")
            if Capability.STATEFUL_CODE in self.capabilities:
                record.bytes_in = len(source)
                return await self._interpret(code, language, context_id, command, record)
            if language != "python":
                raise CapabilityNotSupported(
                    f"The {self.backend!r} backend runs code in Python only.",
                    capability=Capability.RUN_CODE,
                    hint="Run another language's interpreter with run([...], stdin=code).",
                )
            # As stdin, the source is neither cut by the length of a command line nor shown by `ps`.
            one_shot = Command(
                argv=command.argv,
                env=command.env,
                cwd=None,
                stdin=source or b"\n",
                keep_stdin_open=False,
                timeout=command.timeout,
                call="run_code",
            )
            return await Execution(self._live, one_shot).collect(record)
        raise AssertionError("unreachable")

    async def _interpret(
        self,
        code: str,
        language: str,
        context_id: str | None,
        command: Command,
        record: Record,
    ) -> ExecResult:
        interpreter = cast(SupportsCode, self._live.driver)
        with self._live.clock.move_on_after(command.timeout) as scope:
            async with self._live.call("run_code()"):
                done = await interpreter.run_code(
                    code,
                    language=language,
                    context_id=context_id,
                    env=command.env,
                    timeout=command.timeout,
                )
            record.bytes_out = len(done.stdout) + len(done.stderr)
            record.has_ended(done.exit_code)
            return ExecResult(
                done.exit_code,
                decode(done.stdout),
                decode(done.stderr),
                results=done.results,
                meter=record.meter,
            )
        assert scope.cancelled_caught
        raise ExecutionTimeout(f"The code ran longer than {command.timeout:g} s and was stopped.")

    def stream(
        self,
        cmd: str | Sequence[str],
        *,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | str | Stdin | None = None,
    ) -> EngineProcess:
        """Prepare a command whose output is handed out while it runs."""
        self._live.ensure_running()
        self._live.require(Capability.STREAMING, "stream()")
        argv = check_argv(cmd)
        interactive = Capability.STDIN in self.capabilities
        if stdin is PIPE:
            self._live.require(Capability.STDIN, "stdin=PIPE")
            command = self._command(argv, timeout, env, cwd, None, keep_open=True, call="stream")
        elif isinstance(stdin, Stdin):
            raise ConfigurationError(f"stdin cannot be {stdin}.")
        else:
            keep_open = stdin is None and interactive
            command = self._command(
                argv, timeout, env, cwd, stdin, keep_open=keep_open, call="stream"
            )
        lazy_eof = command.keep_stdin_open and stdin is None
        return EngineProcess(Execution(self._live, command), lazy_eof=lazy_eof)

    def _command(
        self,
        argv: tuple[str, ...],
        timeout: float | None,
        env: Mapping[str, str] | None,
        cwd: str | None,
        stdin: bytes | str | None,
        *,
        keep_open: bool = False,
        call: Literal["run", "stream"] = "run",
    ) -> Command:
        if stdin is not None:
            self._live.require(Capability.STDIN, "stdin=")
        added = check_env(env)
        self._live.redactor.learn(added)
        return Command(
            argv=argv,
            env={**self._live.env, **added},
            cwd=None if cwd is None else check_path(cwd, "cwd"),
            stdin=b"" if stdin is None else check_data(stdin, "stdin"),
            keep_stdin_open=keep_open,
            timeout=self._live.inherited_timeout if timeout is None else check_timeout(timeout),
            call=call,
        )

    async def kill(self) -> None:
        """End the sandbox."""
        await self._live.end()

    async def __aenter__(self) -> EngineSandbox:
        self._live.ensure_running()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._live.leave(failing=exc is not None)
