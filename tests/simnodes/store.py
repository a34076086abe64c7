"""The coordination store of a simulated cluster: one set of items, and a port to it for each node.

It keeps the rules of the port. What it may do to its callers: be away for a while, for all or for one node; lose an answer after
its write has happened, or let the write happen after the caller was told that nobody knows; tell of changes late; forget old
changes, so that a watch begins anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mirrormq.cluster.coordination import (
    Absent,
    Change,
    Changes,
    Closed,
    Coordination,
    CoordinationError,
    Delete,
    Item,
    LeaseGone,
    Outcome,
    OutcomeUnknown,
    Present,
    Put,
    Reachability,
    Reset,
    Snapshot,
    Transaction,
    Unchanged,
    Unreachable,
    Watch,
)
from mirrormq.cluster.coordination.port import Compare, check

if TYPE_CHECKING:
    from simnodes.loop import SimLoop
    from simnodes.world import World

CALL = 3.0
PROBE = 1.0


class Server:
    def __init__(self, world: World) -> None:
        self.world = world
        self.revision = 1
        self.items: dict[str, Item] = {}
        self.history: deque[tuple[int, tuple[Change, ...]]] = deque()
        self.compacted = 1
        self.leases: dict[int, tuple[float, float]] = {}        # when it goes, and its time to live
        self.is_away = False
        self.cut_off: dict[str, None] = {}                      # hosts that do not reach it
        self.watches: list[SimWatch] = []
        self.lag = 0.0005
        self.loses_answers = 0.0
        self._leases_given = 100

    # --- reachability ------------------------------------------------------------------------------------------------

    def is_there_for(self, host: str) -> bool:
        return not self.is_away and host not in self.cut_off

    def lose(self, host: str = "") -> None:
        if host:
            self.cut_off[host] = None
        else:
            self.is_away = True

    def heal(self, host: str = "") -> None:
        if host:
            self.cut_off.pop(host, None)
        else:
            self.is_away = False
            now = self.world.now
            extra = self.world.rng.choice([0.0, 1.0])           # a new leader of the store gives all leases their time again
            self.leases = {lease: (max(goes, now + extra * ttl), ttl) for lease, (goes, ttl) in self.leases.items()}
            self._expire()
        if self.world.rng.random() < 0.3:
            self.history.clear()
            self.compacted = self.revision
        for watch in self.watches:
            watch.look_soon()

    # --- what is there -----------------------------------------------------------------------------------------------

    def snapshot(self, prefix: str) -> Snapshot:
        items = sorted((key, item) for key, item in self.items.items() if key.startswith(prefix))
        return Snapshot(self.revision, dict(items))

    def transact(self, transaction: Transaction) -> Outcome | CoordinationError:
        if not all(self._holds(compare) for compare in transaction.compares):
            found = {compare.key: self.items[compare.key] for compare in transaction.compares if compare.key in self.items}
            return Outcome(False, self.revision, found)
        for write in transaction.writes:
            if isinstance(write, Put) and write.lease and write.lease not in self.leases:
                return LeaseGone(f"the lease {write.lease} is gone")
        changes: dict[str, Item | None] = {}
        for write in transaction.writes:
            if isinstance(write, Put):
                changes[write.key] = Item(write.value, self.revision + 1, write.lease)
            elif isinstance(write, Delete):
                if write.key in self.items:
                    changes[write.key] = None
            else:
                changes |= dict.fromkeys(sorted(key for key in self.items if key.startswith(write.prefix)))
        if changes:
            self._change(changes)
        return Outcome(True, self.revision)

    def _holds(self, compare: Compare) -> bool:
        item = self.items.get(compare.key)
        if isinstance(compare, Absent):
            return item is None
        if isinstance(compare, Present):
            return item is not None
        if isinstance(compare, Unchanged):
            return compare.revision == (0 if item is None else item.revision)
        return item is not None and item.value == compare.value

    def _change(self, changes: dict[str, Item | None]) -> None:
        self.revision += 1
        for key, item in changes.items():
            if item is None:
                del self.items[key]
            else:
                self.items[key] = item
        self.history.append((self.revision, tuple(Change(key, item) for key, item in changes.items())))
        self.world.note("store", f"revision {self.revision}: "
                        + ", ".join(f"{key}{'' if item else ' gone'}" for key, item in changes.items()))
        self.world.store_changed(changes)
        for watch in self.watches:
            watch.look_soon()

    # --- leases ------------------------------------------------------------------------------------------------------

    def grant(self, ttl: int) -> int:
        self._leases_given += 1
        self.leases[self._leases_given] = (self.world.now + ttl, ttl)
        self.world.later(ttl + 0.01, self._expire)
        return self._leases_given

    def keep_alive(self, lease: int) -> float | CoordinationError:
        if lease not in self.leases:
            return LeaseGone(f"the lease {lease} is gone")
        ttl = self.leases[lease][1]
        self.leases[lease] = (self.world.now + ttl, ttl)
        self.world.later(ttl + 0.01, self._expire)
        return ttl

    def revoke(self, lease: int) -> None:
        if self.leases.pop(lease, None) is not None:
            gone = sorted(key for key, item in self.items.items() if item.lease == lease)
            if gone:
                self._change(dict.fromkeys(gone))

    def _expire(self) -> None:
        if self.is_away:
            return
        for lease, (goes, _) in list(self.leases.items()):
            if goes <= self.world.now:
                self.world.note("store", f"lease {lease} has run out")
                self.revoke(lease)


class Call:
    """One question: on its way, decided, and on its way back. While the store is not there it stands still."""

    def __init__(self, server: Server, loop: SimLoop, work: Callable[[], Any], *, writes: bool) -> None:
        self.future: asyncio.Future[Any] = loop.create_future()
        self.is_given_up = False        # it never happens, unless it has
        self._server = server
        self._loop = loop
        self._work = work
        self._writes = writes
        self._has_happened = False
        server.world.later(self._delay(), self._decide)

    def _delay(self) -> float:
        rng = self._server.world.rng
        return self._server.lag * (0.5 + rng.random()) * (20 if rng.random() < 0.03 else 1)

    def _decide(self) -> None:
        server = self._server
        if self.is_given_up or (self._loop.is_dead and not self._writes):
            return
        if not server.is_there_for(self._loop.host):
            server.world.later(0.05, self._decide)
            return
        self._has_happened = True
        answer = self._work()
        if server.world.rng.random() >= server.loses_answers:
            server.world.later(self._delay(), self._come_back, answer)

    def _come_back(self, answer: Any) -> None:
        if self._loop.is_dead or self.future.done():
            return
        if self._server.is_there_for(self._loop.host):
            self.future.set_result(answer)
        else:
            self._server.world.later(0.05, self._come_back, answer)

    def give_up(self) -> CoordinationError:
        """Nobody waits any more: it has happened, it never will, or it still may."""
        rng = self._server.world.rng
        if self._writes and (self._has_happened or rng.random() < 0.3):
            self.is_given_up = rng.random() < 0.5
            return OutcomeUnknown("the answer was lost")
        self.is_given_up = True
        return Unreachable("no answer came")


class SimStore(Coordination):
    """One node's port."""

    def __init__(self, server: Server, loop: SimLoop) -> None:
        self.server = server
        self.loop = loop
        self.reachability = Reachability()
        self._watches: list[SimWatch] = []
        self._is_closed = False
        self._probe()

    def _probe(self) -> None:
        if not self._is_closed:
            self._heard(is_there=self.server.is_there_for(self.loop.host))
            self.loop.call_later(PROBE, self._probe)

    def _heard(self, *, is_there: bool) -> None:
        if is_there:
            self.reachability.found()
        else:
            self.reachability.lost("it does not answer")

    async def _ask(self, work: Callable[[], Any], *, writes: bool) -> Any:
        if self._is_closed:
            raise Closed("the store was closed")
        call = Call(self.server, self.loop, work, writes=writes)
        try:
            async with asyncio.timeout(CALL):
                answer = await call.future
        except TimeoutError:
            self._heard(is_there=self.server.is_there_for(self.loop.host))
            raise call.give_up() from None
        except asyncio.CancelledError:
            call.is_given_up = True
            raise
        self._heard(is_there=True)
        if isinstance(answer, CoordinationError):
            raise answer
        return answer

    async def read(self, prefix: str) -> Snapshot:
        snapshot: Snapshot = await self._ask(lambda: self.server.snapshot(prefix), writes=False)
        return snapshot

    def watch(self, prefix: str, after: int) -> Watch:
        watch = SimWatch(self.server, self.loop, prefix, after)
        self._watches.append(watch)
        return watch

    async def transact_many(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        for transaction in transactions:
            check(transaction)
        if not transactions:
            return []
        try:
            outcomes: list[Outcome | CoordinationError] = await self._ask(
                lambda: [self.server.transact(transaction) for transaction in transactions], writes=True)
        except (Unreachable, OutcomeUnknown) as fault:
            return [fault] * len(transactions)
        return outcomes

    async def grant(self, ttl: int) -> int:
        lease: int = await self._ask(lambda: self.server.grant(ttl), writes=True)
        return lease

    async def keep_alive(self, lease: int) -> float:
        left: float = await self._ask(lambda: self.server.keep_alive(lease), writes=True)
        return left

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: self.server.revoke(lease), writes=True)

    async def close(self) -> None:
        self._is_closed = True
        for watch in list(self._watches):
            await watch.aclose()


class SimWatch(Watch):
    def __init__(self, server: Server, loop: SimLoop, prefix: str, after: int) -> None:
        self._server = server
        self._loop = loop
        self._prefix = prefix
        self._after = after
        self._news: deque[Changes | Reset] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self._is_looking = False
        server.watches.append(self)
        self.look_soon()

    def look_soon(self) -> None:
        if not self._is_looking and not self._is_closed and not self._loop.is_dead:
            self._is_looking = True
            rng = self._server.world.rng
            delay = self._server.lag * (0.5 + rng.random()) + (rng.random() * 0.3 if rng.random() < 0.02 else 0.0)
            self._server.world.later(delay, self._look)

    def _look(self) -> None:
        self._is_looking = False
        server = self._server
        if self._is_closed or self._loop.is_dead or not server.is_there_for(self._loop.host):
            return
        if self._after < server.compacted:
            self._after = server.revision
            self._news.append(Reset(server.snapshot(self._prefix)))
        missed = server.revision - self._after
        for revision, changes in list(server.history)[-missed:] if missed else ():
            self._after = revision
            seen = tuple(change for change in changes if change.key.startswith(self._prefix))
            if seen:
                self._news.append(Changes(revision, seen))
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done() and (self._news or self._is_closed):
            self._waiter.set_result(None)

    async def __anext__(self) -> Changes | Reset:
        while not self._news:
            if self._is_closed:
                raise StopAsyncIteration
            self._waiter = self._loop.create_future()
            await self._waiter
        return self._news.popleft()

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._server.watches.remove(self)
            self._wake()
