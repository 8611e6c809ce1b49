"""Frames come apart however their stream was cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandboxio.guest import program as wire
from sandboxio.guest.framing import FRAMES_AT_ONCE, SMALL_PAYLOAD, FrameSplitter

Frame = tuple[int, int, bytes]

frames = st.lists(
    st.tuples(
        st.sampled_from([wire.OUT, wire.ERR, wire.DATA]),
        st.integers(0, 2**32 - 1),
        st.one_of(
            st.binary(max_size=20),
            st.integers(SMALL_PAYLOAD - 1, SMALL_PAYLOAD * 3).map(lambda size: bytes([7]) * size),
        ),
    ),
    max_size=8,
)


def encoded(sent: list[Frame]) -> bytes:
    return b"".join(
        wire.HEADER.pack(len(payload), kind, ident) + payload for kind, ident, payload in sent
    )


def fed(splitter: FrameSplitter, pieces: list[bytes]) -> list[Frame]:
    got: list[Frame] = []
    for piece in pieces:
        got += splitter.feed(piece)
        while splitter.backlog:
            got += splitter.feed(b"")
    return got


@given(frames, st.lists(st.integers(1, SMALL_PAYLOAD), max_size=40))
def test_every_frame_arrives_in_order(sent: list[Frame], cuts: list[int]) -> None:
    stream = encoded(sent)
    pieces: list[bytes] = []
    for cut in cuts:
        pieces.append(stream[:cut])
        stream = stream[cut:]
    got = fed(FrameSplitter(), [piece for piece in [*pieces, stream] if piece])
    assert got == sent
    assert all(type(payload) is bytes for _, _, payload in got)


def test_frame_that_comes_byte_by_byte_is_one() -> None:
    sent = [(wire.OUT, 1, bytes(range(256)) * 64), (wire.ERR, 2, b"after")]
    stream = encoded(sent)
    assert fed(FrameSplitter(), [stream[at : at + 1] for at in range(len(stream))]) == sent


def test_tiny_frames_come_a_part_at_a_time() -> None:
    sent = [(wire.OUT, 1, b"x")] * (3 * FRAMES_AT_ONCE)
    splitter = FrameSplitter()
    got = list(splitter.feed(encoded(sent)))
    assert (len(got), splitter.backlog) == (FRAMES_AT_ONCE, True)
    while splitter.backlog:
        got += splitter.feed(b"")
    assert got == sent


@pytest.mark.parametrize(
    ("kind", "size"), [(wire.OUT, wire.MAX_PAYLOAD + 1), (wire.STARTED, SMALL_PAYLOAD + 1)]
)
def test_length_that_a_type_may_not_have_is_refused_at_once(kind: int, size: int) -> None:
    with pytest.raises(wire.Malformed):
        list(FrameSplitter().feed(wire.HEADER.pack(size, kind, 1)))
