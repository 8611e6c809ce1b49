"""Blocked attempts to reach the network are in the record, or it says that it does not know."""

from __future__ import annotations

from typing import Any

from sandboxio import AsyncSandbox
from sandboxio.spi import CountsDenials, DriverBackend


async def test_number_is_not_known_unless_the_driver_counts(
    recorded: AsyncSandbox, collected: Any
) -> None:
    await recorded.run(["true"])
    (event,) = collected.take()
    assert event.network_denials is None
    assert '"network_denials": null' in event.as_line()


async def test_record_counts_what_was_blocked_while_it_was_open(
    recording_backend: DriverBackend, host_driver: Any, collected: Any
) -> None:
    counting: list[Any] = []
    provision = host_driver.provision

    async def provisioned(request: Any) -> Any:
        made = await provision(request)
        made.network_denials = 7
        counting.append(made)
        return made

    host_driver.provision = provisioned
    async with await recording_backend.create(timeout=100) as sandbox:
        (counted,) = counting
        assert isinstance(counted, CountsDenials)
        collected.take()
        await sandbox.run(["true"])
        async with sandbox.stream(["cat"]) as process:
            setattr(counted, "network_denials", 9)  # noqa: B010 - it may only be read, says the protocol
            await process.wait()
        await sandbox.files.ls()
    seen = [(event.event, event.network_denials) for event in collected.take()]
    assert seen == [("exec", 0), ("stream", 2), ("file_list", 0), ("kill", 0)]
