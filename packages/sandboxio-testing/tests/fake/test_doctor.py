"""What `sandboxio doctor` says of a fake."""

from __future__ import annotations

import sandboxio
from sandboxio_testing import FakeBackend


def test_what_is_simulated_is_said() -> None:
    fake = FakeBackend()
    sandboxio.register("doctors_fake", lambda: fake)
    report = sandboxio.doctor(["doctors_fake"], timeout=30)
    assert report.ok
    fake.simulate(disk_full=True)
    (backend,) = sandboxio.doctor(["doctors_fake"], timeout=30).backends
    assert (backend.ok, backend.checks[-1].status) == (True, "note")
    assert "disk_full" in backend.checks[-1].detail
    fake.simulate(unreachable=True)
    (backend,) = sandboxio.doctor(["doctors_fake"], timeout=30).backends
    assert (backend.ok, backend.checks[-1].hint) == (False, "fake.simulate()")
    fake.close()
