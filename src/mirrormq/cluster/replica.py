"""This node's copy of the store, and the way of the broker's proposals into it.

Rules
 1. The copy changes only by what the store sends: first the whole, then each change in the store's order.
 2. A proposal is settled when the store has decided and the copy has the decision. So whoever is answered finds what was decided.
 3. A store that does not answer fails the proposals of clients with its sentence; stubborn ones are made again when it returns.
 4. What becomes of nodes is applied before what went with them: whoever published to a queue that goes because its node is lost
    must hear that its messages are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirrormq.broker import agreement
from mirrormq.broker.broker import Broker
from mirrormq.broker.journal import HELD, LOST, UNHEARD, Proposal
from mirrormq.broker.metadata import parts
from mirrormq.broker.records import ORDER
from mirrormq.cluster.coordination import (
    Absent,
    BadTransaction,
    Changes,
    Compare,
    Coordination,
    CoordinationError,
    Delete,
    DeletePrefix,
    Item,
    OutcomeUnknown,
    Present,
    Put,
    Reset,
    Snapshot,
    Transaction,
    Unchanged,
    ValueIs,
    Write,
)
from mirrormq.cluster.coordination.port import check
from mirrormq.cluster.membership import NODE

METADATA: Final = "meta/"
ROUND: Final = 500          # proposals in one round trip; more would make the first wait long
CATCH_UP: Final = 0.3       # seconds; a lost proposal's revision may belong to somebody else's key and never be seen here
PATIENCE: Final = 3.0       # seconds; a change that changed nothing is never seen either
AGAIN: Final = 0.5          # seconds between two tries of a stubborn proposal

Watcher = Callable[[str, Item | None], None]


class Replica:
    """`lease` is asked at each write that hangs on a node, for that node's; an empty name is this one. It raises BadTransaction
    where there is none."""

    def __init__(self, store: Coordination, broker: Broker, lease: Callable[[str], int], tick: Callable[[], None]) -> None:
        self.store = store
        self.revision = 0
        self.own_key = ""                           # that tells whether our lease has run out
        self.on_other: Watcher = _ignore            # keys that are no metadata
        self.on_settled: Callable[[list[Proposal]], None] = lambda proposals: agreement.settle(broker, proposals)
        self.on_advance: Callable[[int], None] = lambda _: None
        self._broker = broker
        self._lease = lease
        self._tick = tick
        self._known: dict[str, int] = {}
        self._leases: dict[str, int] = {}           # of the nodes that are up
        self._gathered: list[Proposal] = []
        self._stubborn: list[Proposal] = []
        self._has_news = asyncio.Event()
        self._advanced: list[tuple[int, asyncio.Future[None]]] = []

    # --- the copy -------------------------------------------------------------------------------------------------

    async def load(self) -> Snapshot:
        """Everything, once, before clients are let in."""
        snapshot = await self.store.read("")
        self._tick()
        self.revision = snapshot.revision
        self._known = {key: item.revision for key, item in snapshot.items.items()}
        self._leases = {key: item.lease for key, item in snapshot.items.items() if key.startswith(NODE)}
        metadata = [(key[len(METADATA):], item.value, item.revision) for key, item in snapshot.items.items()
                    if key.startswith(METADATA)]
        self._broker.records.load(metadata)
        return snapshot

    async def follow(self) -> None:
        """Apply what the store sends, until cancelled."""
        watch = self.store.watch("", self.revision)
        try:
            async for news in watch:
                self._tick()
                if isinstance(news, Reset):
                    self._compare(news.snapshot)
                else:
                    self._apply(news)
                self._broker.records.finish()
                self._advance(self.revision)
        finally:
            await watch.aclose()

    def _apply(self, news: Changes) -> None:
        self._stand_on(news.revision)
        lapsed = any(change.item is None and change.key == self.own_key for change in news.changes)
        for change in sorted(news.changes, key=lambda change: not change.key.startswith(NODE)):
            if lapsed and change.item is None and self._is_ours(change.key):
                self._known.pop(change.key, None)       # our lease ran out, but we are here: it will be said again
            else:
                self._change(change.key, change.item)

    def _stand_on(self, revision: int) -> None:
        """From the first change on. What is sent to other nodes while the changes are applied stands on them, and must wait there
        until they have come: a consumer that moves to the next leader would be forgotten where a former view still counts."""
        self.revision = max(self.revision, revision)

    def _is_ours(self, key: str) -> bool:
        return key.startswith(METADATA) and self._broker.records.is_leased_here(key[len(METADATA):])

    def _compare(self, snapshot: Snapshot) -> None:
        """The store no longer tells each change since we last heard of it: what differs has changed."""
        self._stand_on(snapshot.revision)
        items = snapshot.items
        renewed = [key for key, lease in self._leases.items() if key in items and items[key].lease != lease]
        lapsed = self.own_key in renewed or (self.own_key in self._known and self.own_key not in items)
        gone = [key for key in renewed if key != self.own_key] + [key for key in self._known if key not in items]
        for key in sorted(gone, key=lambda key: not key.startswith(NODE)):
            if lapsed and self._is_ours(key):
                del self._known[key]
            else:
                self._change(key, None)
        for key, item in sorted(items.items(), key=_rank):
            if self._known.get(key) != item.revision:
                self._change(key, item)

    def _change(self, key: str, item: Item | None) -> None:
        if item is None:
            self._known.pop(key, None)
            self._leases.pop(key, None)
        else:
            self._known[key] = item.revision
            if key.startswith(NODE):
                self._leases[key] = item.lease
        if key.startswith(METADATA):
            text, revision = (None, 0) if item is None else (item.value, item.revision)
            self._broker.records.apply(key[len(METADATA):], text, revision)
        else:
            self.on_other(key, item)

    def _advance(self, revision: int) -> None:
        self.on_advance(revision)
        for waiting, future in self._advanced:
            if waiting <= revision and not future.done():
                future.set_result(None)
        self._advanced = [waiting for waiting in self._advanced if waiting[0] > revision]

    async def reach(self, revision: int, patience: float | None = None) -> None:
        """Until the copy has this revision, or patience is over."""
        if self.revision >= revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._advanced.append((revision, future))
        try:
            async with asyncio.timeout(patience):
                await future
        except TimeoutError:
            self._advanced = [waiting for waiting in self._advanced if waiting[1] is not future]

    # --- proposals ------------------------------------------------------------------------------------------------

    def submit(self, proposals: list[Proposal]) -> None:
        if proposals:
            self._gathered += proposals
            self._has_news.set()

    async def propose(self, everyone: Callable[[int], asyncio.Future[None] | None]) -> None:
        """Take proposals to the store, until cancelled. While one round is under way the next is gathered."""
        while True:
            await self._has_news.wait()
            batch, self._gathered = self._gathered[:ROUND], self._gathered[ROUND:]
            if not self._gathered:
                self._has_news.clear()
            revision = await self._decide(batch)
            waiting = everyone(revision)
            if waiting is not None:
                await waiting
            self._tick()
            self.on_settled(batch)

    async def insist(self) -> None:
        """Make stubborn proposals again that the store did not hear."""
        while True:
            await asyncio.sleep(AGAIN)
            if self._stubborn and self.store.reachability.is_reachable:
                again, self._stubborn = self._stubborn, []
                self.submit([proposal for proposal in again if proposal.restating is None or not proposal.restating.is_deleted])

    async def _decide(self, batch: list[Proposal]) -> int:
        """Ask the store about each; returns the revision at which all that held is there."""
        proposals, transactions = [], []
        for proposal in batch:
            try:
                transaction = self._transaction(proposal)
                check(transaction)
                transactions.append(transaction)
                proposals.append(proposal)
            except BadTransaction as fault:         # and it never will, so not even a stubborn one is made again
                proposal.state, proposal.text = UNHEARD, f"the store cannot take this: {fault}"
                self._broker.host.report("error", f"a change of {_title(proposal)} was given up: {fault}")
        try:
            outcomes = await self.store.transact_many(transactions)
        except CoordinationError as fault:
            outcomes = [fault] * len(proposals)
        held = lost = 0
        for proposal, outcome in zip(proposals, outcomes, strict=True):
            if isinstance(outcome, CoordinationError):
                self._unheard(proposal, outcome)
            elif outcome.succeeded:
                proposal.state = HELD
                held = max(held, outcome.revision)
            else:
                proposal.state = LOST
                proposal.is_void = proposal.ending is not None and METADATA + proposal.unchanged[0][0] not in outcome.found
                lost = max(lost, outcome.revision)
        await self.reach(held, PATIENCE)
        if lost > held:
            await self.reach(lost, CATCH_UP)
        return held

    def _unheard(self, proposal: Proposal, fault: CoordinationError) -> None:
        proposal.state = UNHEARD
        if proposal.is_stubborn:
            self._stubborn.append(proposal)
        if isinstance(fault, OutcomeUnknown):
            proposal.text = f"it is not known whether this was done: {fault}"
        else:
            proposal.text = f"the cluster cannot agree on this now: {fault}"

    def _transaction(self, proposal: Proposal) -> Transaction:
        compares: list[Compare] = [Absent(METADATA + name) for name in proposal.absent]
        compares += [Present(METADATA + name) for name in proposal.present]
        compares += [Unchanged(METADATA + name, revision) for name, revision in proposal.unchanged]
        compares += [ValueIs(METADATA + name, text) for name, text in proposal.same]
        writes: list[Write] = [DeletePrefix(METADATA + prefix) for prefix in proposal.prefixes]
        for write in proposal.writes:
            name = METADATA + write.name
            if write.text is None:
                writes.append(Delete(name))
            else:
                writes.append(Put(name, write.text, self._lease(write.home) if write.leased else 0))
        return Transaction(compares, writes)


def _rank(item: tuple[str, Item]) -> int:
    """Records stand on each other: bindings on queues, queues on virtual hosts."""
    key = item[0]
    kind = parts(key[len(METADATA):])[0] if key.startswith(METADATA) else ""
    return ORDER.index(kind) if kind in ORDER else -1


def _title(proposal: Proposal) -> str:
    names = [write.name for write in proposal.writes] + proposal.prefixes
    return names[0] if names else "nothing"


def _ignore(_key: str, _item: Item | None) -> None:
    return
