"""The codec of the guest protocol, which both ends share."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandboxio.guest import program as wire
from sandboxio.guest.fields import decode_fields

numbers = st.integers(min_value=-(10**18), max_value=10**18)
leaves = numbers | st.binary(max_size=50)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.binary(max_size=9), inner, max_size=5)
    ),
    max_leaves=30,
)


def depth(value: object) -> int:
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    return 0


@given(values.filter(lambda value: depth(value) <= wire.MAX_DEPTH))
def test_what_is_encoded_is_decoded(value: object) -> None:
    assert wire.decode(wire.encode(value)) == value


@given(st.binary(max_size=60))
def test_text_of_any_bytes_makes_the_round_trip(name: bytes) -> None:
    text = name.decode("utf-8", "surrogateescape")
    assert wire.encode(text) == wire.encode(name)
    assert wire.decode(wire.encode(text)) == name == os.fsencode(text)


@given(st.binary(max_size=100))
@example(b"")
@example(b"i" + b"9" * 1000 + b"e")
@example(b"9" * 1000 + b":")
@example(b"l" * 500)
@example(b"d" * 500 + b"e" * 500)
@example(b"di1ei2ee")
@example(b"d1:ae")
@example(b"i--1e")
@example(b"ie")
@example(b"i\xb2e")
@example(b"-1:a")
@example(b":")
@example(b"5:abc")
@example(b"i1ei2e")
def test_any_bytes_are_decoded_or_malformed(data: bytes) -> None:
    try:
        value = wire.decode(data)
    except wire.Malformed:
        return
    assert depth(value) <= wire.MAX_DEPTH


@given(st.lists(st.sampled_from([b"i", b"e", b"l", b"d", b"1:", b"0:", b"1", b"-", b"a"])))
def test_bytes_that_look_right_are_decoded_or_malformed(parts: list[bytes]) -> None:
    with suppress(wire.Malformed):
        wire.decode(b"".join(parts))


def test_nesting_is_bounded() -> None:
    deepest = b"l" * wire.MAX_DEPTH + b"e" * wire.MAX_DEPTH
    assert wire.decode(deepest)
    with pytest.raises(wire.Malformed, match="deep"):
        wire.decode(b"l" + deepest + b"e")


@pytest.mark.parametrize("payload", [b"l" + b"le" * 20_000 + b"e", b"l" + b"i0e" * 20_000 + b"e"])
def test_many_values_in_few_bytes_are_refused(payload: bytes) -> None:
    with pytest.raises(wire.Malformed, match="too many"):
        wire.decode(payload, 20_000)
    assert len(wire.decode(payload, 20_001)) == 20_000
    with pytest.raises(wire.Malformed):
        decode_fields(b"d1:e" + payload + b"e")


@pytest.mark.parametrize("payload", [b"i1e", b"le", b"3:abc"])
def test_payload_is_a_dictionary_or_empty(payload: bytes) -> None:
    with pytest.raises(wire.Malformed, match="not a dictionary"):
        decode_fields(payload)
    assert decode_fields(b"") == {}
