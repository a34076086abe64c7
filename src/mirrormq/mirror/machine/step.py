"""The replication machine of one queue on one node: step(state, input, now) returns the effects. Compiled.

It has no clock, no disk, no network and no chance of its own: the same inputs give the same effects.

Rules
 1. A view (epoch, ring, learners) is agreed in the store by compare-and-swap. Everything between machines carries its epoch.
 2. Only the leader appends, one batch for each turn of its node. Each member appends, hands on, and syncs at the same time.
 3. Marks follow: member i passes on min(own, predecessor's). What has come round the ring is stable, and only that is answered.
 4. A member takes entries only of its epoch and only from its predecessor. So a deposed leader confirms nothing.
 5. By construction each log is a prefix of the predecessor's; what is not is cut off, into quarantine, when the two first meet.
 6. Who leaves the ring leaves the confirm rule after the swap; who joins enters it before.
 7. Who has restarted acts in the ring only in a new epoch.
 8. Only a ring member takes over, unless the policy or an operator says otherwise.
 9. Decisions are made once at the end of a step, on what is known then, and each has a sentence.

`wake_at` says when the machine wants a Tick; an idle one wants none.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import JOIN_LIMIT, NEVER, PROPOSAL_RETRY, SLOW
from mirrormq.mirror.machine import backfill, compare, health, leading, succession
from mirrormq.mirror.machine.effects import Effect, Released, Standing
from mirrormq.mirror.machine.feeding import acknowledged, gather, hand_on, on_follow, on_log_read, release_gathered
from mirrormq.mirror.machine.following import follow, on_entries, on_followed
from mirrormq.mirror.machine.inputs import (
    Appended,
    BackfillRead,
    Durable,
    ForceLead,
    HandOver,
    Head,
    Input,
    LinkDown,
    LinkUp,
    LogRead,
    PieceInstalled,
    ProposalFailed,
    Received,
    SetDesired,
    Started,
    StoreReachable,
    SumTaken,
    Sync,
    Tick,
    Trimmed,
    ViewSeen,
)
from mirrormq.mirror.machine.marks import answer, count_stable, on_mark, on_note, pass_on, send_note
from mirrormq.mirror.machine.messages import (
    AskMark,
    AskStatus,
    AskSum,
    Barred,
    Entries,
    Follow,
    FollowAgain,
    Followed,
    Leaving,
    Mark,
    Message,
    Piece,
    PieceWanted,
    Reach,
    StableNote,
    Status,
    SyncAsked,
    TakeAnew,
    TellSum,
)
from mirrormq.mirror.machine.records import Batch
from mirrormq.mirror.machine.state import LEADER, LEARNER, MEMBER, OUTSIDE, Standpoint, State
from mirrormq.mirror.machine.views import adopt, report_reach, tell_barred


def step(s: State, given: Input, now: float) -> list[Effect]:
    s.now = now
    s.out = []
    if now >= s.wake_at:
        s.undecided = True      # a deadline has passed, and this input may have overtaken the tick for it
    if isinstance(given, Received):
        _received(s, given.sender, given.message)
    elif isinstance(given, Durable):
        _durable(s, given)
    elif isinstance(given, Appended):
        _appended(s, given.batch)
    else:
        _cold(s, given)
    if s.undecided:
        s.undecided = False
        _decide(s)
    s.wake_at = _next_wake(s)
    return s.out


def _appended(s: State, batch: Batch) -> None:
    assert s.role == LEADER, "only the leader appends"
    assert batch.epoch == s.epoch, "a batch is sealed in the epoch in which it is sent"
    assert batch.first == s.lineage.end + 1, "a batch follows on the one before it"
    s.lineage.extend(batch.epoch, batch.count)
    if s.compare_at == NEVER and len(s.view.ring) > 1:
        compare.note_append(s)
    if not gather(s, batch):
        if s.stalled_at == NEVER:
            s.stalled_at = s.now
        hand_on(s, batch)
    if batch.waits:
        count_stable(s)


def _durable(s: State, given: Durable) -> None:
    if given.generation == s.generation and given.index > s.durable:
        s.durable = given.index
        pass_on(s)


def _received(s: State, sender: str, message: Message) -> None:
    if isinstance(message, Entries):
        on_entries(s, sender, message)
    elif isinstance(message, Mark):
        if s.role == LEADER and sender in s.view.learners:
            _learner_mark(s, sender, message)
        on_mark(s, sender, message)
        if message.epoch == s.epoch and s.sessions:
            acknowledged(s, sender, message.received)
    else:
        _said(s, sender, message)


def _learner_mark(s: State, sender: str, mark: Mark) -> None:
    if mark.epoch != s.epoch:
        return
    s.learner_marks[sender] = Standpoint(mark, s.now)
    if s.joining == sender:
        count_stable(s)
    if not mark.whole:
        s.alike.discard(sender)         # it takes its copy anew, and has yet to be compared
        backfill.tell_drained(s)
        backfill.ask_again(s, sender)
    s.undecided = True


def _said(s: State, sender: str, message: Message) -> None:
    if isinstance(message, Follow):
        on_follow(s, sender, message)
    elif isinstance(message, Followed):
        on_followed(s, sender, message)
    elif isinstance(message, StableNote):
        on_note(s, sender, message)
    elif isinstance(message, FollowAgain):
        if message.epoch == s.epoch and sender == s.predecessor:
            follow(s)
    elif isinstance(message, AskMark):
        _asked_for_mark(s, message)
    elif isinstance(message, Piece):
        backfill.on_piece(s, message)
    elif isinstance(message, PieceWanted):
        backfill.on_piece_wanted(s, sender, message)
    else:
        _said_rarely(s, sender, message)


def _said_rarely(s: State, sender: str, message: Message) -> None:
    s.undecided = True
    if isinstance(message, Barred):
        s.peers_barred[sender] = message.epoch
        if message.is_empty:
            s.peers_empty[sender] = message.epoch
    elif isinstance(message, Reach):
        s.missing[sender] = message.missing
    elif isinstance(message, Leaving):
        s.leaving.add(sender)
    elif isinstance(message, AskStatus):
        if message.epoch == s.epoch and s.settled:
            s.send(sender, Status(s.epoch, s.durable, s.end))
    elif isinstance(message, Status):
        health.on_status(s, sender, message)
    elif isinstance(message, AskSum):
        compare.on_asked(s, sender, message)
    elif isinstance(message, TellSum):
        compare.on_told(s, sender, message)
    elif isinstance(message, TakeAnew):
        compare.on_take_anew(s, sender, message)
    elif isinstance(message, SyncAsked):
        backfill.on_sync_asked(s, sender, message)


def _asked_for_mark(s: State, message: AskMark) -> None:
    if message.epoch == s.epoch:
        s.sent_durable = s.sent_received = -1
        pass_on(s)


def _cold(s: State, given: Input) -> None:
    s.undecided = True
    if isinstance(given, LogRead):
        on_log_read(s, given)
    elif isinstance(given, Tick):
        _tick(s)
    elif isinstance(given, ViewSeen):
        if given.view.epoch > s.epoch:
            adopt(s, given.view)
    elif isinstance(given, LinkUp):
        _link_up(s, given.node)
    elif isinstance(given, LinkDown):
        _link_down(s, given.node)
    elif isinstance(given, ProposalFailed):
        pass        # it is made again when PROPOSAL_RETRY has passed, unless a view shows its outcome before
    elif isinstance(given, StoreReachable):
        s.store_reachable = given.reachable
    elif isinstance(given, BackfillRead):
        backfill.on_backfill_read(s, given)
    elif isinstance(given, SumTaken):
        compare.on_taken(s, given)
    elif isinstance(given, PieceInstalled):
        backfill.on_installed(s, given)
    else:
        _ordered(s, given)


def _ordered(s: State, given: Input) -> None:
    """What the node or its operator wants."""
    if isinstance(given, Started):
        _start(s, given)
    elif isinstance(given, SetDesired):
        if s.desired is None or given.desired.revision >= s.desired.revision:
            if given.desired.automatic and s.desired is not None and not s.desired.automatic:
                backfill.forget_cancel(s)
            s.desired = given.desired
        if s.role == LEADER:
            answer(s)
    elif isinstance(given, Trimmed):
        s.first_kept = max(s.first_kept, given.first)
    elif isinstance(given, Head):
        s.head = given.index
        backfill.tell_drained(s)
    elif isinstance(given, Sync):
        backfill.ask_learners(s, on=given.on)
    elif isinstance(given, HandOver):
        _hand_over(s, given)
    elif isinstance(given, ForceLead):
        if s.role != LEADER and s.proposal is None:
            succession.force(s, given.why)
    else:
        raise AssertionError(f"unknown input {given!r}")


def _start(s: State, given: Started) -> None:
    s.lineage = given.lineage
    s.durable = given.lineage.end
    s.first_kept = given.lineage.base + 1
    s.whole = given.whole
    s.amnesiac = given.amnesiac
    s.bereft = not given.fresh
    if not given.fresh and s.rules.epoch_after_restart:
        s.barred = max(given.view.epoch if s.me in given.view.ring else 0, given.lineage.last_epoch())
    adopt(s, given.view)


def _hand_over(s: State, given: HandOver) -> None:
    s.stopping = given.leave
    if s.role == LEADER:
        leading.begin_hand_over(s, given.to, leave=given.leave)
    elif given.leave and s.role == MEMBER and s.view.ring[0] != s.me:
        s.send(s.view.ring[0], Leaving(s.epoch))
    elif given.leave:
        s.out.append(Released(f"{s.me} may stop: it is not in the ring of epoch {s.epoch}"))


def _link_up(s: State, node: str) -> None:
    s.linked.add(node)
    s.sync_told.discard(node)
    s.alone_at = NEVER
    s.leaving.discard(node)
    s.sent_durable = s.sent_received = -1
    tell_barred(s, node)
    if s.role == LEADER:
        if node == s.predecessor or node in s.view.learners:
            s.send(node, AskMark(s.epoch))
    else:
        report_reach(s)
        if node == s.predecessor:
            follow(s)
        else:
            pass_on(s)


def _link_down(s: State, node: str) -> None:
    s.linked.discard(node)
    s.link_lost_at = s.now
    if not s.linked and s.alone_at == NEVER:
        s.alone_at = s.now
    s.sessions.pop(node, None)
    s.waiting.pop(node, None)
    s.missing.pop(node, None)
    s.learner_marks.pop(node, None)
    s.alike.discard(node)
    s.peers_barred.pop(node, None)
    s.peers_empty.pop(node, None)
    s.leaving.discard(node)
    if node == s.predecessor and s.role != LEADER:
        s.settled = False
        s.follow_at = NEVER
    if s.view.ring and node == s.view.ring[0]:
        s.sync_cancelled = False        # the leader says it again when the link is back, unless it no longer holds
    s.fill_busy = False
    report_reach(s)


def _tick(s: State) -> None:
    if s.proposal is not None and s.now >= s.proposed_at + PROPOSAL_RETRY:
        s.proposal = None
    if s.now >= s.follow_at:
        follow(s)
    if s.now >= s.note_at:
        send_note(s)
    if s.handing and s.now >= s.handing_until and s.role == LEADER:
        leading.call_off(s)
    backfill.give_up_waiting(s)
    health.watch(s)
    health.forgive(s)


def _decide(s: State) -> None:
    if s.role == LEADER:
        leading.decide(s)
        release_gathered(s)
        _stand(s, leading.accepts(s), leading.sentence(s))
    elif s.role != OUTSIDE:
        succession.decide(s)
        backfill.fill(s)
        _stand(s, False, succession.sentence(s))


def _stand(s: State, accepts: bool, sentence: str) -> None:
    if accepts != s.accepts or sentence != s.sentence:
        s.accepts = accepts
        s.sentence = sentence
        s.out.append(Standing(accepts, sentence))


def _next_wake(s: State) -> float:
    wake = min(s.note_at, s.follow_at)
    if s.role == LEADER:
        wake = min(wake, s.stalled_at + SLOW if s.probed_at == NEVER else health.judgement(s))
        wake = min(wake, s.gather_until)
        if s.joining:
            wake = min(wake, s.joining_since + JOIN_LIMIT) if not s.join_proposed else wake
        if s.handing:
            wake = min(wake, s.handing_until)
        elif s.desired is not None and s.hand_again_at > s.now:
            wake = min(wake, s.hand_again_at)
        if s.slow:
            wake = min(wake, *s.slow.values())
        wake = min(wake, leading.next_look(s), compare.next_look(s))
    elif s.orphaned_at != NEVER:
        turn = succession.turn_of_member(s) if s.role == MEMBER else succession.turn_of_learner(s)
        if turn > s.now:
            wake = min(wake, turn)
    if s.role == LEARNER:
        wake = min(wake, s.fill_until)
        if s.fill_at > s.now:
            wake = min(wake, s.fill_at)
    if s.proposal is not None:
        wake = min(wake, s.proposed_at + PROPOSAL_RETRY)
    return wake
