"""Views: taking this node's place in a new one, and proposing the next. Compiled.

Rules
 1. A view counts when it is in the store, not when it is proposed. Until then the old confirm rule holds.
 2. Coming into a new epoch, everything that belonged to the old one is forgotten: sessions, marks, requests.
 3. The first of the ring leads, unless it has restarted in this very epoch: then nobody leads until a new epoch.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import NEVER
from mirrormq.mirror.machine.effects import BecameLeader, Hold, NewEpoch, ProposeView, Released, SteppedDown
from mirrormq.mirror.machine.feeding import answer_waiting
from mirrormq.mirror.machine.following import follow, part
from mirrormq.mirror.machine.marks import count_stable
from mirrormq.mirror.machine.messages import AskMark, Barred, Leaving, Reach
from mirrormq.mirror.machine.records import View
from mirrormq.mirror.machine.state import LEADER, LEARNER, MEMBER, OUTSIDE, State


def adopt(s: State, view: View) -> None:
    led = s.role == LEADER
    learned = s.role == LEARNER
    if s.view.ring[:1] != view.ring[:1]:
        s.sync_cancelled = False        # the new leader knows nothing of a cancel that the former one was given
    s.view = view
    s.epoch = view.epoch
    _forget_epoch(s)
    _take_place(s)
    if learned and s.position >= 0:
        s.amnesiac = False
    if s.amnesiac and s.role == MEMBER:
        # This view was on its way when the copy was lost, and still counts on it. If the member followed in it with an empty log,
        # the leader would find that the two logs have nothing in common.
        s.barred = s.epoch
        for node in s.view.ring + s.view.learners:
            tell_barred(s, node)
    s.undecided = True
    if s.role == LEADER:
        _lead(s, led=led)
    else:
        if led:
            _step_down(s)
        follow(s)
        report_reach(s)
    answer_waiting(s)
    _finish_stop(s)


def _forget_epoch(s: State) -> None:
    s.settled = False
    s.has_parted = False
    s.mark_durable = s.mark_received = 0
    s.sent_durable = s.sent_received = -1
    s.sessions.clear()
    s.gathered = 0
    s.gather_until = NEVER
    s.learner_marks.clear()
    s.alike.clear()
    s.differing.clear()
    s.sums.clear()
    s.compare_until = NEVER
    s.sync_told.clear()
    s.joining = ""
    s.join_proposed = False
    s.deserted = False
    s.orphaned_at = NEVER
    s.stalled_at = NEVER
    s.probed_at = NEVER
    s.note_at = NEVER
    s.follow_at = NEVER
    s.fill_busy = False
    s.held = []
    if s.proposal is not None and s.proposal.epoch <= s.epoch:
        s.proposal = None


def _take_place(s: State) -> None:
    ring = s.view.ring
    s.predecessor = s.successor = ""
    s.position = ring.index(s.me) if s.me in ring else -1
    if s.position >= 0:
        s.role = LEADER if s.position == 0 and not s.i_am_barred else MEMBER
        if len(ring) > 1:
            s.predecessor = ring[s.position - 1]
        if s.position + 1 < len(ring):
            s.successor = ring[s.position + 1]
    elif s.me in s.view.learners:
        s.role = LEARNER
        s.predecessor = ring[-1] if ring else ""
    else:
        s.role = OUTSIDE
        s.predecessor = ring[0] if ring else ""


def _lead(s: State, *, led: bool) -> None:
    restarted = s.bereft
    s.settled = True
    s.bereft = False
    s.whole = True
    s.noted = 0
    if not led or not s.view.learners:
        s.sync_order = 0
    s.answered = s.answered if led else 0
    s.answered_received = s.answered_received if led else 0
    if led:
        s.out.append(NewEpoch(s.epoch, s.view.reason))
    else:
        s.missing.clear()
        s.leaving.clear()
        s.slow.clear()
        s.waiting_since = NEVER
        s.handing = False
        s.floor = s.end
        s.compare_at = s.now
        s.out.append(BecameLeader(s.epoch, s.view.reason, s.view.forced, restarted))
    if s.stable < s.end:
        s.stalled_at = s.now
    if len(s.view.ring) > 1:
        s.send(s.predecessor, AskMark(s.epoch))
    for node in s.view.learners:
        s.send(node, AskMark(s.epoch))
    count_stable(s)


def _step_down(s: State) -> None:
    if s.handing:
        s.handing = False
        s.out.append(Hold(False))
    s.out.append(SteppedDown(s.epoch, s.view.reason))


def _finish_stop(s: State) -> None:
    if s.role == OUTSIDE and s.epoch and s.end == 0:
        part(s)
    elif s.stopping and (s.role == LEARNER or s.view.stopped):
        s.out.append(Released(f"{s.me} may stop: it is not in the ring of epoch {s.epoch}"))
    if s.stopping and s.role != LEADER and s.view.ring:
        s.send(s.view.ring[0], Leaving(s.epoch))


def report_reach(s: State) -> None:
    """Tell the leader whom this node cannot reach, and that it has restarted."""
    if s.role == LEADER or s.role == OUTSIDE or not s.view.ring:
        return
    missing = tuple([node for node in s.view.ring + s.view.learners if node != s.me and node not in s.linked])
    s.send(s.view.ring[0], Reach(s.epoch, missing))


def tell_barred(s: State, node: str) -> None:
    if s.i_am_barred and s.role == MEMBER:
        s.send(node, Barred(s.barred, s.amnesiac))


def may_propose(s: State) -> bool:
    return s.store_reachable and s.proposal is None


def propose(
    s: State, ring: tuple[str, ...], learners: tuple[str, ...], reason: str, *, stopped: bool = False, forced: bool = False
) -> None:
    """One proposal at a time. Its reason is the sentence by which the change is known everywhere."""
    assert ring, "somebody must hold the queue"
    wish = max(s.view.wish, s.desired.revision) if s.desired is not None else s.view.wish
    view = View(s.epoch + 1, ring, learners, reason, stopped, forced, wish)
    s.proposal = view
    s.proposed_at = s.now
    s.out.append(ProposeView(view))
    if not s.rules.swap_before_leaving and s.role == LEADER:
        s.deserted = ring == (s.me,)
        count_stable(s)
