"""What a machine asks of its node, to be done in this order and before the next input. Compiled."""

from __future__ import annotations

from mirrormq.mirror.machine.messages import Message
from mirrormq.mirror.machine.records import Batch, View


class Effect:
    """Any of them."""

    def __repr__(self) -> str:
        return type(self).__name__


class Append(Effect):
    """Put the batch at the end of the log and sync it; then say Durable with the same generation."""

    __slots__ = ("batch", "generation")

    def __init__(self, batch: Batch, generation: int) -> None:
        self.batch: Batch = batch
        self.generation: int = generation

    def __repr__(self) -> str:
        return f"Append({self.batch})"


class Send(Effect):
    """Over the link to that node. Where there is no link any more it is dropped."""

    __slots__ = ("message", "to")

    def __init__(self, to: str, message: Message) -> None:
        self.to: str = to
        self.message: Message = message

    def __repr__(self) -> str:
        return f"Send(to {self.to}: {self.message})"


class Stable(Effect):
    """The leader's: what waits for entries up to `durable` (or, transient, up to `received`) is answered now.

    enough: the ring has as many members as the policy asks for; otherwise publishes are refused, and all else is answered.
    """

    __slots__ = ("durable", "enough", "received")

    def __init__(self, durable: int, received: int, enough: bool) -> None:
        self.durable: int = durable
        self.received: int = received
        self.enough: bool = enough

    def __repr__(self) -> str:
        return f"Stable({self.durable} received {self.received})"


class CutTail(Effect):
    """Put what is behind `keep` into quarantine and cut it off the log. Later Durables carry the new generation."""

    __slots__ = ("generation", "keep", "why")

    def __init__(self, keep: int, generation: int, why: str) -> None:
        self.keep: int = keep
        self.generation: int = generation
        self.why: str = why

    def __repr__(self) -> str:
        return f"CutTail(keep {self.keep})"


class BeginAt(Effect):
    """Set aside what the log holds and start it anew at `first`; the entry before it was of epoch `before`. Unless `why` is
    empty, the leader never had what is behind `keep`, and that goes into quarantine."""

    __slots__ = ("before", "differs", "first", "generation", "keep", "why")

    def __init__(self, first: int, before: int, generation: int, differs: bool = False, keep: int = 0, why: str = "") -> None:
        self.first: int = first
        self.keep: int = keep
        self.why: str = why
        self.differs: bool = differs        # what it held was found to be another state than the leader's
        self.before: int = before
        self.generation: int = generation

    def __repr__(self) -> str:
        return f"BeginAt({self.first})"


class TakeSum(Effect):
    """Say SumTaken when the log is folded up to that index, or at once where it is folded further."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index: int = index

    def __repr__(self) -> str:
        return f"TakeSum({self.index})"


class Compared(Effect):
    """The leader's state and that of another copy, both as of this index, are the same or not. The counts are of messages."""

    __slots__ = ("are_equal", "index", "mine", "node", "theirs")

    def __init__(self, node: str, are_equal: bool, index: int, mine: int, theirs: int) -> None:
        self.node: str = node
        self.are_equal: bool = are_equal
        self.index: int = index
        self.mine: int = mine
        self.theirs: int = theirs

    def __repr__(self) -> str:
        return f"Compared({self.node} {'equal' if self.are_equal else 'differs'} at {self.index})"


class KeepLive(Effect):
    """This log is about to go, and whoever took over by force in that epoch did not have everything (0: nobody did). If the log
    does not know what was ended then, what is live in it may be nowhere else: put it into quarantine."""

    __slots__ = ("lost_in",)

    def __init__(self, lost_in: int) -> None:
        self.lost_in: int = lost_in

    def __repr__(self) -> str:
        return f"KeepLive({self.lost_in})"


class ReadLog(Effect):
    """Read batches from `first` on, about `limit` bytes of them but at least one, for that node; answer LogRead."""

    __slots__ = ("first", "limit", "nonce", "to")

    def __init__(self, to: str, nonce: int, first: int, limit: int) -> None:
        self.to: str = to
        self.nonce: int = nonce
        self.first: int = first
        self.limit: int = limit

    def __repr__(self) -> str:
        return f"ReadLog(for {self.to} from {self.first})"


class ReadBackfill(Effect):
    """Read live messages with position <= index < base, in order, about `limit` bytes of them, from the state that the log has
    now; answer BackfillRead. When none is left, the answer says done and holds the queue's other state too."""

    __slots__ = ("base", "limit", "nonce", "position", "to")

    def __init__(self, to: str, nonce: int, base: int, position: int, limit: int) -> None:
        self.to: str = to
        self.nonce: int = nonce
        self.base: int = base
        self.position: int = position
        self.limit: int = limit


class InstallPiece(Effect):
    """Keep these messages below the log's first entry; say PieceInstalled when they are durable. done: fold the log over them."""

    __slots__ = ("base", "data", "done", "next")

    def __init__(self, base: int, next: int, data: bytes, done: bool) -> None:
        self.base: int = base
        self.next: int = next
        self.data: bytes = data
        self.done: bool = done


class ProposeView(Effect):
    """Swap the view in the store if its epoch is view.epoch - 1. Say ViewSeen with what is there then, or ProposalFailed."""

    __slots__ = ("view",)

    def __init__(self, view: View) -> None:
        self.view: View = view

    def __repr__(self) -> str:
        return f"ProposeView({self.view}: {self.view.reason})"


class BecameLeader(Effect):
    """Fold the log to its end, seal further batches in this epoch, serve. forced: what the ring had confirmed may be missing.
    restarted: this node has followed nobody since it came up, so nobody who is known has kept what is transient."""

    __slots__ = ("epoch", "forced", "restarted", "why")

    def __init__(self, epoch: int, why: str, forced: bool, restarted: bool) -> None:
        self.epoch: int = epoch
        self.why: str = why
        self.forced: bool = forced
        self.restarted: bool = restarted

    def __repr__(self) -> str:
        return f"BecameLeader({self.epoch}: {self.why})"


class NewEpoch(Effect):
    """The leader goes on: batches are sealed in this epoch from now on."""

    __slots__ = ("epoch", "why")

    def __init__(self, epoch: int, why: str) -> None:
        self.epoch: int = epoch
        self.why: str = why

    def __repr__(self) -> str:
        return f"NewEpoch({self.epoch}: {self.why})"


class SteppedDown(Effect):
    """Serve no longer. Who waits for an answer is sent on to the new leader, not answered."""

    __slots__ = ("epoch", "why")

    def __init__(self, epoch: int, why: str) -> None:
        self.epoch: int = epoch
        self.why: str = why

    def __repr__(self) -> str:
        return f"SteppedDown({self.epoch}: {self.why})"


class Hold(Effect):
    """Seal no batches for now: the leader drains for a hand-over. Off: go on."""

    __slots__ = ("on",)

    def __init__(self, on: bool) -> None:
        self.on: bool = on

    def __repr__(self) -> str:
        return f"Hold({self.on})"


class Standing(Effect):
    """Whether this node takes publishes for the queue, and a sentence that says how things stand. Only when it changes."""

    __slots__ = ("accepts", "sentence")

    def __init__(self, accepts: bool, sentence: str) -> None:
        self.accepts: bool = accepts
        self.sentence: str = sentence

    def __repr__(self) -> str:
        return f"Standing({'accepts' if self.accepts else 'refuses'}: {self.sentence})"


class Released(Effect):
    """The queue is no longer held here: its log may go. After HandOver(leave): this node may stop."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why: str = why

    def __repr__(self) -> str:
        return f"Released({self.why})"
