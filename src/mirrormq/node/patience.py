"""Waiting for the cluster's decision on some proposals, for whoever has no channel to wait with: the HTTP API, and the start.

Each waits for its own proposals alone; what becomes of those of others does not matter to it.
"""

from __future__ import annotations

import asyncio

from mirrormq.broker.journal import HELD, LOST, UNHEARD, Proposal


class StoreUnheard(Exception):
    """The cluster could not agree on a change; the sentence says why."""


class Waiter:
    """Waits for the proposals `first` to `last`. The future tells whether all of them held."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._has_lost = False

    def see(self, proposal: Proposal) -> None:
        """One that did not hold."""
        if self.first <= proposal.number <= self.last and not proposal.is_stubborn and not self.future.done():
            if proposal.state == UNHEARD:
                self.future.set_exception(StoreUnheard(proposal.text))
            elif proposal.state == LOST:
                self._has_lost = True

    def is_over(self, settled: int) -> bool:
        if self.last <= settled and not self.future.done():
            self.future.set_result(not self._has_lost)
        return self.future.done()


class Patience:
    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    async def wait(self, first: int, last: int) -> bool:
        """Whether all of them held. StoreUnheard if the store could not be asked about one."""
        waiter = Waiter(first, last)
        self._waiters.append(waiter)
        return await waiter.future

    def settled(self, proposals: list[Proposal], settled: int) -> None:
        """The store has decided on these, and on all up to the number `settled`."""
        if self._waiters:
            for proposal in proposals:
                if proposal.state != HELD:
                    for waiter in self._waiters:
                        waiter.see(proposal)
            self._waiters = [waiter for waiter in self._waiters if not waiter.is_over(settled)]
