"""One time for the whole cluster, and a word when wall clocks differ.

What one node stamped is read by another after a failover. So all nodes keep the same time, whatever their wall clocks say.

Rules
 1. Nodes ask each other for the time over their links. Half the round trip is what cannot be known, and no more is ever corrected
    than what is certain.
 2. A node follows the one that it is linked to and whose time has run for longest; the oldest follows the wall clocks, by the
    median of them.
 3. A node that has not yet agreed with anybody takes over the time at once: what it has logged was stamped with the cluster's
    time before it stopped. Afterwards it follows by and by.
 4. A node whose wall clock was set begins anew: if its machine was stopped for a while, then its own time is wrong, and the
    others' is not.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, error
from typing import Final, Protocol

from mirrormq.cluster.link import CONTROL
from mirrormq.node.clock import SLEW, Clock

ASKED: Final = 3            # kinds of CONTROL frames
TOLD: Final = 4
ASK: Final = Struct("<d")           # the asker's age, for the way back
ANSWER: Final = Struct("<dddd")     # that, and the other's time, wall clock and age; milliseconds
AGAIN: Final = 10_000.0     # milliseconds between two questions
CLOSE: Final = 50.0         # milliseconds: who is as near has agreed
SAME_AGE: Final = 1000.0    # milliseconds: of nodes that began together the first by name leads
APART: Final = 1000.0       # milliseconds between wall clocks that are worth a word


class ClockLink(Protocol):
    name: str

    def send(self, lane: int, kind: int, payload: bytes) -> None: ...


class Seen:
    """Another node against this one, in milliseconds that it is ahead, as far as that is certain."""

    def __init__(self, ahead: float, wall: float, older: float, doubt: float) -> None:
        self.ahead = certain(ahead, doubt)
        self.wall = certain(wall, doubt)
        self.older = older
        self.doubt = doubt


def certain(difference: float, doubt: float) -> float:
    return max(0.0, difference - doubt) if difference > 0 else min(0.0, difference + doubt)


class ClockPeers:
    def __init__(self, me: str, clock: Clock, report: Callable[[str, str], None]) -> None:
        self._me = me
        self._clock = clock
        self._report = report
        self._seen: dict[str, Seen] = {}
        self._links: dict[str, ClockLink] = {}
        self._apart: set[str] = set()
        self._asked = 0.0
        self._age = 0.0
        self._has_agreed = False
        self._to_go = 0.0           # milliseconds to the time of the node that this one follows

    def link_up(self, link: ClockLink) -> None:
        self._links[link.name] = link
        self._ask(link)

    def link_down(self, name: str) -> None:
        self._links.pop(name, None)
        self._seen.pop(name, None)
        self._apart.discard(name)

    def apart(self) -> dict[str, float]:
        """Linked nodes whose wall clocks differ from this one's by more than a second: how many seconds theirs are ahead."""
        return {name: self._seen[name].wall / 1000 for name in sorted(self._apart)}

    def beat(self) -> float:
        """Twice a second or so. How far the wall clock is ahead of the node's time."""
        clock = self._clock
        ahead = clock.wall_ahead()
        age = clock.age()
        if age < self._age:
            self._has_agreed = False        # it was in doubt
            self._asked = 0.0
        self._age = age
        if age - self._asked >= AGAIN or not self._asked:
            self._asked = age
            for link in self._links.values():
                self._ask(link)
        if self._oldest():
            self._to_go = clock.slew(self._to_go, 2 * SLEW)     # faster than the other's own way to the wall clocks
        else:
            clock.slew(ahead + self._middle())
        return ahead

    # --- frames -----------------------------------------------------------------------------------------------------------------

    def _ask(self, link: ClockLink) -> None:
        link.send(CONTROL, ASKED, ASK.pack(self._clock.age()))

    def received(self, link: ClockLink, kind: int, payload: bytes) -> float:
        """Milliseconds by which the node's time was moved for it."""
        clock = self._clock
        try:
            if kind == ASKED:
                (asked,) = ASK.unpack(payload)
                link.send(CONTROL, TOLD, ANSWER.pack(asked, clock.now(), clock.wall(), clock.age()))
                return 0.0
            asked, now, wall, age = ANSWER.unpack(payload)
        except error:
            return 0.0              # of a later release
        trip = clock.age() - asked
        if trip < 0 or link.name not in self._links:
            return 0.0              # asked before this node's time was in doubt
        half = trip / 2
        seen = Seen(now + half - clock.now(), wall + half - clock.wall(), age + half - clock.age(), half)
        self._seen[link.name] = seen
        self._compare(link.name, seen)
        return self._follow(link, seen)

    def _compare(self, name: str, seen: Seen) -> None:
        if abs(seen.wall) > APART and name not in self._apart:
            self._apart.add(name)
            self._report("warning", f"the clock of node {name} is {abs(seen.wall) / 1000:.1f} seconds "
                                    f"{'ahead of' if seen.wall > 0 else 'behind'} this one's: set them, best by NTP")
        elif abs(seen.wall) <= APART / 2 and name in self._apart:
            self._apart.discard(name)
            self._report("info", f"the clocks of node {name} and of this one agree again")

    def _follow(self, link: ClockLink, seen: Seen) -> float:
        if abs(seen.ahead) <= CLOSE:
            self._has_agreed = True
        if self._oldest() != link.name:
            return 0.0
        if self._has_agreed:
            self._to_go = seen.ahead
            return 0.0
        by = seen.ahead
        self._clock.step(by)
        self._to_go = seen.ahead = 0.0
        self._report("info", f"this node's time was moved by {by / 1000:.1f} seconds to that of node {link.name}")
        self._asked = 0.0           # the next beat asks whether that was right
        return by

    def _oldest(self) -> str:
        """The linked node that leads; empty if that is this one."""
        leader, most = "", 0.0
        for name, seen in self._seen.items():
            is_older = seen.older > most + SAME_AGE or (abs(seen.older - most) <= SAME_AGE and name < (leader or self._me))
            if is_older:
                leader, most = name, seen.older
        return leader

    def _middle(self) -> float:
        """From this node's wall clock to the median of all; of two in the middle the nearer one."""
        walls = sorted([0.0, *[seen.wall for seen in self._seen.values()]])
        return min(walls[(len(walls) - 1) // 2], walls[len(walls) // 2], key=abs)
