"""The session, between two ends in memory: frames come whole and in order, credit holds, no lane starves."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.cluster.link import BULK, CONTROL, LANES, RING, WORK, Frame, FrameTooLarge, LinkFault, LinkSession, Terms
from mirrormq.cluster.link.frames import HEADER_SIZE, MORE, OWN, PIECE, SMALLEST_PIECE, credit_frame, header, own_frame
from mirrormq.cluster.link.inbound import Inbound

from .support import KIB, Pair, small_terms

FRAMES = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 255), st.sampled_from([0, 1, 7, 100, 5000, 70_000, 300_000])), max_size=12
)


def payload(number: int, size: int) -> bytes:
    return bytes([number % 251 + 1]) * size


def by_lane(frames: list[Frame]) -> dict[int, list[Frame]]:
    return {lane: [frame for frame in frames if frame.lane == lane] for lane in range(len(LANES))}


def open_pair(terms: Terms | None = None, *, digests: bool = True) -> Pair:
    """Both sides have told each other their credit."""
    pair = Pair(terms or small_terms(), digests=digests)
    pair.run()
    pair.frames.clear()
    return pair


@given(frames=FRAMES, limit=st.sampled_from([1, 100, 20_000, 1 << 20]))
def test_what_is_sent_arrives_whole_and_in_the_order_of_its_lane(frames: list[tuple[int, int, int]], limit: int) -> None:
    pair = open_pair()
    sent = [Frame(lane, kind, payload(number, size)) for number, (lane, kind, size) in enumerate(frames)]
    for frame in sent:
        pair.left.send(frame.lane, frame.kind, frame.payload)
    assert by_lane(pair.run(limit)) == by_lane(sent)
    assert [pair.left.waiting(lane) for lane in range(len(LANES))] == [0, 0, 0, 0]


@given(frames=FRAMES, cuts=st.lists(st.integers(0, 600_000), max_size=40))
def test_however_the_bytes_are_cut_the_frames_are_the_same(frames: list[tuple[int, int, int]], cuts: list[int]) -> None:
    terms = small_terms(window=1 << 22)
    pair = open_pair(terms)
    for number, (lane, kind, size) in enumerate(frames):
        pair.left.send(lane, kind, payload(number, size))
    line = b"".join(iter(lambda: pair.left.data_to_send(100_000), b""))
    whole = LinkSession(terms, 0).receive(line, 0)
    edges = sorted({0, len(line), *(cut for cut in cuts if cut < len(line))})
    cut_up = LinkSession(terms, 0)
    found = [frame for at, end in pairwise(edges) for frame in cut_up.receive(line[at:end], 0)]
    assert found == whole
    assert len(found) == len(frames)


def test_bytes_that_come_one_by_one_make_the_same_frames() -> None:
    pair = open_pair()
    sent = [Frame(WORK, 3, b""), Frame(WORK, 4, b"ab"), Frame(RING, 5, b"cdefg" * 10)]
    for frame in sent:
        pair.left.send(frame.lane, frame.kind, frame.payload)
    line = pair.left.data_to_send(1 << 20)
    found = [frame for octet in line for frame in pair.right.receive(bytes([octet]), 0)]
    assert by_lane(found) == by_lane(sent)


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.integers(1, 3), st.integers(0, 200_000)),
            st.tuples(st.just("carry"), st.integers(1, 300_000), st.just(0)),
            st.tuples(st.just("digest"), st.integers(1, 3), st.integers(0, 100_000)),
        ),
        max_size=60,
    )
)
def test_credit_is_never_exceeded_and_never_lost(steps: list[tuple[str, int, int]]) -> None:
    pair = open_pair(small_terms(window=32 * KIB), digests=False)
    held, sent = dict.fromkeys((1, 2, 3), 0), dict.fromkeys((1, 2, 3), 0)
    for step, first, second in steps:
        if step == "send":
            pair.left.send(first, 1, bytes(second))
            sent[first] += second
        elif step == "carry":
            before = len(pair.frames)
            pair.carry(first)
            for frame in pair.frames[before:]:
                held[frame.lane] += len(frame.payload)
        else:
            eaten = min(held[first], second)
            held[first] -= eaten
            pair.right.consumed(first, eaten)
        for lane in (1, 2, 3):
            account = pair.right._in.lanes[lane]
            largest = max((len(frame.payload) for frame in pair.frames if frame.lane == lane), default=0)
            assert account.received <= account.announced
            assert account.received - account.digested <= 32 * KIB + max(largest, account._size)
    for lane in (1, 2, 3):
        pair.right.consumed(lane, held[lane])
    pair.digests = True
    pair.run()
    arrived = {lane: sum(len(frame.payload) for frame in found) for lane, found in by_lane(pair.frames).items() if lane}
    assert arrived == sent


def test_a_lane_stops_when_nothing_is_digested_and_goes_on_when_it_is() -> None:
    pair = open_pair(digests=False)
    for _ in range(100):
        pair.left.send(WORK, 1, bytes(4 * KIB))
    pair.run()
    assert len(pair.frames) == 16
    assert pair.left.waiting(WORK) == 84 * 4 * KIB
    pair.right.consumed(WORK, 8 * 4 * KIB)
    pair.run()
    assert len(pair.frames) == 24


def test_a_lane_without_credit_does_not_hold_up_the_others() -> None:
    pair = open_pair(digests=False)
    for lane in (BULK, WORK):
        pair.left.send(lane, 1, bytes(60 * KIB))
        pair.left.send(lane, 1, bytes(60 * KIB))
    pair.run()
    pair.left.send(RING, 2, b"ring")
    pair.left.send(CONTROL, 3, b"control")
    assert [frame.payload for frame in pair.run()[-2:]] == [b"control", b"ring"]


def test_a_frame_larger_than_the_window_comes_through() -> None:
    pair = open_pair(small_terms(window=16 * KIB), digests=False)
    pair.left.send(WORK, 9, payload(1, 900 * KIB))
    assert pair.run() == [Frame(WORK, 9, payload(1, 900 * KIB))]


def test_the_lane_of_control_needs_no_credit() -> None:
    pair = open_pair(digests=False)
    for _ in range(50):
        pair.left.send(CONTROL, 1, bytes(10 * KIB))
    assert len(pair.run()) == 50


def test_no_frame_on_the_line_is_longer_than_a_piece() -> None:
    pair = open_pair(Terms())
    pair.left.send(BULK, 1, bytes(3 * PIECE + 5))
    line = pair.left.data_to_send(1 << 30)
    sizes = []
    while line:
        size = int.from_bytes(line[:4], "big")
        sizes.append((size, line[6]))
        line = line[HEADER_SIZE + size :]
    assert max(size for size, _ in sizes) <= PIECE
    assert sum(size for size, _ in sizes) == 3 * PIECE + 5
    assert [more for _, more in sizes] == [MORE] * (len(sizes) - 1) + [0]


@given(limit=st.integers(1, 500_000), size=st.integers(0, 2_000_000))
def test_the_limit_of_one_write_is_kept_but_for_the_smallest_piece(limit: int, size: int) -> None:
    pair = open_pair(Terms())
    pair.left.send(BULK, 1, bytes(size))
    assert len(pair.left.data_to_send(limit)) <= max(limit, SMALLEST_PIECE) + HEADER_SIZE + SMALLEST_PIECE


@pytest.mark.parametrize("limit", [10_000, 100_000, 1 << 20])
def test_a_full_line_is_shared_by_weight_and_no_lane_starves(limit: int) -> None:
    pair = open_pair(Terms())
    for lane in (BULK, WORK, RING):
        for _ in range(12):
            pair.left.send(lane, 1, bytes(1 << 20))
    while min(pair.left.waiting(RING), pair.left.waiting(WORK)) > 2 << 20:
        pair.carry(limit)
    gone = {lane: (12 << 20) - pair.left.waiting(lane) for lane in (BULK, WORK, RING)}
    assert gone[BULK] / gone[RING] == pytest.approx(1 / 4, abs=0.05)
    assert gone[WORK] / gone[RING] == pytest.approx(1, abs=0.1)


def test_what_is_urgent_overtakes_a_long_frame() -> None:
    pair = open_pair(Terms())
    pair.left.send(BULK, 1, bytes(4 << 20))
    pair.carry(300_000)
    pair.left.send(RING, 2, b"ring")
    pair.left.send(CONTROL, 3, b"control")
    pair.carry(300_000)
    assert [frame.payload for frame in pair.frames] == [b"control", b"ring"]
    pair.run()
    assert pair.frames[-1] == Frame(BULK, 1, bytes(4 << 20))


def test_the_user_hears_once_that_a_lane_has_drained() -> None:
    pair = open_pair(digests=False)
    pair.left.send(WORK, 1, bytes(8 * KIB))
    assert not pair.left.drained(WORK)
    pair.left.send(WORK, 1, b"!")
    assert not pair.left.drained(WORK)
    pair.run()
    assert pair.left.drained(WORK)
    assert not pair.left.drained(WORK)


def test_more_than_a_lane_may_carry_in_one_frame_is_refused_where_it_is_sent() -> None:
    pair = open_pair(small_terms(limit=1000))
    with pytest.raises(FrameTooLarge, match="1001 bytes are more than a frame of lane ring may carry"):
        pair.left.send(RING, 1, bytes(1001))
    assert pair.left.waiting(RING) == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (header(PIECE + 1, WORK, 1, 0), "announces"),
        (header(0xFFFFFFFF, BULK, 1, MORE), "announces"),
        (header(1, 5, 1, 0), "not a frame"),
        (header(1, WORK, 1, 2), "not a frame"),
        (header(1, WORK, 1, 0)[:7] + b"\1", "not a frame"),
        (header(2000, OWN, 0, 0), "announces"),
        (header(1, OWN, 0, MORE), "announces"),
        (header(1, WORK, 1, MORE) + b"a" + header(1, WORK, 2, 0) + b"b", "began as kind 1 and went on as kind 2"),
        (header(70 * KIB, WORK, 1, 0), "more than its credit of 65536 bytes"),
        (header(2, CONTROL, 1, MORE) + b"ab" + header(99, CONTROL, 1, 0), "longer than 100 bytes"),
        (credit_frame(9, 5), "credit came for no lane"),
        (own_frame(1, b"short"), "credit came for no lane"),
        (credit_frame(WORK, 5) + credit_frame(WORK, 4), "less than before"),
    ],
)
def test_a_peer_that_breaks_the_rules_is_found_out(line: bytes, words: str) -> None:
    terms = small_terms()
    terms.lanes[CONTROL].limit = 100
    with pytest.raises(LinkFault, match=words):
        LinkSession(terms, 0).receive(line, 0)


def test_pieces_without_end_are_stopped_at_the_limit_of_the_lane() -> None:
    session = LinkSession(small_terms(limit=100 * KIB, window=32 * KIB), 0)
    for _ in range(10):
        assert session.receive(header(10 * KIB, WORK, 1, MORE) + bytes(10 * KIB), 0) == []
    with pytest.raises(LinkFault, match="longer than 102400 bytes"):
        session.receive(header(1, WORK, 1, MORE), 0)


@given(data=st.binary(max_size=300))
def test_random_bytes_make_frames_or_a_fault_and_nothing_else(data: bytes) -> None:
    session = LinkSession(small_terms(), 0)
    try:
        session.receive(data, 0)
    except LinkFault:
        return


def test_an_own_frame_of_a_newer_version_is_passed_over() -> None:
    session = LinkSession(small_terms(), 0)
    assert session.receive(own_frame(77, b"?") + header(1, CONTROL, 1, 0) + b"x", 0) == [Frame(CONTROL, 1, b"x")]


def test_frames_before_a_goodbye_are_still_given_out() -> None:
    pair = open_pair()
    pair.left.send(CONTROL, 1, b"last")
    line = pair.left.data_to_send(1000) + pair.left.goodbye("rabbit@a is stopping")
    assert pair.right.receive(line, 0) == [Frame(CONTROL, 1, b"last")]
    assert pair.right.farewell == "rabbit@a is stopping"


def test_a_payload_that_came_whole_is_cut_out_once() -> None:
    inbound = Inbound(Terms().lanes)
    inbound.lanes[WORK].announced = 100
    frame = inbound.feed(header(4, WORK, 1, 0) + b"abcd")[0]
    assert type(frame.payload) is bytes
