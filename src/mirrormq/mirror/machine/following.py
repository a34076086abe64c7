"""Following: how a member or learner takes entries from its predecessor. Hot parts compiled.

Rules
 1. Entries count only in the current epoch, only from the predecessor, and only under the newest request to follow.
 2. An answer to an older request is ignored: the log has moved on since, and the answer would cut off what was reported.
 3. What the predecessor never had is cut off, into quarantine, before anything is appended.
 4. Who is in the view no more asks the leader, once, what the two logs have in common. What the leader never had goes into
    quarantine; then the log may go. After a takeover by force so does what is live in the log: the leader may not have had it.
 5. A ring member that has restarted does not follow in the epoch in which it went down: it may have reported entries as received
    that it lost. A new epoch puts that right. A learner has promised nothing and simply follows again.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import FOLLOW_RETRY, NEVER
from mirrormq.mirror.machine.effects import Append, BeginAt, CutTail, KeepLive, Released
from mirrormq.mirror.machine.feeding import answer_waiting, hand_on
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.marks import note_stable, pass_on
from mirrormq.mirror.machine.messages import Entries, Follow, Followed
from mirrormq.mirror.machine.state import LEADER, LEARNER, MEMBER, OUTSIDE, State


def follow(s: State) -> None:
    """Ask the predecessor to go on from what this log holds."""
    s.follow_at = NEVER
    if s.role == LEADER or (s.role == OUTSIDE and (s.end == 0 or s.has_parted)):
        return
    s.settled = False
    if s.predecessor not in s.linked or (s.role == MEMBER and s.i_am_barred):
        return
    s.nonce += 1
    s.follow_at = s.now + FOLLOW_RETRY
    s.send(s.predecessor, Follow(s.epoch, s.nonce, s.lineage.copy(), s.whole))


def on_followed(s: State, sender: str, answer: Followed) -> None:
    if answer.epoch != s.epoch or sender != s.predecessor or s.role == LEADER:
        return
    if answer.nonce != s.nonce and s.rules.ignore_stale_answers:
        return
    s.follow_at = NEVER
    if s.role == OUTSIDE:
        _part(s, answer.keep, answer.begin_epoch)
        return
    if answer.begin > answer.keep + 1 or answer.keep < s.lineage.base:
        _begin_at(s, answer.begin, answer.begin_epoch, keep=answer.keep)
    elif answer.keep < s.end and s.rules.cut_divergent_tail:
        _cut(s, answer.keep)
    s.settled = True
    s.bereft = False
    s.sent_durable = s.sent_received = -1
    s.undecided = True
    note_stable(s, answer.stable, answer.stable_received)
    pass_on(s)
    answer_waiting(s)


def _part(s: State, keep: int, lost_in: int) -> None:
    """Below `keep` the two logs are the same, but the leader's may have ended since, by name, what it did not have."""
    if s.has_parted:
        return
    keep = max(keep, s.lineage.base)
    if keep < s.end:
        _cut(s, keep)
    s.out.append(KeepLive(lost_in))
    part(s)


def part(s: State) -> None:
    """Nothing of this node's log is missing in the ring's: it may go."""
    s.has_parted = True
    s.out.append(Released(f"{s.me} no longer holds the queue since epoch {s.epoch}"))


def _divergence_sentence(s: State, keep: int) -> str:
    return f"entries {keep + 1} to {s.end} were never part of epoch {s.epoch}"


def _cut(s: State, keep: int) -> None:
    why = _divergence_sentence(s, keep)
    s.lineage.cut(keep)
    s.generation += 1
    s.durable = min(s.durable, keep)
    s.stable = min(s.stable, keep)
    s.stable_received = min(s.stable_received, keep)
    s.out.append(CutTail(keep, s.generation, why))


def take_anew(s: State) -> None:
    """The copy here is not what the leader's is: it is set aside, and everything comes by full sync."""
    _begin_at(s, s.end + 1, s.lineage.last_epoch(), keep=s.end, differs=True)
    follow(s)


def _begin_at(s: State, first: int, before: int, keep: int, differs: bool = False) -> None:
    why = _divergence_sentence(s, keep) if keep < s.end else ""
    s.lineage = Lineage(first - 1, before)
    s.generation += 1
    s.durable = first - 1
    s.stable = s.stable_received = 0
    s.first_kept = first
    s.whole = first == 1
    s.fill_busy = False
    s.out.append(BeginAt(first, before, s.generation, differs, keep, why))


def on_entries(s: State, sender: str, message: Entries) -> None:
    """Hot."""
    if message.epoch != s.epoch and s.rules.epoch_check:
        return
    if (sender != s.predecessor and s.rules.predecessor_check) or not s.settled or s.role == LEADER:
        return
    if message.nonce != s.nonce and s.rules.ignore_stale_answers and s.rules.epoch_check:
        return
    batch = message.batch
    lineage = s.lineage
    if batch.first == lineage.end + 1:
        lineage.extend(batch.epoch, batch.count)
        s.out.append(Append(batch, s.generation))
        if s.sessions:
            hand_on(s, batch)
        note_stable(s, message.stable, message.stable_received)
        if batch.waits or s.role == LEARNER:
            pass_on(s)
    elif batch.first > lineage.end:
        follow(s)
