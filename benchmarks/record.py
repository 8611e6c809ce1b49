"""What the record of an operation costs: when nobody listens, and when somebody does.

The part of the record is measured by itself, in turn with a local ``run(["true"])``: beside the
start of a process, the difference of two runs would be all noise.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from measure import interleave, verdict
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

import sandboxio
from sandboxio import IsolationTier
from sandboxio._engine.recording import Recorder
from sandboxio._observe.record import Subject
from sandboxio._observe.redaction import Redactor
from sandboxio.audit import AuditConfig, AuditEvent, FileSink

ROUNDS = 300
BOUND = 3.0
"""Percent of one run that the record may take when nobody listens."""

SECRETS = ["hunter2-" + "x" * 24, "a-second-secret-of-some-length"]


class Kept:
    """A sink that does as little as a sink can."""

    async def emit(self, event: AuditEvent) -> None:
        """Take the event."""


def recording(recorder: Recorder) -> Callable[[], Awaitable[None]]:
    """Return what records one command, with all that the engine writes down of it."""
    tier = IsolationTier.CONTAINER
    about = Subject("sbx-0123456789abcdef", "local", tier, Redactor(SECRETS))

    async def one() -> None:
        async with recorder.operation(about, "exec", argv=("/bin/sh", "-c", "true")) as record:
            record.bytes_in += 0
            record.has_started()
            record.has_ended(0)
            assert record.meter is not None

    return one


async def main() -> bool:
    """Print the costs, and whether the silent record keeps its bound."""
    async with await sandboxio.create("local://", timeout=600) as sandbox:

        async def run() -> None:
            await sandbox.run(["true"])

        with tempfile.TemporaryDirectory() as folder:
            file = AuditConfig(sinks=(FileSink(Path(folder, "audit.jsonl")),))
            samples = await interleave(
                [
                    ("run(['true']), local", run),
                    ("record: nobody listens", recording(Recorder())),
                    ("record: a sink in memory", recording(Recorder(AuditConfig((Kept(),))))),
                    ("record: FileSink", recording(Recorder(file))),
                ],
                ROUNDS,
            )
        # From here on there is a provider, for every operation of this process.
        trace.set_tracer_provider(TracerProvider())
        samples += await interleave(
            [("record: a span of the OTel SDK", recording(Recorder()))], ROUNDS
        )
    for sample in samples:
        print(sample.describe(unit=1e6, suffix="us"))
    percent = 100 * samples[1].median / samples[0].median
    return verdict("the silent record / run(['true'])", percent, BOUND, at_most=True, unit=" %")


if __name__ == "__main__":
    sys.exit(0 if anyio.run(main) else 1)
