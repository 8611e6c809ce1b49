"""The id of the host that a sandbox of root's runs as."""

from __future__ import annotations

import os

import pytest

from sandboxio.errors import CreationError
from sandboxio_local import _identity

ALL = [(0, 0, 4294967295)]


def test_ids_are_spread_over_an_unused_range() -> None:
    ids = {_identity.pick(f"sbx-{number:016x}", 0, ALL) for number in range(0, 1 << 40, 1 << 30)}
    assert len(ids) > 1000
    assert all(uid is not None and 0x7000_0000 <= uid < 0x8000_0000 for uid in ids)


def test_next_attempt_is_another_id() -> None:
    assert _identity.pick("sbx-1", 0, ALL) != _identity.pick("sbx-1", 1, ALL)


def test_container_with_its_own_ids_gives_from_the_upper_half() -> None:
    uid = _identity.pick("sbx-1", 0, [(0, 100000, 65536)])
    assert uid is not None
    assert 32768 <= uid < 65536


def test_too_few_ids_give_none() -> None:
    assert _identity.pick("sbx-1", 0, [(0, 1000, 1), (1, 100000, 100)]) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="of root alone")
def test_id_in_use_is_not_given_twice() -> None:
    with _identity.id_for("sbx-1") as (first, claim), _identity.id_for("sbx-1") as (second, _):
        assert claim is not None
        assert first != second
    with _identity.id_for("sbx-1") as (again, _):
        assert again == first


@pytest.mark.skipif(os.geteuid() != 0, reason="of root alone")
def test_root_without_other_ids_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_identity, "_ranges", lambda text: [(0, 0, 10)])
    with pytest.raises(CreationError, match="no unused id"), _identity.id_for("sbx-1"):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="of ordinary users")
def test_ordinary_user_keeps_its_own() -> None:
    with _identity.id_for("sbx-1") as (uid, claim):
        assert (uid, claim) == (_identity.OWN_USER, None)
