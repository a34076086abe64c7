"""Feeding: what a node sends to its successor, and the last member to the learners. Hot parts compiled.

Rules
 1. A node answers a request to follow only when it is itself in line in that epoch; until then the request waits.
 2. It serves its successor, and, where it is the last member, the learners; nobody else.
 3. New entries go straight on to whoever has everything before them. Who lacks more is read to from the log until it has
    caught up.
 4. A successor is never held back. A learner gets the next read when it has acknowledged something of the last, so that it costs
    no memory and slows nobody.
 5. A learner that needs entries which are gone, or that is new under manual sync, starts at the end; full sync fills the rest.
"""

from __future__ import annotations

from typing import Final

from mirrormq.mirror.machine.effects import ReadLog
from mirrormq.mirror.machine.inputs import LogRead
from mirrormq.mirror.machine.marks import pass_on
from mirrormq.mirror.machine.messages import Entries, Follow, FollowAgain, Followed
from mirrormq.mirror.machine.records import Batch
from mirrormq.mirror.machine.state import Session, State

READ_LIMIT: Final = 1024 * 1024
LIVE_LAG: Final = 65_536
"""A learner that has not acknowledged so many entries is read to from the log instead of being handed new ones."""


def hand_on(s: State, batch: Batch) -> None:
    """Hot: a batch has just entered this node's log."""
    first = batch.first
    for node, session in s.sessions.items():
        if session.next == first and (not session.learner or first - session.acked < LIVE_LAG):
            session.next = first + batch.count
            s.send(node, Entries(s.epoch, session.nonce, batch, s.stable, s.stable_received))


def on_follow(s: State, sender: str, request: Follow) -> None:
    if request.epoch >= s.epoch:
        s.waiting[sender] = request
        answer_waiting(s)


def answer_waiting(s: State) -> None:
    if not s.settled or not s.waiting:
        return
    for node, request in list(s.waiting.items()):
        if request.epoch <= s.epoch:
            del s.waiting[node]
            if request.epoch == s.epoch:
                _answer(s, node, request)


def _answer(s: State, node: str, request: Follow) -> None:
    learner = s.is_last and node in s.view.learners
    if node != s.successor and not learner:
        return
    keep, begin = _where_to_go_on(s, request) if learner else _where_to_go_on_in_the_ring(s, request)
    before = s.lineage.epochs[s.lineage.run_at(begin - 1)] if begin > 1 else 0
    s.sessions[node] = session = Session(request.nonce, begin, learner)
    s.send(node, Followed(s.epoch, request.nonce, keep, begin, before, s.stable, s.stable_received))
    s.sent_durable = s.sent_received = -1
    pass_on(s)
    read_on(s, node, session)


def _where_to_go_on_in_the_ring(s: State, request: Follow) -> tuple[int, int]:
    keep = s.lineage.common(request.lineage)
    assert keep >= 0, "a ring member holds all that is stable, so the two logs have it in common"
    return keep, keep + 1


def _where_to_go_on(s: State, request: Follow) -> tuple[int, int]:
    keep = s.lineage.common(request.lineage)
    wanted = s.desired is None or s.desired.automatic
    if keep < 0 or keep + 1 < s.first_kept:
        return max(keep, 0), s.end + 1
    if keep == 0 and not wanted and s.end > 0:
        return 0, s.end + 1
    return keep, keep + 1


def read_on(s: State, node: str, session: Session) -> None:
    """Read for a node that lacks entries, unless a read is under way or the learner has enough to digest."""
    if session.reading or session.next > s.end:
        return
    if session.learner and session.acked < session.next - 1 and session.next - 1 - session.acked >= LIVE_LAG:
        return
    session.reading = True
    s.out.append(ReadLog(node, session.nonce, session.next, READ_LIMIT))


def on_log_read(s: State, read: LogRead) -> None:
    session = s.sessions.get(read.to)
    if session is None or session.nonce != read.nonce or not session.reading:
        return
    session.reading = False
    if not read.batches:
        del s.sessions[read.to]
        s.send(read.to, FollowAgain(s.epoch))
        return
    for batch in read.batches:
        if batch.first != session.next or batch.first > s.end:
            break
        session.next = batch.first + batch.count
        s.send(read.to, Entries(s.epoch, session.nonce, batch, s.stable, s.stable_received))
    if not session.learner:
        read_on(s, read.to, session)


def acknowledged(s: State, node: str, received: int) -> None:
    """A learner has said what it holds: it can take more."""
    session = s.sessions.get(node)
    if session is not None and session.learner:
        session.acked = max(session.acked, received)
        read_on(s, node, session)
