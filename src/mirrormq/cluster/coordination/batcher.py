"""Many small conditional proposals, few round trips: while one round trip is under way, what arrives is gathered for the next.

Proposals that touch the same keys happen in the order in which they were submitted, also across round trips. Each has its own
outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from .errors import Closed, CoordinationError
from .port import Compare, Coordination, Outcome, Transaction, Write, check

ROUND: Final = 1000
"""Proposals in one round trip: more would make the first wait long for its answer."""


class Batcher:
    def __init__(self, store: Coordination) -> None:
        self._store = store
        self._gathered: list[tuple[Transaction, asyncio.Future[Outcome]]] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def submit(self, compares: Sequence[Compare], writes: Sequence[Write]) -> asyncio.Future[Outcome]:
        """Propose; the future has the outcome, or the error, of this proposal alone."""
        transaction = Transaction(compares, writes)
        check(transaction)
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            future.set_exception(Closed("no proposal is taken any more: this node is stopping"))
            return future
        self._gathered.append((transaction, future))
        if self._task is None:
            self._task = asyncio.create_task(self._drain(), name="coordination-batcher")
        return future

    async def close(self) -> None:
        """Take no more, and wait for those under way."""
        self._is_closed = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _drain(self) -> None:
        try:
            while self._gathered:
                batch, self._gathered = self._gathered[:ROUND], self._gathered[ROUND:]
                await self._propose(batch)
        finally:
            self._task = None

    async def _propose(self, batch: list[tuple[Transaction, asyncio.Future[Outcome]]]) -> None:
        try:
            outcomes = await self._store.transact_many([transaction for transaction, _ in batch])
        except CoordinationError as fault:
            outcomes = [fault] * len(batch)
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, CoordinationError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
