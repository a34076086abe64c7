"""Coordination in an SQLite file that the processes of one machine share.

Two threads work for the event loop: the writer and the reader. A tick each second finds what bells did not tell, sweeps expired
leases, and while the store is away tries whether it can be written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from mirrormq.cluster.coordination import deadlines
from mirrormq.cluster.coordination.errors import (
    BadTransaction,
    Closed,
    CoordinationError,
    OutcomeUnknown,
    StoreDamaged,
    Unreachable,
)
from mirrormq.cluster.coordination.keys import check_lease, check_text
from mirrormq.cluster.coordination.port import Changes, Coordination, Outcome, Snapshot, Transaction, check
from mirrormq.cluster.coordination.reachability import Reachability

from .bells import Bells
from .reader import Reader
from .reading import LogPart, Reading
from .watching import FileWatch
from .worker import Late, Worker
from .writer import BATCH, Writer
from .writing import Writing

log = logging.getLogger(__name__)

KEEP: Final = 100_000
"""Changes that the log keeps for watchers: those of a whole burst of declarations."""

Given = TypeVar("Given")
Result = TypeVar("Result")


class FileCoordination(Coordination):
    def __init__(self, path: Path, keep: int = KEEP) -> None:
        self.reachability = Reachability()
        self._path = path.resolve()         # as SQLite does, which puts its log beside the real file
        self._bells = Bells(self._path)
        self._writer = Writer(self._path, self._bells, keep, self._committed)
        self._reader = Reader(self._path)
        self._watches: list[FileWatch] = []
        self._hears = False
        self._is_closed = False
        self._damage: StoreDamaged | None = None
        self._ticker: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Open or create the file, and sweep what expired while nobody had it open."""
        try:
            await self._write(Writing.expire, deadline=deadlines.OPEN)
            await self._read(Reading.tick, deadline=deadlines.OPEN)
        except BaseException:
            await self.close()
            raise
        self._ticker = asyncio.create_task(self._tick_for_ever(), name="coordination-tick")

    async def read(self, prefix: str) -> Snapshot:
        check_text(prefix)
        return await self._read(lambda reading: reading.snapshot(prefix), deadline=deadlines.READ)

    def watch(self, prefix: str, after: int) -> FileWatch:
        check_text(prefix)
        watch = FileWatch(prefix, after, self._read_log, self._forget)
        if self._is_closed:
            watch.end()
        elif self._damage:
            watch.fail(self._damage)
        else:
            self._listen()
            self._watches.append(watch)
        return watch

    async def transact_many(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        for transaction in transactions:
            check(transaction)
        outcomes: list[Outcome | CoordinationError] = []
        for start in range(0, len(transactions), BATCH):
            outcomes += await self._transact_part(transactions[start : start + BATCH])
            if outcomes and isinstance(fault := outcomes[-1], Unreachable | OutcomeUnknown):
                skipped = Unreachable(f"not tried, since an earlier one had no outcome: {fault}")
                return outcomes + [skipped] * (len(transactions) - len(outcomes))
        return outcomes

    async def _transact_part(self, part: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        try:
            return await self._write(lambda writing: writing.transact_many(part), weight=len(part))
        except CoordinationError as fault:
            return [fault] * len(part)

    async def grant(self, ttl: int) -> int:
        if ttl < 1:
            raise BadTransaction(f"a lease lasts at least a second, not {ttl}")
        return await self._write(lambda writing: writing.grant(ttl))

    async def keep_alive(self, lease: int) -> float:
        check_lease(lease)
        return await self._write(lambda writing: writing.keep_alive(lease))

    async def revoke(self, lease: int) -> None:
        check_lease(lease)
        await self._write(lambda writing: writing.revoke(lease))

    async def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.wait([self._ticker])
        for watch in self._watches:
            watch.end()
        self._watches.clear()
        await asyncio.gather(self._writer.close(deadlines.CLOSE), self._reader.close(deadlines.CLOSE))
        if self._hears:
            asyncio.get_running_loop().remove_reader(self._bells.hang())
        self._bells.close()

    def _listen(self) -> None:
        """The bell hangs as soon as someone watches."""
        if not self._hears:
            try:
                asyncio.get_running_loop().add_reader(self._bells.hang(), self._heard)
                self._hears = True
            except OSError as fault:
                log.warning("Changes of other processes are seen up to %s s late: no bell can be hung beside %s (%s)",
                            deadlines.TICK, self._path, fault.strerror)

    def _heard(self) -> None:
        self._bells.hear()
        self._stir()

    def _stir(self) -> None:
        for watch in self._watches:
            watch.stir()

    def _committed(self, base: int, revision: int, changes: Sequence[Changes]) -> None:
        for watch in self._watches:
            watch.feed(base, revision, changes)

    def _forget(self, watch: FileWatch) -> None:
        if watch in self._watches:
            self._watches.remove(watch)

    async def _read_log(self, prefix: str, after: int) -> LogPart | Snapshot:
        return await self._read(lambda reading: reading.after(prefix, after), deadline=deadlines.READ)

    async def _read(self, work: Callable[[Reading], Result], *, deadline: float) -> Result:
        try:
            return await self._call(self._reader.worker, work, deadline, 1)
        except Late as late:
            raise self._lost(Unreachable(f"{self._path} could not be read within {deadline:g} s: look at the disk")) from late

    async def _write(self, work: Callable[[Writing], Result], *, deadline: float = deadlines.CALL, weight: int = 1) -> Result:
        try:
            result = await self._call(self._writer.worker, work, deadline, weight)
        except Late as late:
            fault = OutcomeUnknown if late.begun else Unreachable
            words = "; whether this change is stored is not known" if late.begun else ""
            raise self._lost(fault(f"{self._path} could not be written within {deadline:g} s: look at the disk{words}")) from late
        self.reachability.found()
        return result

    async def _call(self, worker: Worker[Given], work: Callable[[Given], Result], deadline: float, weight: int) -> Result:
        if self._is_closed:
            raise Closed(f"{self._path} was closed by this node")
        if self._damage is not None:
            raise self._damage
        try:
            return await worker.call(work, deadline, weight)
        except (Unreachable, OutcomeUnknown, StoreDamaged) as fault:
            raise self._lost(fault) from fault.__cause__

    def _lost(self, fault: CoordinationError) -> CoordinationError:
        self.reachability.lost(str(fault))
        if isinstance(fault, StoreDamaged) and self._damage is None:
            self._damage = fault
            for watch in self._watches:
                watch.fail(fault)
        return fault

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(deadlines.TICK if self.reachability.is_reachable else deadlines.RETRY)
            try:
                await self._tick()
            except StoreDamaged:
                return
            except CoordinationError as fault:
                log.debug("Tick: %s", fault)

    async def _tick(self) -> None:
        changed, expired = await self._read(Reading.tick, deadline=deadlines.CALL)
        if changed:
            self._stir()
        if expired or not self.reachability.is_reachable:
            await self._write(Writing.touch)
        if self._hears:
            self._bells.hang()
