"""Slow members: who stands still while entries wait for the ring? Compiled.

Rules
 1. Entries that wait for SLOW without any progress make the leader ask every member where it stands.
 2. Who does not answer within PROBE is put out, or PROBE_AGAIN later if nobody answers; if all answer, the first of those that
    hold least on disk.
 3. If that is the leader itself, its disk is stuck: it gives the lead away.
 4. Where only two are left and both answer, the slower one has LAST: a disk that stutters is no reason to confirm what one node
    alone holds.
 5. A learner that is joining and holds things up is let go.
"""

from __future__ import annotations

from mirrormq.mirror.deadlines import LAST, NEVER, PROBE, PROBE_AGAIN, REJOIN_AFTER, SLOW
from mirrormq.mirror.machine.marks import count_stable
from mirrormq.mirror.machine.messages import AskMark, AskStatus, Status
from mirrormq.mirror.machine.state import LEADER, State


def watch(s: State) -> None:
    if s.role != LEADER:
        return
    if s.probed_at != NEVER:
        if s.now >= judgement(s):
            _judge(s)
    elif s.now >= s.stalled_at + SLOW:
        _probe(s)


def judgement(s: State) -> float:
    """When the members have had their time to answer."""
    return s.probed_at + PROBE if s.statuses or len(s.view.ring) < 2 else s.probed_at + PROBE + PROBE_AGAIN


def _probe(s: State) -> None:
    if len(s.view.ring) < 2 and not s.joining:
        s.stalled_at = NEVER        # its own disk is slow, and there is nobody else
        return
    s.probed_at = s.now
    s.waiting_since = min(s.waiting_since, s.stalled_at)
    s.statuses.clear()
    for node in s.view.ring[1:]:
        s.send(node, AskStatus(s.epoch))
    s.send(s.predecessor, AskMark(s.epoch))


def _judge(s: State) -> None:
    s.probed_at = NEVER
    s.stalled_at = s.now
    guilty = _silent(s) or _slowest(s)
    if s.joining and not s.join_proposed:
        s.joining = ""
        count_stable(s)
    if guilty:
        s.slow[guilty] = s.now + REJOIN_AFTER
    s.undecided = True


def _silent(s: State) -> str:
    for node in s.view.ring[1:]:
        if node not in s.statuses:
            return node
    return ""


def _slowest(s: State) -> str:
    """All have answered."""
    if len(s.view.ring) == 2 and s.now < s.waiting_since + LAST:
        return ""
    least = s.durable
    guilty = s.me
    for node in s.view.ring[1:]:
        if s.statuses[node] < least:
            least = s.statuses[node]
            guilty = node
    return guilty if least < s.handed and len(s.view.ring) > 1 and (guilty != s.me or _others_have_more(s)) else ""


def _others_have_more(s: State) -> bool:
    return min([s.statuses[node] for node in s.view.ring[1:]]) > s.durable


def on_status(s: State, sender: str, status: Status) -> None:
    if s.role == LEADER and status.epoch == s.epoch:
        s.statuses[sender] = status.durable


def forgive(s: State) -> None:
    """Who was slow may join again."""
    if s.slow:
        for node, until in list(s.slow.items()):
            if s.now >= until:
                del s.slow[node]
                s.undecided = True
