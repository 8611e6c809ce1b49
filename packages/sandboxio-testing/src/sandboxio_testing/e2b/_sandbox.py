"""One served sandbox: a local one, the programs in it, and what E2B knows about it."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from sandboxio import AsyncSandbox

from ._program import Ended, Inside, Message, Program

__all__ = ["ENVD_VERSION", "Running", "ServedProcess", "ServedSandbox", "new_id"]

ENVD_VERSION = "0.6.13"

RETENTION = 30.0
"""Seconds for which the exit of a process is told to whoever connects late."""

HIGH_WATER = 64
"""Events that wait for a subscriber before the process behind them is held up."""

LOW_WATER = 16
"""Events that still wait when it goes on."""


def new_id() -> str:
    """Return an id of the form that the service uses."""
    alphabet = string.ascii_lowercase + string.digits
    return "i" + "".join(secrets.choice(alphabet) for _ in range(20))


class ServedProcess:
    """A process, and those who listen to it."""

    def __init__(self, config: Message) -> None:
        self.config = config
        self.pid = 0
        self.end: Message | None = None
        self.held = False
        self._subscribers: list[asyncio.Queue[Message]] = []

    @contextmanager
    def subscribed(self) -> Generator[asyncio.Queue[Message], None, None]:
        """Receive events from now on; what came before is lost, as it is at the service."""
        queue: asyncio.Queue[Message] = asyncio.Queue()
        self._subscribers.append(queue)
        if self.end is not None:
            queue.put_nowait({"end": self.end})
        try:
            yield queue
        finally:
            self._subscribers.remove(queue)

    def tell(self, event: Message) -> None:
        """Hand an event to all who listen."""
        for queue in self._subscribers:
            queue.put_nowait(event)

    @property
    def waiting(self) -> int:
        """How many events wait for the slowest subscriber."""
        return max((queue.qsize() for queue in self._subscribers), default=0)


@dataclass
class ServedSandbox:
    """What the control plane knows, and the way to what runs."""

    id: str
    template: str
    metadata: dict[str, str]
    envs: dict[str, str]
    network: Message | None
    internet: bool
    started: datetime
    ends: datetime
    token: str = field(default_factory=lambda: "tok-" + secrets.token_hex(16))
    local: AsyncSandbox | None = None
    running: Running | None = None

    def detail(self) -> Message:
        """Return it as the API lists it."""
        detail: Message = {
            "templateID": self.template,
            "alias": self.template,
            "sandboxID": self.id,
            "clientID": "6532622b",
            "startedAt": stamp(self.started),
            "endAt": stamp(self.ends),
            "cpuCount": 1,
            "memoryMB": 512,
            "diskSizeMB": 384,
            "state": "running",
            "envdVersion": ENVD_VERSION,
            "metadata": self.metadata,
        }
        return detail

    def full_detail(self) -> Message:
        """Return it as the API describes one."""
        detail = self.detail() | {
            "envdAccessToken": self.token,
            "domain": None,
            "allowInternetAccess": self.internet,
            "lifecycle": {"onTimeout": "kill", "autoResume": False},
        }
        if self.network is not None:
            detail["network"] = self.network
        return detail

    def created(self) -> Message:
        """Return what create and connect answer."""
        return {
            "templateID": self.template,
            "alias": self.template,
            "sandboxID": self.id,
            "clientID": "6532622b",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.token,
            "trafficAccessToken": None,
            "domain": None,
        }

    @property
    def expired(self) -> bool:
        """Whether its lifetime is over."""
        return datetime.now(UTC) >= self.ends


def stamp(moment: datetime) -> str:
    """Return a time as the API writes it."""
    return moment.isoformat().replace("+00:00", "Z")


def in_seconds(seconds: float) -> datetime:
    """Return the time that many seconds from now."""
    return datetime.now(UTC) + timedelta(seconds=seconds)


class Running:
    """The programs of a sandbox while it runs."""

    def __init__(self, local: AsyncSandbox, inside: Inside, lifetime: float) -> None:
        self._local = local
        self._inside = inside
        self._lifetime = lifetime
        self.processes: dict[int, ServedProcess] = {}
        self._unclaimed: dict[int, list[Message]] = {}
        self._interpreter: asyncio.Task[Program] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.gone = asyncio.Event()

    async def start(self) -> None:
        """Start what stands in for envd."""
        self.envd = await Program.start(
            self._local, "envd", self._inside, self._lifetime, self._on_event, packages=False
        )

    async def interpreter(self) -> Program:
        """Return what stands in for the code interpreter, started when it is first needed."""
        if self._interpreter is None:
            self._interpreter = asyncio.create_task(
                Program.start(
                    self._local,
                    "interpreter",
                    self._inside,
                    self._lifetime,
                    lambda _: None,
                    packages=True,
                )
            )
        return await asyncio.shield(self._interpreter)

    def _on_event(self, message: Message) -> None:
        if "ended" in message:
            self.gone.set()
            for process in self.processes.values():
                process.tell({"gone": True})
            return
        pid = message.pop("pid")
        known = self.processes.get(pid)
        if known is None:
            # It was faster than the answer that tells its pid.
            self._unclaimed.setdefault(pid, []).append(message)
            return
        self._deliver(known, message)

    def _deliver(self, process: ServedProcess, message: Message) -> None:
        if "end" in message:
            process.end = message["end"]
            asyncio.get_running_loop().call_later(RETENTION, self._drop, process)
        process.tell(message)
        if process.waiting > HIGH_WATER and not process.held:
            process.held = True
            self._later("hold", {"pid": process.pid, "pause": True})

    def _drop(self, process: ServedProcess) -> None:
        if self.processes.get(process.pid) is process:
            del self.processes[process.pid]

    def _later(self, op: str, request: Message) -> None:
        async def ask() -> None:
            with suppress(Ended):
                await self.envd.ask(op, request)

        task = asyncio.create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def start_process(self, request: Message, envs: dict[str, str]) -> ServedProcess:
        """Start a process for somebody who subscribes before anything else happens."""
        process = ServedProcess(request["process"])
        answer = await self.envd.ask("Start", {**request, "envs": envs})
        process.pid = answer["pid"]
        self.processes[process.pid] = process
        return process

    def claim(self, process: ServedProcess) -> None:
        """Hand over what a process did before it was subscribed to."""
        for message in self._unclaimed.pop(process.pid, []):
            self._deliver(process, message)

    async def events(
        self, process: ServedProcess, queue: asyncio.Queue[Message], keepalive: float
    ) -> AsyncIterator[Message]:
        """Yield the events of a process until it ends or the sandbox does."""
        while True:
            try:
                async with asyncio.timeout(keepalive):
                    event = await queue.get()
            except TimeoutError:
                event = {"keepalive": dict[str, str]()}
            if process.held and process.waiting < LOW_WATER:
                process.held = False
                self._later("hold", {"pid": process.pid, "pause": False})
            yield event
            if "end" in event or "gone" in event:
                return

    async def close(self) -> None:
        """Forget the programs; the sandbox is ended by its owner."""
        self.gone.set()
        for process in self.processes.values():
            process.tell({"gone": True})
        await self.envd.close()
        if self._interpreter is not None:
            self._interpreter.cancel()
            await asyncio.wait([self._interpreter])
            if not self._interpreter.cancelled() and self._interpreter.exception() is None:
                await self._interpreter.result().close()
