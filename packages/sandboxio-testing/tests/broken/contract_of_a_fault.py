"""The contract against the broken backend that SBX_FAULT names; run by test_drawer.py."""

from __future__ import annotations

import os
import runpy
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from drawer import DRAWER
from fault import Instead

from sandboxio.audit import AuditConfig
from sandboxio.models import Capability
from sandboxio_testing import FakeBackend
from sandboxio_testing.suite import BackendContract, ProviderFacts

ROOT = next(parent for parent in Path(__file__).parents if (parent / "tools" / "dev.py").is_file())
TEMPLATE_TESTS = ROOT / "docs" / "adapter-template" / "tests" / "test_contract.py"

FAULT = next(fault for fault in DRAWER if fault.name == os.environ["SBX_FAULT"])


def broken(backend: Any, audit: AuditConfig | None = None) -> Any:
    if isinstance(FAULT.make, Instead):
        return FAULT.make(backend, audit)
    return FAULT.make(backend) if FAULT.make else backend


def failing(**faults: Any) -> Any:
    """Break a fake whose provider fails as well."""
    fake = FakeBackend()
    fake.simulate(**faults)
    return broken(fake)


class FakeWitness:
    """Looks into the simulated machines."""

    def __init__(self, fake: FakeBackend) -> None:
        self.fake = fake

    def sandboxes(self) -> Collection[str]:
        return self.fake.live_sandboxes

    def processes(self, sandbox_id: str, marker: str) -> int:
        found = self.fake.processes(sandbox_id).values()
        return sum(marker in argument for argv in found for argument in argv)

    def facts(self, sandbox_id: str) -> ProviderFacts:
        return ProviderFacts(network="none", privileged=False, host_paths=())

    def destroy(self, sandbox_id: str) -> None:
        if sandbox_id in self.fake.live_sandboxes:
            self.fake.expire(sandbox_id)


class Broken(BackendContract):
    bound = 20.0
    loops = ("asyncio",)
    many = 4
    cancel_points = 5


if FAULT.base == "template":
    template = runpy.run_path(str(TEMPLATE_TESTS))
    TemplateBackend = template["TemplateBackend"]

    class TestTemplate(Broken):
        backend = staticmethod(lambda: broken(TemplateBackend()))
        witness = template["TemplateWitness"]
        known_gaps = template["TestTemplate"].known_gaps

        @staticmethod
        def audited(*, audit: AuditConfig) -> Any:
            return broken(TemplateBackend(audit=audit), audit)

else:
    declared = FakeBackend().capabilities
    if FAULT.base == "few":
        declared &= ~Capability.NETWORK_ALLOWLIST
    fake = FakeBackend(capabilities=declared)

    class TestFake(Broken):
        backend = broken(fake)
        witness = FakeWitness(fake)

        async def pass_time(self, seconds: float) -> None:
            await fake.clock.advance(seconds)

        unreachable = staticmethod(partial(failing, unreachable=True))
        silent = staticmethod(partial(failing, create_takes=1e9))
        refusing = staticmethod(partial(failing, kill_fails=PermissionError("403 Forbidden")))
        stuck = staticmethod(partial(failing, kill_hangs=True))

        @staticmethod
        def audited(*, audit: AuditConfig) -> Any:
            sinks = tuple(FAULT.sink(sink) if FAULT.sink else sink for sink in audit.sinks)
            given = AuditConfig(
                sinks=sinks, on_sink_failure=audit.on_sink_failure, capture_code=audit.capture_code
            )
            return broken(FakeBackend(audit=given))
