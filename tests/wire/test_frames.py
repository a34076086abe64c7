"""Frames: cut up and put together again, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from mirrormq.wire.errors import FrameError
from mirrormq.wire.faults import unknown_frame
from mirrormq.wire.frames import HEARTBEAT_FRAME, Frame, FrameReader, content_frames, frame, method_frame
from mirrormq.wire.methods import BasicAck, decode_method

frames = st.builds(Frame, st.integers(0, 255), st.integers(0, 65535), st.binary(max_size=50))


def on_wire(f: Frame) -> bytes:
    return frame(f.kind, f.channel, f.payload)


@given(st.lists(frames, max_size=8), st.data())
def test_frames_are_found_in_whatever_portions_they_come(sent: list[Frame], data: st.DataObject) -> None:
    stream = b"".join(on_wire(f) for f in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = FrameReader(4096)
    received: list[Frame] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        received += reader.feed(stream[begin:end])
    assert received == sent


@given(st.binary(max_size=300), st.sampled_from([0, 9, 16, 100, 4096]))
def test_a_body_is_cut_into_frames_that_fit(body: bytes, frame_max: int) -> None:
    header, *bodies = FrameReader(0).feed(content_frames(7, b"\x00\x00", body, frame_max))
    assert header == Frame(FRAME_HEADER, 7, b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00")
    assert b"".join(f.payload for f in bodies) == body
    assert all(f.kind == FRAME_BODY and f.channel == 7 and f.payload for f in bodies)
    assert not frame_max or all(len(on_wire(f)) <= frame_max for f in bodies)
    assert len(bodies) == (-(-len(body) // (frame_max - 8)) if frame_max else bool(body))


def test_a_method_frame_holds_its_method() -> None:
    (received,) = FrameReader(4096).feed(method_frame(3, BasicAck(9)))
    assert (received.kind, received.channel) == (FRAME_METHOD, 3)
    assert decode_method(received.payload) == BasicAck(9)


def test_a_heartbeat_is_an_empty_frame_on_channel_zero() -> None:
    assert HEARTBEAT_FRAME == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert FrameReader(4096).feed(HEARTBEAT_FRAME) == [Frame(FRAME_HEARTBEAT, 0, b"")]


def test_frames_with_the_same_content_are_equal() -> None:
    assert len({Frame(1, 2, b"a"), Frame(1, 2, b"a"), Frame(1, 2, b"b")}) == 2
    assert Frame(1, 2, b"a") != b"a"
    assert repr(Frame(1, 2, b"a")) == "Frame(1, 2, b'a')"


def test_a_payload_may_have_frame_max_octets_and_no_more() -> None:
    assert FrameReader(4096).feed(frame(3, 1, bytes(4096))) == [Frame(3, 1, bytes(4096))]
    with pytest.raises(FrameError) as caught:
        FrameReader(4096).feed(b"\x01\x00\x01\x00\x00\x10\x01")
    assert caught.value.reply_text == "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4097,4088}"


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b"\x00\x5a\x00\x0a", "all octets = <<0,90,0,10>>"),
        (b"y" * 40, 'first 16 octets = <<"yyyyyyyyyyyyyyyy">>'),
        (b'a"b\\c\n\t\x1b\x08', 'all octets = <<"a\\"b\\\\c\\n\\t\\e\\b">>'),
        (b"\x7f", "all octets = <<127>>"),
    ],
)
def test_a_frame_without_its_end_is_refused_in_rabbitmqs_words(payload: bytes, shown: str) -> None:
    with pytest.raises(FrameError) as caught:
        FrameReader(4096).feed(frame(1, 1, payload)[:-1] + b"\x07")
    assert caught.value.reply_text == f"FRAME_ERROR - type 1, {shown}: {{invalid_frame_end_marker,7}}"


def test_an_unknown_frame_is_refused_in_rabbitmqs_words() -> None:
    assert unknown_frame(9, b"abc").reply_text == 'FRAME_ERROR - type 9, all octets = <<"abc">>: unknown_frame'
