"""What is agreed about a queue, and what is moved: views, batches, wishes. Compiled."""

from __future__ import annotations


class View:
    """Who holds the queue. It lives in the coordination store and changes only by compare-and-swap, from epoch n to n + 1.

    ring: the in-sync members, leader first, each behind its predecessor in order of joining.
    learners: mirrors that are not in sync, oldest first.
    stopped: the leader was stopped on purpose and nobody could take over.
    forced: the leader was not in sync when it took over; `reason` says why it is allowed to.
    wish: the newest policy (by its revision in the store) that has been acted on; who knows only an older one does not act on it.
    """

    __slots__ = ("epoch", "forced", "learners", "reason", "ring", "stopped", "wish")

    def __init__(
        self, epoch: int, ring: tuple[str, ...], learners: tuple[str, ...] = (), reason: str = "",
        stopped: bool = False, forced: bool = False, wish: int = 0,
    ) -> None:
        self.epoch: int = epoch
        self.ring: tuple[str, ...] = ring
        self.learners: tuple[str, ...] = learners
        self.reason: str = reason
        self.stopped: bool = stopped
        self.forced: bool = forced
        self.wish: int = wish

    def holds(self, node: str) -> bool:
        return node in self.ring or node in self.learners

    def __repr__(self) -> str:
        marks = " stopped" * self.stopped + " forced" * self.forced
        return f"View({self.epoch} {'>'.join(self.ring)} +{','.join(self.learners)}{marks})"


class Batch:
    """One sealed chunk of the queue's log. `epoch` is the one it was written in; `data` is opaque here.

    waits: somebody waits until it is received, because it holds transient messages.
    """

    __slots__ = ("count", "data", "epoch", "first", "waits")

    def __init__(self, epoch: int, first: int, count: int, data: bytes, waits: bool = False) -> None:
        self.epoch: int = epoch
        self.first: int = first
        self.count: int = count
        self.data: bytes = data
        self.waits: bool = waits

    @property
    def last(self) -> int:
        return self.first + self.count - 1

    def __repr__(self) -> str:
        return f"{self.epoch}:{self.first}-{self.last}"


class Desired:
    """What the policy wants of the queue, as of now. Every node works it out and gives it to its machine; the leader acts on it.

    members: who should hold it. leader: who should lead, "" if nobody in particular. order: names from the most preferred leader,
    for when the lead is given away; nobody loses it because of them. gather: seconds for which entries may be kept back from the
    mirrors, where replication is asynchronous. revision: of the store, grows.
    """

    __slots__ = (
        "asynchronous", "automatic", "gather", "leader", "members", "min_in_sync", "order", "promote_after_crash",
        "promote_after_stop", "rate", "revision",
    )

    def __init__(
        self, members: tuple[str, ...], leader: str = "", automatic: bool = True, min_in_sync: int = 1,
        asynchronous: bool = False, promote_after_crash: bool = False, promote_after_stop: bool = False, rate: int = 0,
        revision: int = 0, order: tuple[str, ...] = (), gather: float = 0.0,
    ) -> None:
        self.members: tuple[str, ...] = members
        self.leader: str = leader
        self.order: tuple[str, ...] = order
        self.automatic: bool = automatic
        self.min_in_sync: int = min_in_sync
        self.asynchronous: bool = asynchronous
        self.promote_after_crash: bool = promote_after_crash
        self.promote_after_stop: bool = promote_after_stop
        self.rate: int = rate               # bytes a second of a full sync, 0: no limit
        self.revision: int = revision
        self.gather: float = gather if asynchronous else 0.0

    def __repr__(self) -> str:
        return f"Desired({','.join(self.members)} leader={self.leader or 'any'} {'auto' if self.automatic else 'manual'})"
