"""``sandboxio demo``: five steps that prove an installation, each timed."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from ..errors import SandboxError
from ..models import Capability
from ..spi import CommandPlugin
from .arguments import completed_by, targets
from .progress import Display, displayed
from .render import Style, columns, plain

if TYPE_CHECKING:
    from ..protocols import AsyncSandbox

__all__ = ["COMMAND"]

DEFAULT_TARGET = "auto://"

LIFETIME = 60.0
"""Seconds that the demo's sandbox may live."""

CODE = "import sys; print('hello from Python', sys.version.split()[0])"

STREAM = "for i in 1 2 3; do echo line $i; done"

PROBE_PORT = 53

PROBE = f"""
import errno, socket, sys
# Literal addresses, so that a missing name server cannot pass for a denied network.
for family, address in ((socket.AF_INET, "1.1.1.1"), (socket.AF_INET6, "2606:4700:4700::1111")):
    try:
        probe = socket.socket(family, socket.SOCK_STREAM)
        probe.settimeout(3)
        probe.connect((address, {PROBE_PORT}))
    except OSError as error:
        print(address, errno.errorcode.get(error.errno, type(error).__name__))
    else:
        print(address, "REACHED")
        sys.exit(9)
"""

REACHED = 9

ROOMY = 72
"""Columns from which on the details of a step stand beside its name."""


@dataclass
class Step:
    """One step of the demo and what came of it."""

    name: str
    ok: bool
    ms: float
    detail: str


@dataclass
class Report:
    """What the demo found; rendered for people, or as JSON."""

    backend: str = ""
    isolation: str = ""
    ok: bool = True
    steps: list[Step] = field(default_factory=list[Step])
    error: str | None = None


class Failed(Exception):
    """A step that ran and found something wrong."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    backend = parser.add_argument(
        "--backend",
        metavar="DSN",
        default=DEFAULT_TARGET,
        help="where to run it (default: auto://, Docker if its daemon answers, else local)",
    )
    completed_by(backend, targets)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def run(options: argparse.Namespace) -> int:
    """Run the demo and print its report."""
    import anyio

    style = Style.for_stream(sys.stdout)
    report = Report()

    def show(step: Step) -> None:
        if not options.json:
            print(_line(step, style), flush=True)

    with displayed() as display:
        anyio.run(_demo, options.backend, report, show, display)
    if options.json:
        print(json.dumps(asdict(report), indent=2))
    elif report.error:
        print(plain(report.error), file=sys.stderr)
    elif report.ok:
        end = f"All steps passed on {report.backend} (isolation: {report.isolation})."
        print(style.wrapped(end))
    else:
        print("A step failed.", file=sys.stderr)
    return 0 if report.ok else 1


def _line(step: Step, style: Style) -> str:
    mark = style.good("ok  ") if step.ok else style.bad("FAIL")
    first = f"  {mark} {step.name:<13} {step.ms:8.1f} ms  "
    if style.width is None or style.width >= ROOMY:
        return style.wrapped(step.detail, first=first, rest=" " * columns(first))
    return first.rstrip() + "\n" + style.wrapped(step.detail, first="    ", rest="    ")


async def _demo(
    target: str, report: Report, show: Callable[[Step], None], display: Display
) -> None:
    from .._api import create

    async def step(name: str, action: Callable[[], Awaitable[str]]) -> None:
        display.begin(name)
        began = time.perf_counter()
        try:
            detail, ok = await action(), True
        except Failed as failure:
            detail, ok = str(failure), False
        except SandboxError as error:
            detail, ok = f"[{error.code}] {error.message}", False
            report.error = str(error)
        finally:
            display.end()
        done = Step(name, ok, round((time.perf_counter() - began) * 1000, 1), detail)
        report.steps.append(done)
        report.ok = report.ok and ok
        show(done)

    created: list[AsyncSandbox] = []

    async def make() -> str:
        sandbox = await create(target, timeout=LIFETIME)
        created.append(sandbox)
        report.backend, report.isolation = sandbox.backend, sandbox.isolation.value
        return f"{sandbox.backend} sandbox {sandbox.id}, isolation {sandbox.isolation.value}"

    await step("create", make)
    if not created:
        return
    sandbox = created[0]
    async with sandbox:
        await step("run_code", lambda: _run_code(sandbox))
        if Capability.STREAMING in sandbox.capabilities:
            await step("stream", lambda: _stream(sandbox))
        await step("egress denied", lambda: _probe(sandbox))
        await step("teardown", lambda: _teardown(sandbox))


async def _run_code(sandbox: AsyncSandbox) -> str:
    result = await sandbox.run_code(CODE)
    if not result.ok:
        raise Failed(f"exit {result.exit_code}: {result.stderr.strip()[-200:]}")
    return result.stdout.strip()


async def _stream(sandbox: AsyncSandbox) -> str:
    data = b""
    async with sandbox.stream(STREAM) as process:
        async for chunk in process:
            data += chunk.data
        result = await process.wait()
    if not result.ok or data.split() != b"line 1 line 2 line 3".split():
        raise Failed(f"exit {result.exit_code}, output {data[:100]!r}")
    return f"{len(data.splitlines())} lines"


async def _probe(sandbox: AsyncSandbox) -> str:
    result = await sandbox.run_code(PROBE)
    seen = "; ".join(result.stdout.split("\n")).strip("; ")
    if result.exit_code == REACHED:
        raise Failed(f"THE NETWORK WAS REACHED: {seen}")
    if not result.ok or result.stdout.count("\n") != PROBE.count("socket.AF_INET"):
        raise Failed(f"the probe itself failed: {result.stderr.strip()[-200:]}")
    return f"denied: {seen}"


async def _teardown(sandbox: AsyncSandbox) -> str:
    await sandbox.kill()
    return "nothing is left"


COMMAND = CommandPlugin(
    name="demo",
    summary="create a sandbox, run code, stream, prove that the network is denied, tear down",
    description="Five timed steps prove an installation. The network is always denied; no option "
    "changes that.",
    add_arguments=add_arguments,
    run=run,
    examples=("sandboxio demo", "sandboxio demo --backend local:// --json"),
)
