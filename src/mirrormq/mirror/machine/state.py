"""The state of a machine: one queue on one node. Compiled.

Indexes are inclusive: "durable 7" means that entry 7 is on disk; 0 means none.
"""

from __future__ import annotations

from typing import Final

from mirrormq.mirror.deadlines import ALONE, NEVER
from mirrormq.mirror.machine.effects import Effect, Send
from mirrormq.mirror.machine.inputs import SumTaken
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.messages import Follow, Mark, Message, TellSum
from mirrormq.mirror.machine.records import Desired, View
from mirrormq.mirror.machine.rules import Rules

OUTSIDE: Final = 0
LEADER: Final = 1
MEMBER: Final = 2
LEARNER: Final = 3
ROLES: Final = ("not holding", "leader", "member", "learner")


class Session:
    """What this node sends to one that follows it: everything from `next` on. At most one read of the log is under way."""

    __slots__ = ("acked", "learner", "next", "nonce", "reading")

    def __init__(self, nonce: int, next: int, learner: bool) -> None:
        self.nonce: int = nonce
        self.next: int = next
        self.learner: bool = learner
        self.reading: bool = False
        self.acked: int = next - 1


class Standpoint:
    """What a learner has said of itself."""

    __slots__ = ("at", "base", "durable", "filled", "received", "whole")

    def __init__(self, mark: Mark, at: float) -> None:
        self.durable: int = mark.durable
        self.received: int = mark.received
        self.whole: bool = mark.whole
        self.base: int = mark.base
        self.filled: int = mark.filled
        self.at: float = at


class HeldPiece:
    __slots__ = ("message", "to", "upto")

    def __init__(self, to: str, upto: int, message: Message) -> None:
        self.to: str = to
        self.upto: int = upto
        self.message: Message = message


class State:
    def __init__(self, me: str, rules: Rules | None = None) -> None:
        self.me: str = me
        self.rules: Rules = rules if rules is not None else Rules()
        self.now: float = 0.0
        self.out: list[Effect] = []
        self.undecided: bool = False            # something changed on which a decision may depend
        self.wake_at: float = NEVER             # when the machine wants a Tick
        # the view, and this node's place in it
        self.view: View = View(0, ())
        self.epoch: int = 0
        self.role: int = OUTSIDE
        self.position: int = -1
        self.predecessor: str = ""              # of a learner: the last ring member, which feeds it
        self.successor: str = ""                # "" at the last ring member and at learners
        self.barred: int = 0                    # restarted: may not act in epochs up to this one
        self.bereft: bool = False               # restarted, and not yet in line again: its unsynced tail is missing
        self.amnesiac: bool = False
        # its log
        self.lineage: Lineage = Lineage()
        self.durable: int = 0
        self.generation: int = 0
        self.first_kept: int = 1
        self.whole: bool = True                 # nothing that lives is missing below the log's first entry
        self.lost_in: int = 0                   # the leader's: the last epoch whose leader ended by name what it did not have
        # following
        self.nonce: int = 0
        self.settled: bool = False              # in this epoch, in line with the predecessor
        self.follow_at: float = NEVER
        self.has_parted: bool = False           # outside, and the leader has said that nothing is only in this log
        # marks, of this epoch
        self.mark_durable: int = 0
        self.mark_received: int = 0
        self.sent_durable: int = -1
        self.sent_received: int = -1
        self.stable: int = 0                    # known: durable at every ring member
        self.stable_received: int = 0
        self.answered: int = 0                  # the leader's last Stable
        self.answered_received: int = 0
        self.noted: int = 0                     # the last stable index that was sent along
        self.note_at: float = NEVER
        # feeding
        self.sessions: dict[str, Session] = {}
        self.waiting: dict[str, Follow] = {}    # requests to follow for which it is too early
        self.gathered: int = 0                  # the leader's: the first entry that it keeps back for a while, 0: none
        self.gather_until: float = NEVER
        self.held: list[HeldPiece] = []         # pieces of a full sync that wait until what they show is stable
        # the neighbourhood
        self.linked: set[str] = set()
        self.alone_at: float = NEVER            # when the last link was lost
        self.link_lost_at: float = -NEVER       # when any was
        self.peers_barred: dict[str, int] = {}
        self.peers_empty: dict[str, int] = {}   # those of them that have lost their copy
        self.store_reachable: bool = True
        self.proposal: View | None = None
        self.proposed_at: float = 0.0
        self.desired: Desired | None = None
        self.sentence: str = ""
        self.accepts: bool = False
        # the leader's
        self.learner_marks: dict[str, Standpoint] = {}
        self.floor: int = 0                     # its end when it took over: all of that may have been stable
        self.joining: str = ""                  # a learner whose mark counts like a ring member's
        self.joining_since: float = 0.0
        self.join_proposed: bool = False
        self.deserted: bool = False             # only where a rule is switched off: counts as though the swap had been made
        self.missing: dict[str, tuple[str, ...]] = {}   # who has said that it cannot reach whom
        self.leaving: set[str] = set()
        self.slow: dict[str, float] = {}        # put out for being slow, until when
        self.stalled_at: float = NEVER          # entries have waited without progress since
        self.probed_at: float = NEVER
        self.waiting_since: float = NEVER       # the same, over any number of probes and of the epochs that it leads
        self.alike: set[str] = set()            # whose states were found equal in this epoch, and not equal
        self.differing: set[str] = set()
        self.differed_at: dict[str, float] = {}
        self.compare_until: float = NEVER       # a comparison is under way, and until when
        self.compare_at: float = NEVER          # when the ring is compared next
        self.my_sum: SumTaken | None = None     # what has come of it: of this node, of others that were `asked`
        self.sums: dict[str, TellSum] = {}
        self.asked: set[str] = set()
        self.statuses: dict[str, int] = {}
        self.head: int = 0
        self.handing: bool = False
        self.handing_to: str = ""
        self.handing_leave: bool = False
        self.handing_until: float = NEVER
        self.hand_again_at: float = 0.0
        self.stopping: bool = False             # this node is about to stop
        # the candidate's
        self.orphaned_at: float = NEVER         # when nobody before it in the line could be seen any more
        # the learner's full sync
        self.sync_order: int = 0                # the leader's: an operator has asked for it (1), or cancelled it (-1)
        self.sync_told: set[str] = set()        # the leader's: learners that have heard of it in this epoch
        self.sync_asked: bool = False
        self.sync_cancelled: bool = False
        self.fill_base: int = 0                 # the base that the position below belongs to
        self.fill_position: int = 0
        self.fill_busy: bool = False
        self.nonce_of_fill: int = 0
        self.fill_at: float = 0.0               # not before: the rate limit
        self.fill_until: float = NEVER          # a piece that has not come by then is asked for again

    @property
    def end(self) -> int:
        return self.lineage.end

    @property
    def handed(self) -> int:
        """The last entry that the mirrors may have."""
        return self.gathered - 1 if self.gathered else self.lineage.end

    @property
    def is_last(self) -> bool:
        return self.role != LEARNER and self.position >= 0 and self.position == len(self.view.ring) - 1

    @property
    def wants_head(self) -> bool:
        """The leader has learners that may come into sync as their missing head is consumed."""
        return self.role == LEADER and len(self.view.learners) > 0

    def send(self, to: str, message: Message) -> None:
        if to in self.linked:
            self.out.append(Send(to, message))

    def is_barred(self, node: str) -> bool:
        """Has it restarted since this epoch began?"""
        return self.peers_barred.get(node, 0) >= self.epoch

    def is_empty(self, node: str) -> bool:
        """Has it lost its copy, although it counts as in sync?"""
        return self.peers_empty.get(node, 0) >= self.epoch

    @property
    def i_am_barred(self) -> bool:
        return self.barred >= self.epoch

    @property
    def is_just_alone(self) -> bool:
        """It may be this node that is cut off: those who see each other decide first."""
        return self.now < self.alone_at + ALONE and self.alone_at != NEVER

    def __repr__(self) -> str:
        return (
            f"<{self.me} {ROLES[self.role]} in {self.view} log {self.lineage} durable {self.durable} stable {self.stable}"
            f"{'' if self.settled else ' unsettled'}{'' if self.whole else ' partial'}>"
        )
