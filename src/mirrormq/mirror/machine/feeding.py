"""Feeding: what a node sends to its successor, and the last member to the learners. Hot parts compiled.

Rules
 1. A node answers a request to follow only when it is itself in line in that epoch; until then the request waits.
 2. It serves its successor, and, where it is the last member, the learners; nobody else. The leader tells who is in the view no
    more what the two logs have in common, and sends nothing.
 3. New entries go straight on to whoever has everything before them. Who lacks more is read to from the log until it has
    caught up.
 4. A successor is never held back. A learner gets the next read when it has acknowledged something of the last, so that it costs
    no memory and slows nobody.
 5. With asynchronous replication the leader may keep new entries back for a while, and then reads them from the log. Nobody waits
    for what is kept back: it is handed on at once when a hand-over, a join or a full sync needs it.
 6. A learner that needs entries which are gone, or that is new under manual sync, starts at the end; full sync fills the rest.
"""

from __future__ import annotations

from typing import Final

from mirrormq.mirror.deadlines import NEVER
from mirrormq.mirror.machine.effects import ReadLog
from mirrormq.mirror.machine.inputs import LogRead
from mirrormq.mirror.machine.marks import pass_on
from mirrormq.mirror.machine.messages import Entries, Follow, FollowAgain, Followed
from mirrormq.mirror.machine.records import Batch
from mirrormq.mirror.machine.state import LEADER, Session, State

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


def gather(s: State, batch: Batch) -> bool:
    """The leader: keep the batch back with what comes after it, if the policy says so."""
    desired = s.desired
    if desired is None or desired.gather <= 0.0 or s.handing or s.joining or s.held:
        return False
    if not s.gathered:
        s.gathered = batch.first
        s.gather_until = s.now + desired.gather
    return True


def release_gathered(s: State) -> None:
    """If it is time, or if somebody waits for it."""
    desired = s.desired
    is_due = s.now >= s.gather_until or desired is None or desired.gather <= 0.0
    if s.gathered and (is_due or s.handing or s.joining or s.held):
        s.gathered = 0
        s.gather_until = NEVER
        if s.stable < s.end and s.stalled_at == NEVER:
            s.stalled_at = s.now
        for node, session in s.sessions.items():
            read_on(s, node, session)


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
    if s.role == LEADER and not s.view.holds(node):
        keep = max(s.lineage.common(request.lineage), 0)
        lost_in = s.epoch if s.view.forced and not s.whole else s.lost_in       # it is about to end what it lacks
        s.send(node, Followed(s.epoch, request.nonce, keep, keep + 1, lost_in, s.stable, s.stable_received))
        return
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
    if keep < 0:
        return s.lineage.divergence_bound(request.lineage), s.end + 1
    if keep + 1 < s.first_kept:
        return keep, s.end + 1
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
