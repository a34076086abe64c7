"""Heartbeats and silence: who is quiet is noticed in time, and who was itself stopped reads before it judges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.cluster.link import CONTROL, LinkSession, LinkSilent, Terms, deadlines
from mirrormq.cluster.link.deadlines import retry_pause
from mirrormq.cluster.link.frames import HEARTBEAT_KIND, own_frame

HEARTBEAT = own_frame(HEARTBEAT_KIND, b"")
TICK = 100


def quiet_session() -> LinkSession:
    """Its first words, the credit, are said."""
    session = LinkSession(Terms(), 0)
    session.data_to_send(1 << 20)
    session.tick(0)
    return session


def silent_at(session: LinkSession, start: int, step: int = TICK, until: int = 20_000) -> int:
    """When the session finds its peer silent."""
    for now in range(start, until, step):
        try:
            session.tick(now)
        except LinkSilent:
            return now
        session.data_to_send(1 << 20)
    return -1


def test_a_heartbeat_goes_out_when_nothing_else_did() -> None:
    session = quiet_session()
    sent = []
    for now in range(TICK, 1600, TICK):
        session.tick(now)
        if data := session.data_to_send(1000):
            sent.append((now, data))
    assert [data for _, data in sent] == [HEARTBEAT] * len(sent)
    assert 3 <= len(sent) <= 4


def test_who_was_stopped_after_its_last_words_speaks_at_once() -> None:
    session = quiet_session()
    session.tick(TICK)
    session.send(CONTROL, 1, b"x")
    session.data_to_send(1000)
    session.tick(1300)
    assert session.data_to_send(1000) == HEARTBEAT


def test_no_heartbeat_goes_out_beside_other_words() -> None:
    session = quiet_session()
    for now in range(TICK, 3000, TICK):
        session.receive(HEARTBEAT, now)
        session.tick(now)
        session.send(CONTROL, 1, b"x")
        assert HEARTBEAT not in session.data_to_send(1000)


def test_heartbeats_do_not_pile_up_behind_a_full_socket() -> None:
    session = quiet_session()
    for now in range(TICK, 60_000, TICK):
        session.receive(HEARTBEAT, now)
        session.tick(now)
    assert session.data_to_send(1000) == HEARTBEAT


def test_a_peer_that_falls_silent_is_noticed_within_three_seconds() -> None:
    session = quiet_session()
    for now in range(TICK, 10_000, TICK):
        session.receive(HEARTBEAT, now)
        session.tick(now)
    assert 11_900 <= silent_at(session, 10_000) <= 12_900


def test_any_byte_is_a_sign_of_life() -> None:
    session = quiet_session()
    for now in range(TICK, 60_000, TICK):
        if now % 1900 == 0:
            at = now // 1900 % len(HEARTBEAT) - 1
            session.receive(HEARTBEAT[at : at + 1] or HEARTBEAT[-1:], now)
        session.tick(now)


def test_the_sentence_says_how_long() -> None:
    session = quiet_session()
    for now in range(TICK, 2001, TICK):
        session.tick(now)
    with pytest.raises(LinkSilent, match=r"nothing came for 2\.1 s"):
        session.tick(2100)


def test_who_was_stopped_reads_before_it_judges() -> None:
    session = quiet_session()
    session.tick(30_000)
    session.receive(HEARTBEAT, 30_001)
    session.tick(30_100)


def test_who_was_stopped_together_with_its_peer_lets_it_speak_first() -> None:
    session = quiet_session()
    session.tick(30_000)
    for now in range(30_100, 30_400, TICK):
        session.tick(now)
    session.receive(HEARTBEAT, 30_400)
    session.tick(30_400)


def test_who_is_stopped_again_while_it_doubts_still_reads_first() -> None:
    session = quiet_session()
    for now in range(TICK, 2001, TICK):
        session.tick(now)
    session.tick(12_000)
    session.receive(HEARTBEAT, 12_001)
    session.tick(12_100)


def test_a_dead_peer_is_noticed_after_a_stop_of_our_own() -> None:
    session = quiet_session()
    assert 30_000 < silent_at(session, 30_000, until=40_000) <= 31_000


def test_a_loop_that_is_always_late_still_notices_a_dead_peer() -> None:
    session = quiet_session()
    assert 0 < silent_at(session, 700, step=700) <= 2000 + 5 * 700


def test_the_deadlines_fit_together() -> None:
    assert 3 * deadlines.HEARTBEAT < deadlines.SILENCE
    assert deadlines.SILENCE + deadlines.FROZEN + 2 * deadlines.TICK < 3
    assert deadlines.TICK < deadlines.HEARTBEAT / 2
    assert 2 * deadlines.TICK < deadlines.FROZEN
    assert deadlines.RETRY_FIRST < deadlines.RETRY_LAST <= deadlines.LASTED
    assert deadlines.DIAL < deadlines.HANDSHAKE
    assert deadlines.SILENCE < deadlines.UNACKNOWLEDGED


@given(failures=st.integers(1, 10_000), chance=st.floats(0, 1))
def test_the_pauses_between_attempts_grow_to_a_second_and_no_further(failures: int, chance: float) -> None:
    assert deadlines.RETRY_FIRST / 2 <= retry_pause(failures, chance) <= deadlines.RETRY_LAST
    assert retry_pause(1, 1) == deadlines.RETRY_FIRST
    assert retry_pause(100, 1) == deadlines.RETRY_LAST
