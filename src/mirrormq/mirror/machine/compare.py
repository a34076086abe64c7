"""Comparing states: a copy counts as in sync only if its state is the leader's. Compiled.

Rules
 1. The leader names an index, its end. Who is asked folds its log as far as that and tells what that comes to (TakeSum); so does
    the leader. Who has folded further tells that, and is asked again.
 2. A learner joins only when it was found equal in this epoch. From then on it folds the same entries.
 3. The ring is compared from time to time, when something was appended. A member that differs is put out.
 4. A learner that differs takes its copy anew, by full sync, whatever the policy says of new mirrors.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import COMPARE_AFTER, COMPARE_RETRY, NEVER
from mirrormq.mirror.machine.effects import Compared, TakeSum
from mirrormq.mirror.machine.following import take_anew
from mirrormq.mirror.machine.inputs import SumTaken
from mirrormq.mirror.machine.messages import AskSum, TakeAnew, TellSum
from mirrormq.mirror.machine.state import LEADER, LEARNER, OUTSIDE, State


def ask(s: State, nodes: list[str]) -> None:
    s.my_sum = None
    s.sums.clear()
    s.asked = set(nodes)
    s.compare_until = s.now + COMPARE_RETRY
    s.out.append(TakeSum(s.end))
    for node in nodes:
        s.send(node, AskSum(s.epoch, s.end))


def look_at_ring(s: State) -> None:
    """At the leader: it is time to compare, or an answer has not come."""
    if s.now >= s.compare_until:
        s.compare_until = NEVER
    if s.now < s.compare_at or s.compare_until != NEVER:
        return
    s.compare_at = NEVER
    others = [node for node in s.view.ring if node != s.me]
    if others:
        ask(s, others)


def next_look(s: State) -> float:
    """A comparison that is under way comes to its end before the next one begins."""
    return s.compare_at if s.compare_until == NEVER else s.compare_until


def note_append(s: State) -> None:
    """Something is to be compared again."""
    s.compare_at = s.now + COMPARE_AFTER


def on_asked(s: State, sender: str, asked: AskSum) -> None:
    if asked.epoch == s.epoch and s.view.ring and sender == s.view.ring[0] and s.role != OUTSIDE and s.whole:
        s.out.append(TakeSum(asked.index))


def on_taken(s: State, taken: SumTaken) -> None:
    if s.role == LEADER:
        if s.compare_until != NEVER:
            s.my_sum = taken
            _compare(s)
    elif s.role != OUTSIDE and s.view.ring and s.whole:
        s.send(s.view.ring[0], TellSum(s.epoch, taken.index, taken.count, taken.size, taken.sum))


def on_told(s: State, sender: str, told: TellSum) -> None:
    if told.epoch == s.epoch and s.role == LEADER and s.compare_until != NEVER:
        s.sums[sender] = told
        _compare(s)


def _compare(s: State) -> None:
    mine = s.my_sum
    if mine is None:
        return
    for node, told in list(s.sums.items()):
        del s.sums[node]
        s.asked.discard(node)
        s.undecided = True
        if told.index != mine.index:        # it had come further: it is asked again
            if node in s.view.ring:
                s.compare_at = s.now + COMPARE_RETRY
            continue
        are_equal = (told.count, told.size) == (mine.count, mine.size) and (told.sum == mine.sum or told.sum < 0 or mine.sum < 0)
        s.out.append(Compared(node, are_equal, mine.index, mine.count, told.count))
        if are_equal:
            s.alike.add(node)
        elif node in s.view.learners:
            s.learner_marks.pop(node, None)
            if s.now < s.differed_at.get(node, -NEVER) + COMPARE_AFTER:
                s.slow[node] = s.now + COMPARE_AFTER        # its copy was just taken anew: that does not help
            s.differed_at[node] = s.now
            s.send(node, TakeAnew(s.epoch))
        else:
            s.differing.add(node)
    if not s.asked:
        s.compare_until = NEVER


def on_take_anew(s: State, sender: str, order: TakeAnew) -> None:
    if order.epoch == s.epoch and s.role == LEARNER and sender == s.view.ring[0] and s.whole and s.end:
        s.sync_asked = True
        s.sync_cancelled = False
        take_anew(s)
