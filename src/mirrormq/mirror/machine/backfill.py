"""Full sync: a learner copies the live messages that lie before its log, while entries go on coming. Compiled.

Rules
 1. The learner pulls, piece by piece, from any ring member it can reach: mirrors before the leader. The queue never stops.
 2. A piece is read from the source's state as it is then, which is at or after the learner's first entry. So a message that ended
    meanwhile is ended by an entry that the learner has or gets: log folded over pieces gives the state, however they interleave.
 3. A piece leaves its source when all that it shows is stable: an ack that a failover undoes must not be missing a message.
 4. Pieces go by index: after a broken link, a failover or a cancel the learner goes on where it was, from whatever source.
 5. The last piece carries the queue's other state. Then the learner is whole, and joins like any other.
 6. Under manual sync it waits for the operator, or until everything it lacks is consumed.
 7. A cancel holds until the policy becomes `automatic`, an operator asks for a sync, or another node leads.
"""

from __future__ import annotations

from typing import Final

from mirrormq.mirror.deadlines import FOLLOW_RETRY, NEVER
from mirrormq.mirror.machine.effects import InstallPiece, ReadBackfill
from mirrormq.mirror.machine.inputs import BackfillRead, PieceInstalled
from mirrormq.mirror.machine.marks import pass_on, release_held
from mirrormq.mirror.machine.messages import Piece, PieceWanted, SyncAsked
from mirrormq.mirror.machine.state import LEADER, LEARNER, OUTSIDE, HeldPiece, State

PIECE: Final = 256 * 1024


def is_wanted(s: State) -> bool:
    automatic = s.desired is not None and s.desired.automatic
    return not s.sync_cancelled and (s.sync_asked or automatic)


def fill(s: State) -> None:
    """Ask for the next piece, if it is time."""
    if s.role != LEARNER or s.whole or not s.settled or s.fill_busy or not is_wanted(s) or s.now < s.fill_at:
        return
    source = _source(s)
    if not source:
        return
    if s.fill_base != s.lineage.base + 1:
        s.fill_base = s.lineage.base + 1
        s.fill_position = 1
    s.fill_busy = True
    s.fill_until = s.now + FOLLOW_RETRY * 4
    s.nonce_of_fill += 1
    s.send(source, PieceWanted(s.epoch, s.nonce_of_fill, s.fill_base, s.fill_position, PIECE))


def _source(s: State) -> str:
    for node in reversed(s.view.ring):
        if node in s.linked:
            return node
    return ""


def on_piece_wanted(s: State, sender: str, wanted: PieceWanted) -> None:
    in_line = s.role != OUTSIDE and s.role != LEARNER and s.settled
    if wanted.epoch == s.epoch and in_line and s.whole and s.end >= wanted.base - 1:
        s.out.append(ReadBackfill(sender, wanted.nonce, wanted.base, wanted.position, wanted.limit))


def on_backfill_read(s: State, read: BackfillRead) -> None:
    piece = Piece(s.epoch, read.nonce, read.base, read.next, read.data, read.done)
    s.held.append(HeldPiece(read.to, read.upto, piece))
    release_held(s)


def on_piece(s: State, piece: Piece) -> None:
    if s.role == LEARNER and s.fill_busy and piece.nonce == s.nonce_of_fill and piece.base == s.lineage.base + 1:
        s.fill_until = NEVER
        rate = s.desired.rate if s.desired is not None else 0
        s.fill_at = s.now + len(piece.data) / rate if rate else 0.0
        s.out.append(InstallPiece(piece.base, piece.next, piece.data, piece.done))


def on_installed(s: State, done: PieceInstalled) -> None:
    if s.whole or done.base != s.lineage.base + 1:
        return
    s.fill_busy = False
    s.fill_position = max(s.fill_position, done.next)
    if done.done:
        s.whole = True
        s.sync_asked = False
    s.sent_durable = -1
    pass_on(s)


def give_up_waiting(s: State) -> None:
    """The piece has not come: the source is gone, or was not ready."""
    if s.now >= s.fill_until:
        s.fill_busy = False
        s.fill_until = NEVER


def is_ordered(s: State) -> bool:
    """At the leader: mirrors that lack messages are being synchronised."""
    return s.sync_order > 0 or (s.sync_order == 0 and s.desired is not None and s.desired.automatic)


def ask_learners(s: State, *, on: bool) -> None:
    if s.role == LEADER and s.view.learners:
        s.sync_order = 1 if on else -1
        s.sync_told.clear()
        for node in s.view.learners:
            s.send(node, SyncAsked(s.epoch, on))


def forget_cancel(s: State) -> None:
    """The policy has become `automatic`. Each machine hears of it by itself, in any order: a leader that has not yet heard may
    repeat the cancel to a learner that has, so it also says when the cancel is over."""
    s.sync_cancelled = False
    if s.role == LEADER and s.sync_order < 0:
        s.sync_order = 0
        for node in s.view.learners:
            s.send(node, SyncAsked(s.epoch, True))


def ask_again(s: State, node: str) -> None:
    """It may have been in another epoch when it was asked, or not there."""
    if s.sync_order and node not in s.sync_told:
        s.sync_told.add(node)
        s.send(node, SyncAsked(s.epoch, s.sync_order > 0))


def on_sync_asked(s: State, sender: str, asked: SyncAsked) -> None:
    if asked.epoch != s.epoch or s.role != LEARNER or sender != s.view.ring[0]:
        return
    if asked.drained_to:
        if asked.drained_to >= s.lineage.base + 1 and not s.whole:
            s.sync_asked = True
            s.sync_cancelled = False
        return
    s.sync_asked = asked.on
    s.sync_cancelled = not asked.on


def tell_drained(s: State) -> None:
    """Everything that a learner lacks has been consumed: it only needs the rest of the state."""
    if s.role != LEADER:
        return
    for node, standpoint in s.learner_marks.items():
        if not standpoint.whole and s.head > standpoint.base:
            s.send(node, SyncAsked(s.epoch, True, s.head))
