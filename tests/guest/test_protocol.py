"""The frame parser meets anything: every split, garbage in front, any truncation."""

from __future__ import annotations

import itertools
import struct
import zlib

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sandboxes.guest import protocol as wire

frames = st.builds(
    wire.Frame, kind=st.integers(1, 11), stream=st.integers(0, 2**32 - 1), session=st.integers(0, 2**32 - 1),
    tag=st.integers(0, 255), payload=st.binary(max_size=300))


def encoded(frame: wire.Frame) -> bytes:
    return wire.encode(frame.kind, frame.stream, frame.session, frame.payload, frame.tag)


def fed_in_pieces(data: bytes, cuts: list[int]) -> list[wire.Frame]:
    reader = wire.FrameReader()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [frame for start, end in itertools.pairwise(edges) for frame in reader.feed(data[start:end])]


@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_frames_come_out_as_they_went_in_however_the_bytes_are_split(sent, cuts):
    assert fed_in_pieces(b"".join(map(encoded, sent)), cuts) == sent


@given(st.lists(frames, max_size=3))
def test_frames_come_out_byte_by_byte(sent):
    reader = wire.FrameReader()
    data = b"".join(map(encoded, sent))
    assert [frame for byte in data for frame in reader.feed(bytes([byte]))] == sent


@given(st.binary(max_size=400), st.lists(frames, min_size=1, max_size=4), st.lists(st.integers(0, 10_000), max_size=8))
def test_garbage_in_front_is_skipped_once_padding_has_ended_it(garbage, sent, cuts):
    """Garbage may look like the head of a frame; more than a frame of padding ends whatever it promised."""
    data = garbage + wire.PADDING + b"".join(map(encoded, sent))
    assert fed_in_pieces(data, cuts)[-len(sent):] == sent


@given(frames, st.data(), st.lists(frames, min_size=1, max_size=3))
def test_a_frame_cut_anywhere_never_appears_and_those_behind_it_do(torn, data, sent):
    whole = encoded(torn)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assume(whole[cut:].strip(b"\0"))  # a rest of zeros is made whole again by padding
    reader = wire.FrameReader()
    assert reader.feed(whole[:cut]) == []
    assert reader.feed(wire.PADDING + b"".join(map(encoded, sent))) == sent


@given(frames, st.data())
def test_one_flipped_bit_never_yields_another_frame(frame, data):
    whole = bytearray(encoded(frame))
    at = data.draw(st.integers(0, len(whole) * 8 - 1))
    whole[at // 8] ^= 1 << at % 8
    assert wire.FrameReader().feed(bytes(whole) + wire.PADDING) == []


@given(st.binary(max_size=5000))
def test_any_bytes_are_survived_and_little_is_held(data):
    reader = wire.FrameReader()
    reader.feed(data)
    assert len(reader._held) < wire.MAX_FRAME_BYTES


def test_a_header_that_promises_more_than_a_frame_may_hold_is_no_frame():
    head = wire.HEADER.pack(wire.MAGIC, wire.DATA, 0, wire.MAX_PAYLOAD_BYTES + 1, 1, 1, 0)
    good = wire.encode(wire.EOF, 1, 1)
    reader = wire.FrameReader()
    assert reader.feed(head + struct.pack(">I", zlib.crc32(head)) + good) == [wire.Frame(wire.EOF, 1, 1, 0, b"")]


def test_a_payload_larger_than_a_frame_is_refused():
    with pytest.raises(ValueError):
        wire.encode(wire.DATA, 1, 1, bytes(wire.MAX_PAYLOAD_BYTES + 1))


@settings(max_examples=30)
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20_000), max_size=4))
def test_a_message_of_any_size_is_joined_from_its_frames(body):
    reader, joiner = wire.FrameReader(), wire.MessageJoiner()
    messages = [joiner.add(frame) for part in wire.encode_message(wire.RESULT, 3, 9, body)
                for frame in reader.feed(part)]
    assert messages[-1] == body
    assert messages[:-1] == [None] * (len(messages) - 1)


def test_messages_of_two_streams_may_be_interleaved():
    joiner = wire.MessageJoiner()
    first = wire.FrameReader().feed(b"".join(wire.encode_message(wire.RESULT, 1, 9, {"a": "x" * 40_000})))
    second = wire.FrameReader().feed(b"".join(wire.encode_message(wire.RESULT, 2, 9, {"b": "y" * 40_000})))
    joined = [joiner.add(frame) for pair in zip(first, second, strict=True) for frame in pair]
    assert joined[-2:] == [{"a": "x" * 40_000}, {"b": "y" * 40_000}]


def test_a_message_that_does_not_end_is_refused():
    joiner = wire.MessageJoiner()
    frame = wire.Frame(wire.OPEN, 1, 1, wire.MORE, bytes(wire.MAX_PAYLOAD_BYTES))
    with pytest.raises(wire.MessageTooLong):
        for _ in range(wire.MAX_MESSAGE_BYTES // wire.MAX_PAYLOAD_BYTES + 1):
            joiner.add(frame)


@pytest.mark.parametrize("payload", [b"[]", b"1", b"{", b"\xff", b""])
def test_a_message_that_is_no_object_is_refused(payload):
    with pytest.raises(ValueError):
        wire.MessageJoiner().add(wire.Frame(wire.OPEN, 1, 1, wire.LAST, payload))




@given(st.binary(max_size=12))
def test_a_malformed_credit_gives_nothing(payload):
    if len(payload) != 4:
        assert wire.decode_credit(payload) == 0


@given(st.text(max_size=20), st.integers(0, 2**40))
def test_the_next_epoch_is_another_session_and_none_is_zero(nonce, epoch):
    numbers = {wire.session_number(nonce, epoch), wire.session_number(nonce, epoch + 1)}
    assert len(numbers) == 2 and 0 not in numbers
