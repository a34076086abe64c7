"""Brokers without sockets over a real store: each has its copy of it, its lease, and the way of its proposals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from broker.forward.cluster import NodeHost
from fuzz.world import START, MemoryLog
from mirrormq.broker import registry, rules
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.broker import Broker
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.cluster.coordination import Coordination, CoordinationError, Outcome, Put, Transaction, open_coordination
from mirrormq.cluster.membership import NODE
from mirrormq.cluster.replica import Replica

PATIENCE = 60.0


class Spoken(NodeHost):
    """Keeps what was reported."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.said: list[str] = []

    def report(self, level: str, text: str) -> None:
        self.said.append(f"{level}: {text}")


class Copy:
    def __init__(self, store: Coordination, name: str, number: int) -> None:
        self.name = name
        self.store = store
        self.host = Spoken(number)
        self.broker = Broker(self.host, MemoryLog(), name, START)
        self.lease = 0
        self.rounds = 0
        self.replica = Replica(store, self.broker, lambda _: self.lease, lambda: None)
        self.replica.own_key = NODE + name
        self._transact = store.transact_many
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def vhost(self) -> VirtualHost:
        return self.broker.vhosts["/"]

    async def start(self) -> None:
        await self.enter()
        await self.replica.load()
        works = (self.replica.follow(), self.replica.propose(lambda _: None), self.replica.insist())
        self._tasks = [asyncio.create_task(work) for work in works]

    async def enter(self) -> None:
        self.lease = await self.store.grant(60)
        await self.store.transact([], [Put(NODE + self.name, "{}", self.lease)])

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _counted(self, transactions: Sequence[Transaction]) -> list[Outcome | CoordinationError]:
        self.rounds += 1
        return await self._transact(transactions)

    def count_rounds(self) -> None:
        self.rounds = 0
        self.store.transact_many = self._counted  # type: ignore[method-assign]

    def hand_over(self) -> None:
        """What a turn of the node does with proposals."""
        if self.broker.journal.proposals:
            self.replica.submit(self.broker.journal.take())

    async def agree(self) -> None:
        journal = self.broker.journal
        await until(self._is_settled, f"proposal {journal.settled + 1} of {journal.written} is not settled")

    def _is_settled(self) -> bool:
        self.hand_over()
        return self.broker.journal.settled >= self.broker.journal.written

    def make_queue(self, name: str, *, durable: bool = False) -> None:
        registry.create_queue(self.broker, self.vhost, name, QueueArguments({}), durable=durable, auto_delete=False, owner=None)

    def make_exchange(self, name: str, *, auto_delete: bool = False, durable: bool = True) -> None:
        registry.create_exchange(self.broker, self.vhost, name, "topic", durable=durable, auto_delete=auto_delete, internal=False,
                                 arguments={})

    def bind(self, source: str, queue: str, key: str) -> None:
        registry.bind(self.broker, self.vhost, self.exchange(source), self.queue(queue), key, {})

    def queue(self, name: str) -> Queue:
        return self.vhost.queues[name]

    def exchange(self, name: str) -> Exchange:
        return self.vhost.exchanges[name]

    def routes(self, source: str) -> int:
        return len(self.exchange(source).bindings()) if source in self.vhost.exchanges else -1


async def until(holds: Callable[[], bool], words: str = "it does not come true") -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, words
        await asyncio.sleep(0.01)


@asynccontextmanager
async def copies(directory: Path, *names: str) -> AsyncIterator[list[Copy]]:
    """The first of them has made the virtual host /."""
    found = [Copy(await open_coordination(f"sqlite:{directory / 'store.db'}"), name, at + 1) for at, name in enumerate(names)]
    try:
        for each in found:
            await each.start()
        rules.put_vhost(found[0].broker, "/")
        await found[0].agree()
        await until(lambda: all("/" in each.broker.vhosts for each in found))
        yield found
    finally:
        for each in found:
            await each.stop()
            await each.store.close()
