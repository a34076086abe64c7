"""Marks: how the leader learns that an entry has come round the ring. Hot and compiled.

Rules
 1. Member i passes on min(what it has on disk itself, the mark of its predecessor); the leader takes the last one's mark.
    The first mirror has no mark to wait for: the leader compares with its own disk when the mark has come round.
 2. A member passes nothing on before it is in line with its predecessor in this epoch.
 3. A learner tells the leader its own mark. While it joins, the leader waits for it as for the ring.
 4. What is stable never becomes less.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import NEVER, STABLE_NOTE
from mirrormq.mirror.machine.effects import Stable
from mirrormq.mirror.machine.messages import Mark, StableNote
from mirrormq.mirror.machine.state import LEADER, LEARNER, State


def pass_on(s: State) -> None:
    """Something of this node's own, or of its predecessor's, is further than before."""
    if s.role == LEADER:
        count_stable(s)
    elif s.settled:
        if s.role == LEARNER:
            _tell_standpoint(s)
        else:
            _pass_mark(s)


def _pass_mark(s: State) -> None:
    durable = s.durable
    received = s.lineage.end
    if s.position > 1:
        durable = min(durable, s.mark_durable)
        received = min(received, s.mark_received)
    if durable > s.sent_durable or received > s.sent_received:
        to = s.successor or s.view.ring[0]
        if to in s.linked:
            s.sent_durable = durable
            s.sent_received = received
            s.send(to, Mark(s.epoch, durable, received, True, 0))


def _tell_standpoint(s: State) -> None:
    if s.durable == s.sent_durable and s.end == s.sent_received:
        return
    s.sent_durable = s.durable
    s.sent_received = s.end
    mark = Mark(s.epoch, s.durable, s.end, s.whole, s.lineage.base, s.fill_position)
    leader = s.view.ring[0]
    s.send(leader, mark)
    if s.predecessor != leader:
        s.send(s.predecessor, mark)


def count_stable(s: State) -> None:
    """The leader: what has come round?"""
    durable = s.durable
    received = s.lineage.end
    if len(s.view.ring) > 1 and not s.deserted:
        durable = min(durable, s.mark_durable)
        received = min(received, s.mark_received)
    if s.joining and s.rules.two_step_join:
        joiner = s.learner_marks.get(s.joining)
        durable = min(durable, joiner.durable) if joiner is not None else 0
        received = min(received, joiner.received) if joiner is not None else 0
    if durable > s.stable or received > s.stable_received:
        _advance(s, durable, received)
    answer(s)


def _advance(s: State, durable: int, received: int) -> None:
    """What is received is no progress of the disks: transient messages must not hide that persistent ones wait."""
    if durable > s.stable:
        s.stable = durable
        s.stalled_at = s.now if durable < s.handed else NEVER
        s.probed_at = NEVER
        s.waiting_since = NEVER
    s.stable_received = max(s.stable_received, received)
    if s.note_at == NEVER and s.sessions:
        s.note_at = s.now + STABLE_NOTE
    if s.handing or s.joining:
        s.undecided = True
    if s.held:
        release_held(s)


def answer(s: State) -> None:
    """Tell the node what may be answered: with asynchronous replication, what is on the leader's own disk."""
    durable = s.stable
    received = s.stable_received
    desired = s.desired
    if (desired is not None and desired.asynchronous) or not s.rules.wait_for_stability:
        durable = s.durable
        received = s.lineage.end
    if durable > s.answered or received > s.answered_received:
        s.answered = max(s.answered, durable)
        s.answered_received = max(s.answered_received, received)
        enough = desired is None or len(s.view.ring) >= desired.min_in_sync
        s.out.append(Stable(s.answered, s.answered_received, enough))


def note_stable(s: State, stable: int, received: int) -> None:
    """A member hears what is stable; it may hear of more than a learner holds."""
    s.stable = max(s.stable, min(stable, s.lineage.end))
    s.stable_received = max(s.stable_received, min(received, s.lineage.end))
    if s.held:
        release_held(s)


def release_held(s: State) -> None:
    """Pieces of a full sync leave when nothing that they show can be undone any more."""
    held = s.held
    s.held = []
    for piece in held:
        if piece.upto <= s.stable:
            s.send(piece.to, piece.message)
        else:
            s.held.append(piece)


def send_note(s: State) -> None:
    """No entries came that would have carried it."""
    s.note_at = NEVER
    if s.stable > s.noted:
        s.noted = s.stable
        for node in s.sessions:
            s.send(node, StableNote(s.epoch, s.stable, s.stable_received))


def on_note(s: State, sender: str, note: StableNote) -> None:
    if note.epoch == s.epoch and sender == s.predecessor and s.settled:
        note_stable(s, note.stable, note.stable_received)
        send_note(s)


def on_mark(s: State, sender: str, mark: Mark) -> None:
    """From the predecessor (the leader's is the last member), or from a learner."""
    if mark.epoch != s.epoch and s.rules.epoch_check:
        return
    if sender != s.predecessor and s.rules.predecessor_check:
        return
    if mark.durable > s.mark_durable or mark.received > s.mark_received:
        s.mark_durable = max(s.mark_durable, mark.durable)
        s.mark_received = max(s.mark_received, mark.received)
        pass_on(s)
