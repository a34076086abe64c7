"""Coordination in etcd: the port's calls as questions of its JSON gateway."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from typing import Final

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import (
    BadTransaction,
    CoordinationError,
    LeaseGone,
    OutcomeUnknown,
    StoreDamaged,
    Unreachable,
)
from mirrormq.cluster.coordination.keys import check_lease, check_text
from mirrormq.cluster.coordination.port import Coordination, Item, Outcome, Snapshot, Transaction, check

from .codec import Codec, Json, number, revision_of
from .faults import EtcdFault
from .planning import requests, waves
from .transport import READ, TRANSACT, Transport
from .watching import EtcdWatch

FIRST_PAGE: Final = 10
"""Items in the first answer of a read: however large they are, it fits."""

PAGE: Final = 2000
"""Items in the later ones, if they are small."""

PAGE_BYTES: Final = 1_000_000
"""What is wanted in one answer: more holds up other questions, in etcd and here."""

UNDER_WAY: Final = 8
"""Requests of one batch at the same time; each holds up to 60 transactions."""


def following_page(page: dict[str, Item]) -> int:
    """How many items to ask for after a page: as many as have PAGE_BYTES if they are like these."""
    size = sum(100 + len(key) + len(item.value) for key, item in page.items())
    return max(FIRST_PAGE, min(PAGE, len(page) * PAGE_BYTES // size))


class Moved(Exception):
    """The revision that is being read was compacted away; begin anew."""


class EtcdCoordination(Coordination):
    def __init__(self, transport: Transport, codec: Codec) -> None:
        self.reachability = transport.reachability
        self._transport = transport
        self._codec = codec
        self._watches: set[EtcdWatch] = set()
        self._slots = asyncio.Semaphore(UNDER_WAY)
        self._prober = asyncio.create_task(self._probe_for_ever(), name="coordination-probe")

    async def read(self, prefix: str) -> Snapshot:
        check_text(prefix)
        try:
            async with asyncio.timeout(deadlines.READ):
                while True:
                    try:
                        return await self._read_pages(prefix)
                    except Moved:
                        continue
        except TimeoutError as fault:
            raise Unreachable(f"etcd did not answer a long read within {deadlines.READ:g} s: look at its load") from fault

    async def _read_pages(self, prefix: str) -> Snapshot:
        """All pages are as of the first one's revision."""
        items: dict[str, Item] = {}
        revision, limit, last = 0, FIRST_PAGE, None
        while True:
            try:
                answer = await self._ask_page(self._codec.page(prefix, last, revision, limit))
            except Unreachable:
                if limit <= FIRST_PAGE:
                    raise
                limit = FIRST_PAGE  # it may have been too much for the time, so ask for less
                continue
            page = self._codec.items(answer.get("kvs", []))
            items |= page
            revision = revision or revision_of(answer)
            if not answer.get("more", False):
                return Snapshot(revision, items)
            last = next(reversed(page))
            limit = following_page(page)

    async def _ask_page(self, body: Json) -> Json:
        try:
            return await self._transport.ask(READ, body, repeatable=True)
        except EtcdFault as fault:
            if fault.is_compaction:
                raise Moved from fault
            if fault.is_too_large:
                raise Unreachable("the answer is too large for etcd's gateway") from fault
            raise fault.translate() from fault

    def watch(self, prefix: str, after: int) -> EtcdWatch:
        check_text(prefix)
        watch = EtcdWatch(prefix, after, self._transport, self._codec, self.read, self._watches.discard)
        self._watches.add(watch)
        return watch

    async def transact_many(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        for transaction in transactions:
            check(transaction)
        outcomes: list[Outcome | CoordinationError] = [Unreachable("not tried")] * len(transactions)
        problem: CoordinationError | None = None
        for wave in waves(transactions):
            if problem is None:
                await asyncio.gather(*(self._request(group, transactions, outcomes) for group in requests(wave, transactions)))
                problem = next((o for place in wave if isinstance(o := outcomes[place], Unreachable | OutcomeUnknown)), None)
            else:
                skipped = Unreachable(f"not tried, since an earlier one had no outcome: {problem}")
                for place in wave:
                    outcomes[place] = skipped
        return outcomes

    async def _request(
        self, group: list[int], transactions: Sequence[Transaction], outcomes: list[Outcome | CoordinationError]
    ) -> None:
        async with self._slots:
            parts = await self._transact([transactions[place] for place in group])
        for place, outcome in zip(group, parts, strict=True):
            outcomes[place] = outcome

    async def _transact(self, group: Sequence[Transaction]) -> Sequence[Outcome | CoordinationError]:
        """A group that etcd refuses as a whole, since one of it is bad, is asked one by one."""
        try:
            if len(group) > 1:
                return self._codec.outcomes(await self._ask_once(self._codec.merged(group)))
            answer = await self._ask_once(self._codec.transaction(group[0]))
            return [self._codec.outcome(answer, revision_of(answer))]
        except EtcdFault as fault:
            if len(group) > 1:
                return [outcome for one in group for outcome in await self._transact([one])]
            return [fault.translate()]
        except CoordinationError as fault:
            return [fault] * len(group)

    async def _ask_once(self, body: Json) -> Json:
        return await self._transport.ask(TRANSACT, body, repeatable=False)

    async def grant(self, ttl: int) -> int:
        """The number is ours, so the question can be repeated: a lease that is there already is the one we asked for."""
        if ttl < 1:
            raise BadTransaction(f"a lease lasts at least a second, not {ttl}")
        lease = secrets.randbits(62) + 1
        try:
            await self._transport.ask("lease/grant", {"ID": str(lease), "TTL": str(ttl)}, repeatable=True)
        except EtcdFault as fault:
            if not fault.is_lease_there_already:
                raise fault.translate() from fault
        return lease

    async def keep_alive(self, lease: int) -> float:
        check_lease(lease)
        try:
            answer = await self._transport.ask("lease/keepalive", {"ID": str(lease)}, repeatable=True)
        except EtcdFault as fault:
            raise fault.translate() from fault
        if not number(answer, "TTL"):
            raise LeaseGone(f"lease {lease} has expired or was revoked: grant a new one")
        return float(answer["TTL"])

    async def revoke(self, lease: int) -> None:
        check_lease(lease)
        try:
            await self._transport.ask("lease/revoke", {"ID": str(lease)}, repeatable=True)
        except EtcdFault as fault:
            if not isinstance(translated := fault.translate(), LeaseGone):
                raise translated from fault

    async def close(self) -> None:
        self._prober.cancel()
        await asyncio.wait([self._prober])
        for watch in list(self._watches):
            await watch.aclose()
        await self._transport.close()

    async def _probe_for_ever(self) -> None:
        """An idle client, and the member that its watches hang on, would otherwise not notice that it is cut off."""
        while True:
            await asyncio.sleep(deadlines.PROBE if self.reachability.is_reachable else deadlines.RETRY)
            if self.reachability.is_reachable and time.monotonic() - self._transport.heard < deadlines.PROBE:
                continue
            try:
                await self._transport.ask(READ, self._codec.probe, repeatable=True)
            except StoreDamaged:
                return
            except EtcdFault as fault:
                self.reachability.lost(str(fault.translate()))
            except CoordinationError as fault:
                self.reachability.lost(str(fault))
