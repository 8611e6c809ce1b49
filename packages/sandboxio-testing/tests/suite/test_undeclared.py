"""No capability is left out of what the suite asks for while it is not declared."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from operator import or_
from pathlib import Path

import pytest

from sandboxio.errors import CapabilityNotSupported
from sandboxio.models import Capability
from sandboxio_testing import FakeBackend
from sandboxio_testing.suite import Probes
from sandboxio_testing.suite._attempts import attempt
from sandboxio_testing.suite._declaring import AT_CREATE, FLOOR, IN_CALLS, LATER
from sandboxio_testing.suite._operations import each_refusal


def test_each_capability_is_asked_for_or_leads_nowhere_yet() -> None:
    known = reduce(or_, [*IN_CALLS, *AT_CREATE], FLOOR | LATER)
    assert known == reduce(or_, Capability)
    assert not (FLOOR | reduce(or_, [*IN_CALLS, *AT_CREATE])) & LATER


@pytest.mark.parametrize("withheld", IN_CALLS, ids=lambda flag: flag.name)
async def test_capability_that_alone_is_not_declared_is_refused_by_each_call(
    withheld: Capability, tmp_path: Path
) -> None:
    fake = FakeBackend(capabilities=FakeBackend().capabilities & ~withheld)
    tried: Counter[Capability] = Counter()
    for needed, what, operation in each_refusal(fake.sandbox, Probes(), tmp_path):
        error = await attempt(operation())
        if needed is withheld:
            tried[needed] += 1
            assert isinstance(error, CapabilityNotSupported), f"{what}: {error!r}"
            assert error.capability is withheld, what
        elif isinstance(error, CapabilityNotSupported):
            # A context needs the running of code as well.
            assert error.capability is withheld, what
    assert tried[withheld] > 0
    fake.close()
