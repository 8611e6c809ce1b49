"""Record what a sandbox does: to a file, and to a slow target behind a queue."""

import json
import tempfile
from pathlib import Path

import anyio

import sandboxio
from sandboxio.audit import AuditConfig, AuditEvent, FileSink, QueueSink
from sandboxio_local import LocalBackend


class Archive:
    """Stands for a service at the other end of a network."""

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    async def emit(self, event: AuditEvent) -> None:
        await anyio.sleep(0.01)
        self.events.append(event)


async def main(folder: Path) -> None:
    archive = Archive()
    queue = QueueSink(archive)
    audit = AuditConfig(sinks=(FileSink(folder / "audit.jsonl"), queue))
    sandboxio.register("local", lambda: LocalBackend(audit=audit))

    async with anyio.create_task_group() as group:
        group.start_soon(queue.drain)
        async with await sandboxio.create(
            "local://",
            timeout=60,
            secrets={"API_KEY": "not-to-be-seen-1234"},
            metadata={"tenant_id": "acme", "session_id": "s-1"},
        ) as sandbox:
            await sandbox.run(["echo", "not-to-be-seen-1234"])
            await sandbox.run_code("print(6 * 7)")
        queue.close()

    lines = (folder / "audit.jsonl").read_text().splitlines()
    for line in lines:
        event = json.loads(line)
        print(event["event"], event["outcome"], event["argv"], event["exit_code"])
    assert [event.event for event in archive.events] == ["create", "exec", "run_code", "kill"]
    assert "not-to-be-seen" not in "".join(lines)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        anyio.run(main, Path(name))
