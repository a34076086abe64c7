"""What a machine is told. The first four are hot: they come once for each batch. Compiled."""

from __future__ import annotations

from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.messages import Message
from mirrormq.mirror.machine.records import Batch, Desired, View


class Input:
    """Any of them."""

    def __repr__(self) -> str:
        return type(self).__name__


class Appended(Input):
    """The leader's node has sealed a batch and put it into its own log."""

    __slots__ = ("batch",)

    def __init__(self, batch: Batch) -> None:
        self.batch: Batch = batch

    def __repr__(self) -> str:
        return f"Appended({self.batch})"


class Received(Input):
    """A message from another node's machine of this queue."""

    __slots__ = ("message", "sender")

    def __init__(self, sender: str, message: Message) -> None:
        self.sender: str = sender
        self.message: Message = message

    def __repr__(self) -> str:
        return f"{self.sender}: {self.message}"


class Durable(Input):
    """The node's group commit has passed: the log is on disk up to `index`, as it was in that generation (see Append)."""

    __slots__ = ("generation", "index")

    def __init__(self, index: int, generation: int) -> None:
        self.index: int = index
        self.generation: int = generation

    def __repr__(self) -> str:
        return f"Durable({self.index} generation {self.generation})"


class LogRead(Input):
    """The answer to ReadLog: batches that start exactly where it asked, or none: the entries are gone."""

    __slots__ = ("batches", "nonce", "to")

    def __init__(self, to: str, nonce: int, batches: list[Batch]) -> None:
        self.to: str = to
        self.nonce: int = nonce
        self.batches: list[Batch] = batches

    def __repr__(self) -> str:
        return f"LogRead(for {self.to}: {self.batches})"


class Started(Input):
    """The node has opened its log; the first input. `view` is what the store says now.

    fresh: the queue has never been held here, and that is right: it was created, or this mirror was added, just now.
    amnesiac: it should have been held here and is not: the disk was lost, or the copy is damaged. Such a member never leads by
    itself.
    """

    __slots__ = ("amnesiac", "fresh", "lineage", "view", "whole")

    def __init__(self, view: View, lineage: Lineage, whole: bool, fresh: bool, amnesiac: bool = False) -> None:
        self.view: View = view
        self.lineage: Lineage = lineage
        self.whole: bool = whole
        self.fresh: bool = fresh
        self.amnesiac: bool = amnesiac

    def __repr__(self) -> str:
        return f"Started({self.view} {self.lineage})"


class ViewSeen(Input):
    """The store holds this view: by the watch, or as the answer to a proposal, won or lost."""

    __slots__ = ("view",)

    def __init__(self, view: View) -> None:
        self.view: View = view

    def __repr__(self) -> str:
        return f"ViewSeen({self.view})"


class ProposalFailed(Input):
    """Nobody knows whether the proposal came to the store."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch


class StoreReachable(Input):
    """The store has gone, or is back."""

    __slots__ = ("reachable",)

    def __init__(self, reachable: bool) -> None:
        self.reachable: bool = reachable


class LinkUp(Input):
    __slots__ = ("node",)

    def __init__(self, node: str) -> None:
        self.node: str = node

    def __repr__(self) -> str:
        return f"LinkUp({self.node})"


class LinkDown(Input):
    __slots__ = ("node",)

    def __init__(self, node: str) -> None:
        self.node: str = node

    def __repr__(self) -> str:
        return f"LinkDown({self.node})"


class Tick(Input):
    """`wake_at` has come."""


class SetDesired(Input):
    __slots__ = ("desired",)

    def __init__(self, desired: Desired) -> None:
        self.desired: Desired = desired

    def __repr__(self) -> str:
        return f"SetDesired({self.desired})"


class Trimmed(Input):
    """The log starts at `first` from now on; what is before it can no longer be read."""

    __slots__ = ("first",)

    def __init__(self, first: int) -> None:
        self.first: int = first


class Head(Input):
    """The leader's oldest live message has this index (its end + 1 where the queue is empty). Told while `wants_head`."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index: int = index


class HandOver(Input):
    """Give leadership to that ring member, or to the next one. leave: this node stops, it does not stay in the ring."""

    __slots__ = ("leave", "to")

    def __init__(self, to: str, leave: bool) -> None:
        self.to: str = to
        self.leave: bool = leave

    def __repr__(self) -> str:
        return f"HandOver(to {self.to or 'any'}{', leaving' if self.leave else ''})"


class ForceLead(Input):
    """An operator says that this node leads with what it has."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why: str = why


class Sync(Input):
    """An operator starts or cancels full sync. Given to the leader."""

    __slots__ = ("on",)

    def __init__(self, on: bool) -> None:
        self.on: bool = on


class BackfillRead(Input):
    """The answer to ReadBackfill, read from the state that the log had when it ended at `upto`."""

    __slots__ = ("base", "data", "done", "next", "nonce", "to", "upto")

    def __init__(self, to: str, nonce: int, base: int, next: int, data: bytes, done: bool, upto: int) -> None:
        self.to: str = to
        self.nonce: int = nonce
        self.base: int = base
        self.next: int = next
        self.data: bytes = data
        self.done: bool = done
        self.upto: int = upto


class SumTaken(Input):
    """The answer to TakeSum: the log folded up to `index` has so many persistent messages of so many bytes, and this checksum of
    what is live; -1 where that is not known."""

    __slots__ = ("count", "index", "size", "sum")

    def __init__(self, index: int, count: int, size: int, sum: int) -> None:
        self.index: int = index
        self.count: int = count
        self.size: int = size
        self.sum: int = sum


class PieceInstalled(Input):
    """The piece is on disk."""

    __slots__ = ("base", "done", "next")

    def __init__(self, base: int, next: int, done: bool) -> None:
        self.base: int = base
        self.next: int = next
        self.done: bool = done
