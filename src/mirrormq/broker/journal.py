"""What the broker asks of the store in which all metadata is agreed: proposals, and the channels that wait for them.

Rules
 1. The broker never changes what exists by itself. It proposes; the node asks the store; what the store accepted
    comes back through `Records.apply`, on this node as on every other, in the order of the store.
 2. A proposal holds or fails as a whole: what it needs to be absent, present or unchanged is checked in the same transaction.
 3. One that failed because the world had changed is no error: the operation is run again and decides on the newer world.
 4. A stubborn proposal cleans up (a queue whose owner left). It is repeated until the store takes it, and nobody hears of delays.
    One that failed is made again when something else is known, never on the same world at once.
 5. The store takes proposals of a limited size. What is larger is sliced: `Slices` are made together, a `sequel` after another.
"""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final

from mirrormq.broker.metadata import Record
from mirrormq.wire.errors import ChannelError

if TYPE_CHECKING:
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.queue import Queue
    from mirrormq.wire.methods import Method

WAITS: Final = 0
HELD: Final = 1         # accepted, and this node's copy has it
LOST: Final = 2         # what it was based on had changed
UNHEARD: Final = 3      # the store could not be reached; `text` says more
MOST: Final = 100       # conditions, and writes, of one proposal; no store takes many more
LARGEST: Final = 500_000    # characters of the names and texts that it writes


class Unavailable(ChannelError):
    """What must be agreed in the cluster cannot be now. The connection goes on: its other channels need no agreement."""

    code: ClassVar[int] = 541
    name: ClassVar[str] = "INTERNAL_ERROR"


class Write:
    """`text` None deletes. A leased one goes with the node `home`; empty: with the one that wrote it."""

    def __init__(self, name: str, text: str | None, *, leased: bool = False, home: str = "") -> None:
        self.name: str = name
        self.text: str | None = text
        self.leased: bool = leased
        self.home: str = home


class Proposal:
    def __init__(self, *, is_stubborn: bool = False) -> None:
        self.number: int = 0
        self.absent: list[str] = []
        self.present: list[str] = []
        self.unchanged: list[tuple[str, int]] = []
        self.same: list[tuple[str, str]] = []       # what must have these texts
        self.writes: list[Write] = []
        self.prefixes: list[str] = []       # everything whose name begins so is deleted
        self.is_stubborn: bool = is_stubborn
        self.ending: Queue | None = None    # the queue whose end a stubborn one proposes
        self.restating: Queue | None = None     # the queue whose record a lease took, and which it says again
        self.is_void: bool = False          # it was lost, and there is no record of that queue
        self.owned: int = 0                 # the id of the exclusive queue that it makes
        self.sequel: Proposal | None = None     # is proposed when this one is decided
        self.world: int = 0                 # how often the copy had changed when it was made
        self.size: int = 0
        self.state: int = WAITS
        self.text: str = ""

    def put(self, name: str, record: Record, *, leased: bool = False, home: str = "") -> None:
        text = json.dumps(record, ensure_ascii=True)
        self.writes.append(Write(name, text, leased=leased, home=home))
        self.size += len(name) + len(text)

    def delete(self, name: str) -> None:
        self.writes.append(Write(name, None))
        self.size += len(name)

    def has_room(self, conditions: int, writes: int) -> bool:
        given = len(self.absent) + len(self.present) + len(self.unchanged) + len(self.same)
        return given + conditions <= MOST and len(self.writes) + len(self.prefixes) + writes <= MOST and self.size < LARGEST


class Slices:
    """One proposal, or as many as it takes. Whoever fills them sees to it that each can hold without the others."""

    def __init__(self, *, is_stubborn: bool = False) -> None:
        self.is_stubborn: bool = is_stubborn
        self.proposals: list[Proposal] = [Proposal(is_stubborn=is_stubborn)]

    def room(self, conditions: int, writes: int) -> Proposal:
        """Where so much more has its place."""
        last = self.proposals[-1]
        if not last.has_room(conditions, writes):
            last = Proposal(is_stubborn=self.is_stubborn)
            self.proposals.append(last)
        return last


class Awaiting:
    """A channel that waits for the proposals `first` to `last`; `method` is what it was doing."""

    def __init__(self, first: int, last: int, channel: Channel, reply: Method | None, method: Method, *, again: bool) -> None:
        self.first: int = first
        self.last: int = last
        self.until: int = last              # what it waits for may be proposed once more, later
        self.channel: Channel = channel
        self.reply: Method | None = reply
        self.method: Method = method
        self.again: bool = again            # run the method again even if everything held: its answer depends on the outcome


class Afterwards:
    """Something that happens when the proposals `first` to `last` are decided, and the other nodes know it or have had time for
    it. The end of a queue that was lost and is proposed once more counts as not decided."""

    def __init__(self, first: int, last: int) -> None:
        self.first: int = first
        self.last: int = last

    def happen(self) -> None:
        raise NotImplementedError


class Journal:
    """Proposals not yet given to the node, and how far they have been settled, in their order."""

    def __init__(self) -> None:
        self.proposals: list[Proposal] = []
        self.written: int = 0
        self.settled: int = 0
        self.failed: dict[int, Proposal] = {}       # of those that somebody may still ask for
        self.world: int = 0                         # grows whenever this node's copy has changed

    def propose(self, proposal: Proposal) -> None:
        self.written += 1
        proposal.number = self.written
        proposal.world = self.world
        self.proposals.append(proposal)

    def propose_all(self, slices: Slices) -> None:
        for proposal in slices.proposals:
            self.propose(proposal)

    def put(self, name: str, record: Record) -> None:
        proposal = Proposal()
        proposal.put(name, record)
        self.propose(proposal)

    def delete(self, name: str) -> None:
        proposal = Proposal()
        proposal.delete(name)
        self.propose(proposal)

    def take(self) -> list[Proposal]:
        proposals = self.proposals
        self.proposals = []
        return proposals

    def failures(self, first: int, last: int) -> list[Proposal]:
        if not self.failed:
            return []
        return [self.failed[number] for number in range(first, last + 1) if number in self.failed]
