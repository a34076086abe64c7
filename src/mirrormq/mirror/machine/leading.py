"""Leading: what the leader does about its ring, in order of urgency. One look, one decision, one proposal. Compiled.

Rules
 1. Who cannot be reached, has restarted, stands still or wants to leave is put out of the ring: by a swap, and only then do
    confirms go on without it. A leader that has just lost its last link waits a little: if the others see each other, they
    go on without it, and not it without them.
 2. A hand-over: hold publishers, wait until the whole ring has everything, swap. A hand-over that takes too long is called off.
 3. A learner joins in two steps: first its mark counts, then, when it holds all that is stable, the view is swapped. Once that
    was proposed, its mark counts until the epoch is over, for nobody can take a proposal back.
    It is compared before (see compare.py).
 4. The policy's wishes come last: first who should be there is added, then who should not be there goes.
 5. Who gives the lead away gives it to the first in the policy's order. One that is about to be in sync is waited for, but not
    one that nobody synchronises.
"""

from __future__ import annotations

from typing import Final

from mirrormq.mirror.deadlines import ALONE, HANDOVER_LIMIT, HANDOVER_RETRY, JOIN_LIMIT, NEVER, TOGETHER
from mirrormq.mirror.machine import compare
from mirrormq.mirror.machine.backfill import is_ordered
from mirrormq.mirror.machine.effects import Hold
from mirrormq.mirror.machine.marks import count_stable
from mirrormq.mirror.machine.records import Desired
from mirrormq.mirror.machine.state import State
from mirrormq.mirror.machine.views import may_propose, propose

JOIN_LAG: Final = 1000
"""A learner closer than this to the end may begin to join: waiting for it costs the confirms little."""


def decide(s: State) -> None:
    compare.look_at_ring(s)
    _join_step(s)
    if not may_propose(s):
        return
    suspects = find_suspects(s)
    if suspects:
        _put_out(s, suspects)
    elif s.handing:
        _hand_over_step(s)
    elif s.joining:
        _join(s)
    elif s.desired is not None and s.desired.revision >= s.view.wish:
        _reconcile(s, s.desired)


def find_suspects(s: State) -> dict[str, str]:
    suspects: dict[str, str] = {}
    for node in s.view.ring:
        why = _suspicion(s, node)
        if why:
            suspects[node] = why
    if not suspects:
        _suspect_broken_pairs(s, suspects)
    return suspects


def _suspicion(s: State, node: str) -> str:
    if s.slow.get(node, 0.0) > s.now:
        return "makes no progress"
    if node == s.me:
        return ""
    if node not in s.linked:
        return "" if s.is_just_alone else "does not answer"
    if s.is_barred(node):
        return "has restarted"
    if node in s.differing:
        return "holds another state of the queue"
    return "is stopping" if node in s.leaving else ""


def _suspect_broken_pairs(s: State, suspects: dict[str, str]) -> None:
    """Two neighbours cannot reach each other: the one that more holders miss goes, of two alike the one that joined later."""
    ring = s.view.ring
    for position in range(1, len(ring) - 1):
        one, other = ring[position], ring[position + 1]
        if _cannot_reach(s, one, other):
            guilty = one if _complaints(s, one) > _complaints(s, other) else other
            suspects[guilty] = f"cannot be reached by {one if guilty == other else other}"
            return


def _cannot_reach(s: State, one: str, other: str) -> bool:
    return other in s.missing.get(one, ()) or one in s.missing.get(other, ())


def _complaints(s: State, node: str) -> int:
    holders = s.view.ring + s.view.learners
    return sum([_cannot_reach(s, node, other) for other in holders if other != node])


def _put_out(s: State, suspects: dict[str, str]) -> None:
    ring = tuple([node for node in s.view.ring if node not in suspects])
    if not ring or (ring == (s.me,) and s.now < s.link_lost_at + TOGETHER):
        return
    words = " and ".join([f"{node} {why}" for node, why in suspects.items()])
    change = f"{ring[0]} leads" if s.me in suspects else f"{s.me} goes on without {' and '.join(suspects)}"
    propose(s, ring, s.view.learners + tuple(suspects), f"{change} in epoch {s.epoch + 1} because {words}")


def next_look(s: State) -> float:
    """When a leader that has lost a link or all of them decides what to do about it."""
    look = s.link_lost_at + TOGETHER if len(s.view.ring) > 1 else NEVER
    if s.is_just_alone:
        look = s.alone_at + ALONE
    return look if look > s.now else NEVER


def begin_hand_over(s: State, to: str, *, leave: bool) -> None:
    s.handing = True
    s.handing_to = to
    s.handing_leave = leave
    s.handing_until = s.now + HANDOVER_LIMIT
    s.out.append(Hold(True))


def _hand_over_step(s: State) -> None:
    others = [node for node in s.view.ring if node != s.me]
    to = s.handing_to or _next_leader(s, others)
    if not to:
        if s.handing_leave and not s.view.stopped:
            words = f"{s.me} stops and no other member of {s.epoch} is in sync"
            propose(s, s.view.ring, s.view.learners, words, stopped=True)
    elif to not in others:
        call_off(s)
    elif s.stable == s.end:
        rest = tuple([node for node in others if node != to])
        stay = () if s.handing_leave else (s.me,)
        gone = (s.me,) if s.handing_leave else ()
        words = f"{to} leads in epoch {s.epoch + 1} because {s.me} handed over"
        propose(s, (to, *rest, *stay), s.view.learners + gone, words)


def _next_leader(s: State, others: list[str]) -> str:
    order = s.desired.order if s.desired is not None else ()
    for node in order:
        if node in others and node in s.linked:
            return node
    return others[0] if others else ""


def call_off(s: State) -> None:
    """The hand-over did not come about: publishers go on here."""
    s.handing = False
    s.handing_until = NEVER
    s.hand_again_at = s.now + HANDOVER_RETRY
    s.out.append(Hold(False))


def _join_step(s: State) -> None:
    if s.joining:
        if not s.join_proposed and (not _can_join(s, s.joining) or s.now >= s.joining_since + JOIN_LIMIT):
            s.joining = ""
            count_stable(s)
    elif not s.handing and s.proposal is None:
        waiting: list[str] = []
        for node in s.view.learners:
            if _can_join(s, node):
                if node in s.alike:
                    s.joining = node
                    s.joining_since = s.now
                    return
                waiting.append(node)
        if waiting and s.compare_until == NEVER:
            compare.ask(s, waiting)


def _can_join(s: State, node: str) -> bool:
    standpoint = s.learner_marks.get(node)
    if standpoint is None or not standpoint.whole or node not in s.linked or node in s.leaving or node in s.slow:
        return False
    if s.desired is not None and node not in s.desired.members:
        return False
    last = s.view.ring[-1]
    return s.handed - standpoint.durable < JOIN_LAG and (last == s.me or not _cannot_reach(s, last, node))


def _join(s: State) -> None:
    standpoint = s.learner_marks.get(s.joining)
    if standpoint is None:
        if s.join_proposed:     # only a new epoch makes sure that it has not joined after all
            propose(s, s.view.ring, s.view.learners, f"{s.joining} could not join: it does not answer")
        return
    # A leader that has just taken over knows less of what is stable than the ring: up to its floor, everything may be.
    holds = standpoint.durable >= max(s.stable, s.floor) and standpoint.received >= s.stable_received
    if holds or not s.rules.two_step_join:
        s.join_proposed = True
        learners = tuple([node for node in s.view.learners if node != s.joining])
        words = f"{s.joining} is in sync in epoch {s.epoch + 1}"
        propose(s, (*s.view.ring, s.joining), learners, words)


def _reconcile(s: State, desired: Desired) -> None:
    view = s.view
    new = tuple([node for node in desired.members if not view.holds(node)])
    stale = [node for node in view.learners if node not in desired.members]
    if new or stale:
        learners = tuple([node for node in view.learners if node not in stale])
        words = [*[f"{node} becomes a mirror" for node in new], *[f"{node} is no longer one" for node in stale]]
        propose(s, view.ring, learners + new, f"{' and '.join(words)} because the policy says so")
        return
    unwanted = [node for node in view.ring if node not in desired.members]
    if unwanted and _can_do_without(s, desired, len(unwanted)):
        _let_go(s, desired, unwanted)
    elif desired.leader:
        _move(s, _heir(s, desired))


def _can_do_without(s: State, desired: Desired, unwanted: int) -> bool:
    """Everyone who should be there and can be reached is in sync, and somebody is."""
    ring = s.view.ring
    late = [node for node in desired.members if node not in ring and node in s.linked and node not in s.slow]
    return len(ring) > unwanted and not late


def _let_go(s: State, desired: Desired, unwanted: list[str]) -> None:
    ring = tuple([node for node in s.view.ring if node == s.me or node not in unwanted])
    if len(ring) < len(s.view.ring):
        names = " and ".join([node for node in unwanted if node != s.me])
        propose(s, ring, s.view.learners, f"{names} no longer a mirror because the policy says so")
    elif s.now >= s.hand_again_at:
        heir = _heir(s, desired)
        begin_hand_over(s, heir if heir in ring else "", leave=True)
        _hand_over_step(s)


def _heir(s: State, desired: Desired) -> str:
    """Who is to lead after this node; nobody yet while one that comes first is still coming."""
    for node in desired.order:
        if node == s.me or (node in s.view.ring and node in s.linked):
            return node
        if _is_coming(s, desired, node):
            return ""
    return desired.leader


def _is_coming(s: State, desired: Desired, node: str) -> bool:
    """It will be in sync soon, as far as this node knows."""
    if node not in desired.members or node not in s.linked or node in s.slow or node in s.leaving:
        return False
    standpoint = s.learner_marks.get(node)
    return is_ordered(s) or standpoint is None or standpoint.whole


def _move(s: State, to: str) -> None:
    if to and to != s.me and to in s.view.ring and to in s.linked and s.now >= s.hand_again_at:
        begin_hand_over(s, to, leave=False)
        _hand_over_step(s)


def sentence(s: State) -> str:
    away = [node for node in s.view.ring if node != s.me and node not in s.linked]
    if away and not s.store_reachable:
        return f"{s.me} leads in epoch {s.epoch} but cannot confirm: neither {' nor '.join(away)} nor the store answers"
    if s.desired is not None and len(s.view.ring) < s.desired.min_in_sync:
        return f"{len(s.view.ring)} of {s.desired.min_in_sync} members are in sync: publishes are refused"
    if s.handing:
        return f"{s.me} is handing the lead over"
    words = f"{s.me} leads in epoch {s.epoch}"
    if s.view.reason.startswith(words):
        return s.view.reason
    return f"{words}: {s.view.reason}" if s.view.reason else words


def accepts(s: State) -> bool:
    away = [node for node in s.view.ring if node != s.me and node not in s.linked]
    enough = s.desired is None or len(s.view.ring) >= s.desired.min_in_sync
    return enough and not s.handing and (s.store_reachable or not away)
