"""Succession: who takes over when the leader is gone. Compiled.

Rules
 1. Only a member of the ring takes over: it holds everything that was confirmed. The next one first; who stands behind it waits
    STAGGER longer for each that stands before.
 2. A member that has restarted has lost its unsynced tail: it waits RESTART_GRACE, so that one which has not goes first. The same
    holds for a leader that has restarted: it takes a new epoch, in which alone it may lead.
 3. The proposer keeps those behind it that it can reach, and makes learners of the others.
 4. A mirror that is not in sync takes over only where the policy says `always`, or an operator does. Otherwise it waits, and says
    for whom.
 5. A member whose disk was lost, or its copy damaged, holds nothing: it leaves the ring to the others by itself, so that nobody
    waits for it.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import ALONE, FORCE_AFTER, NEVER, RESTART_GRACE, STAGGER
from mirrormq.mirror.machine.state import LEARNER, MEMBER, State
from mirrormq.mirror.machine.views import may_propose, propose


def decide(s: State) -> None:
    """Not leading: is it this node's turn to take over?"""
    if s.role == MEMBER:
        _as_member(s)
    elif s.role == LEARNER:
        _as_learner(s)


def _as_member(s: State) -> None:
    if s.amnesiac:
        _step_aside(s)
        return
    before = s.view.ring[: s.position]
    if s.stopping or _anyone_first(s, before):
        s.orphaned_at = NEVER
        return
    if s.position == 0 and not s.i_am_barred:
        return
    if s.orphaned_at == NEVER:
        s.orphaned_at = s.now
    if s.now >= turn_of_member(s) and may_propose(s):
        _take_over(s, before)


def _step_aside(s: State) -> None:
    others = tuple([node for node in s.view.ring if node != s.me])
    if others and may_propose(s):
        reason = f"{s.me} has lost its copy and is no longer in sync since epoch {s.epoch + 1}"
        propose(s, others, (*s.view.learners, s.me), reason)


def _anyone_first(s: State, before: tuple[str, ...]) -> bool:
    """One of them can be reached, and has not lost more than this node."""
    return any(node in s.linked and (s.i_am_barred or not s.is_barred(node)) for node in before)


def _sees_ring(s: State) -> bool:
    """Somebody is there who is in sync, and has not lost what that was said of."""
    return any(node in s.linked and not s.is_empty(node) for node in s.view.ring)


def turn_of_member(s: State) -> float:
    if s.i_am_barred or s.bereft:
        turn = s.orphaned_at + RESTART_GRACE + STAGGER * s.position
    else:
        turn = s.orphaned_at + STAGGER * (s.position - 1)
    return max(turn, s.alone_at + ALONE) if s.is_just_alone else turn


def _take_over(s: State, before: tuple[str, ...]) -> None:
    ring = [s.me]
    out = list(before)
    for node in s.view.ring[s.position + 1 :]:
        if node in s.linked and (s.i_am_barred or not s.is_barred(node)):
            ring.append(node)
        else:
            out.append(node)
    propose(s, tuple(ring), s.view.learners + tuple(out), _reason(s, before))


def _reason(s: State, before: tuple[str, ...]) -> str:
    if not before:
        return f"{s.me} leads on in epoch {s.epoch + 1} because it has restarted"
    causes = [f"{node} {'has restarted' if node in s.linked else 'does not answer'}" for node in before]
    return f"{s.me} leads in epoch {s.epoch + 1} because {' and '.join(causes)}"


def may_learner_lead(s: State) -> bool:
    """The policy lets a mirror lead that is not in sync, once it sees nobody who is."""
    desired = s.desired
    return desired is not None and (desired.promote_after_stop if s.view.stopped else desired.promote_after_crash)


def _as_learner(s: State) -> None:
    if _sees_ring(s) or not may_learner_lead(s) or s.amnesiac or s.stopping:
        s.orphaned_at = NEVER
        return
    if s.orphaned_at == NEVER:
        s.orphaned_at = s.now
    if s.now >= turn_of_learner(s) and may_propose(s):
        lost = " or ".join(s.view.ring)
        cause = f"{lost} has lost its copy" if any(s.is_empty(node) for node in s.view.ring) else \
            f"{lost} was stopped" if s.view.stopped else f"{lost} did not answer"
        force(s, f"{s.me} leads although it is not in sync, as the policy says: {cause}")


def turn_of_learner(s: State) -> float:
    return s.orphaned_at + FORCE_AFTER + STAGGER * s.view.learners.index(s.me)


def force(s: State, why: str) -> None:
    """Lead with what is here. Whatever else was confirmed stays with the others, as quarantine, when they return."""
    others = tuple([node for node in s.view.learners + s.view.ring if node != s.me])
    propose(s, (s.me,), others, why, forced=s.role == LEARNER or s.amnesiac)


def has_lost_everything(s: State) -> bool:
    """This node alone was in sync, and has lost its copy: nobody will lead."""
    return s.role == MEMBER and s.amnesiac and len(s.view.ring) == 1


def sentence(s: State) -> str:
    if has_lost_everything(s):
        return f"{s.me} has lost its copy, and no other node was in sync: restore its files, or delete the queue"
    if s.role == MEMBER and s.i_am_barred:
        return f"{s.me} has restarted and waits for a new epoch of {' or '.join(s.view.ring)}"
    if s.role == LEARNER and s.view.ring and not _sees_ring(s):
        return f"waiting for {' or '.join(s.view.ring)}: only they hold everything that was confirmed, {s.me} is not in sync"
    return f"{s.view.ring[0]} leads in epoch {s.epoch}" if s.view.ring else "nobody holds the queue"
