"""The engine's frames come apart however the stream was cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandboxio_docker._demux import BadFrame, Demultiplexer

frames = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12)


def joined(pieces: list[tuple[str, memoryview]]) -> dict[str, bytes]:
    found = {"stdout": b"", "stderr": b""}
    for stream, piece in pieces:
        assert piece, "an empty piece says nothing"
        found[stream] += piece
    return found


@settings(deadline=None)
@given(frames, st.lists(st.integers(1, 30), max_size=60))
def test_every_byte_arrives_in_order_in_its_stream(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    stream = b"".join(struct.pack(">BxxxL", kind, len(data)) + data for kind, data in sent)
    demultiplexer = Demultiplexer()
    pieces: list[tuple[str, memoryview]] = []
    for cut in cuts:
        pieces += demultiplexer.feed(stream[:cut])
        stream = stream[cut:]
    pieces += demultiplexer.feed(stream)
    expected = {
        name: b"".join(data for kind, data in sent if kind == number)
        for number, name in ((1, "stdout"), (2, "stderr"))
    }
    assert joined(pieces) == expected


@settings(deadline=None)
@given(st.binary(min_size=8, max_size=200))
def test_what_is_no_framing_is_refused_or_understood(data: bytes) -> None:
    try:
        pieces = Demultiplexer().feed(data)
    except BadFrame:
        return
    assert sum(len(piece) for _, piece in pieces) <= len(data)


@pytest.mark.parametrize("header", [b"\4\0\0\0\0\0\0\1", b"\1\1\0\0\0\0\0\1", b"HTTP/1.1"])
def test_header_of_no_known_kind_is_refused(header: bytes) -> None:
    with pytest.raises(BadFrame):
        Demultiplexer().feed(header)


def test_huge_length_costs_no_memory() -> None:
    demultiplexer = Demultiplexer()
    pieces = demultiplexer.feed(b"\1\0\0\0\xff\xff\xff\xff" + b"x" * 10)
    assert joined(list(pieces))["stdout"] == b"x" * 10
