"""What machines of one queue say to each other. Each message carries the epoch it belongs to. Compiled.

Links keep the order of what is sent over one connection, and lose it all when the connection ends.
"""

from __future__ import annotations

from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import Batch


class Message:
    """Any of them."""

    __slots__ = ("epoch",)

    def __init__(self, epoch: int) -> None:
        self.epoch: int = epoch

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.epoch})"


class Entries(Message):
    """To the successor and to learners: a batch, and how far the ring is stable."""

    __slots__ = ("batch", "nonce", "stable", "stable_received")

    def __init__(self, epoch: int, nonce: int, batch: Batch, stable: int, stable_received: int) -> None:
        super().__init__(epoch)
        self.nonce: int = nonce
        self.batch: Batch = batch
        self.stable: int = stable
        self.stable_received: int = stable_received

    def __repr__(self) -> str:
        return f"Entries({self.epoch} {self.batch} nonce {self.nonce})"


class Mark(Message):
    """Everything up to here is durable (and received) at the sender and at all members before it.

    A learner's mark is its own: durable, received, and whether it holds everything below (`whole`) or starts behind `base`.
    """

    __slots__ = ("base", "durable", "filled", "received", "whole")

    def __init__(self, epoch: int, durable: int, received: int, whole: bool, base: int, filled: int = 0) -> None:
        super().__init__(epoch)
        self.durable: int = durable
        self.received: int = received
        self.whole: bool = whole
        self.base: int = base
        self.filled: int = filled           # of what lies below `base`, up to where it has come

    def __repr__(self) -> str:
        return f"Mark({self.epoch} durable {self.durable} received {self.received}{'' if self.whole else f' from {self.base}'})"


class AskMark(Message):
    """The leader to the last member and to learners: where do you stand? It has just come to this epoch, or to this link."""


class Follow(Message):
    """To the predecessor: this is my log, go on from there."""

    __slots__ = ("lineage", "nonce", "whole")

    def __init__(self, epoch: int, nonce: int, lineage: Lineage, whole: bool) -> None:
        super().__init__(epoch)
        self.nonce: int = nonce
        self.lineage: Lineage = lineage
        self.whole: bool = whole

    def __repr__(self) -> str:
        return f"Follow({self.epoch} nonce {self.nonce} {self.lineage})"


class Followed(Message):
    """The answer: keep up to `keep`, cut off the rest. If begin > keep + 1, what is between is not to be had: start there."""

    __slots__ = ("begin", "begin_epoch", "keep", "nonce", "stable", "stable_received")

    def __init__(
        self, epoch: int, nonce: int, keep: int, begin: int, begin_epoch: int, stable: int, stable_received: int
    ) -> None:
        super().__init__(epoch)
        self.nonce: int = nonce
        self.keep: int = keep
        self.begin: int = begin
        self.begin_epoch: int = begin_epoch     # of the entry before `begin`; for who is in the view no more, State.lost_in
        self.stable: int = stable
        self.stable_received: int = stable_received

    def __repr__(self) -> str:
        return f"Followed({self.epoch} nonce {self.nonce} keep {self.keep} begin {self.begin})"


class FollowAgain(Message):
    """To a learner: what it needs was there when it asked, and is gone now."""


class Barred(Message):
    """I have restarted and may not act in this epoch; a new one is needed before I go on. `is_empty`: and my copy is lost."""

    __slots__ = ("is_empty",)

    def __init__(self, epoch: int, is_empty: bool) -> None:
        super().__init__(epoch)
        self.is_empty: bool = is_empty


class Reach(Message):
    """To the leader: these holders of the queue I cannot reach."""

    __slots__ = ("missing",)

    def __init__(self, epoch: int, missing: tuple[str, ...]) -> None:
        super().__init__(epoch)
        self.missing: tuple[str, ...] = missing


class Leaving(Message):
    """To the leader: I am about to stop, put me out of the ring."""


class AskStatus(Message):
    """The leader to its ring, which makes no progress."""


class Status(Message):
    """The answer: what the sender itself holds."""

    __slots__ = ("durable", "received")

    def __init__(self, epoch: int, durable: int, received: int) -> None:
        super().__init__(epoch)
        self.durable: int = durable
        self.received: int = received


class StableNote(Message):
    """Along the ring where no entries follow that would carry it."""

    __slots__ = ("stable", "stable_received")

    def __init__(self, epoch: int, stable: int, stable_received: int) -> None:
        super().__init__(epoch)
        self.stable: int = stable
        self.stable_received: int = stable_received


class SyncAsked(Message):
    """The leader to its learners: an operator starts or cancels the full sync; or, drained: nothing older is left to copy."""

    __slots__ = ("drained_to", "on")

    def __init__(self, epoch: int, on: bool, drained_to: int = 0) -> None:
        super().__init__(epoch)
        self.on: bool = on
        self.drained_to: int = drained_to


class AskSum(Message):
    """The leader to a member or learner: what does your log come to at this index?"""

    __slots__ = ("index",)

    def __init__(self, epoch: int, index: int) -> None:
        super().__init__(epoch)
        self.index: int = index


class TellSum(Message):
    """The answer, at this index or where the sender has come further: see inputs.SumTaken."""

    __slots__ = ("count", "index", "size", "sum")

    def __init__(self, epoch: int, index: int, count: int, size: int, sum: int) -> None:
        super().__init__(epoch)
        self.index: int = index
        self.count: int = count
        self.size: int = size
        self.sum: int = sum


class TakeAnew(Message):
    """The leader to a learner: your copy differs from mine, set it aside and take it anew."""


class PieceWanted(Message):
    """A learner to a ring member: the live messages from `position` on that lie before `base`, about `limit` bytes of them."""

    __slots__ = ("base", "limit", "nonce", "position")

    def __init__(self, epoch: int, nonce: int, base: int, position: int, limit: int) -> None:
        super().__init__(epoch)
        self.nonce: int = nonce
        self.base: int = base
        self.position: int = position
        self.limit: int = limit


class Piece(Message):
    """The answer. `next` is the position behind it; `done`: nothing is left before base, and the queue's other state is in it."""

    __slots__ = ("base", "data", "done", "next", "nonce")

    def __init__(self, epoch: int, nonce: int, base: int, next: int, data: bytes, done: bool) -> None:
        super().__init__(epoch)
        self.nonce: int = nonce
        self.base: int = base
        self.next: int = next
        self.data: bytes = data
        self.done: bool = done
