"""What clients do: each is a coroutine that goes on until it is told to end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    QueueDeclare,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
)
from simnodes.checks import by_name, record_of
from simnodes.ledger import Ledger, Message
from simnodes.line import Gone, Line, Refused
from simnodes.node import SimNode

if TYPE_CHECKING:
    from simnodes.world import World


MANY = 800          # messages of a seed, after which publishers take their time


class Clients:
    """All clients of a seed."""

    def __init__(self, world: World, ledger: Ledger, queues: list[str]) -> None:
        self.world = world
        self.ledger = ledger
        self.queues = queues
        self.is_over = False
        self.tasks: list[asyncio.Task[None]] = []
        self.is_quiet: Callable[[], bool] = lambda: False       # no fault is under way, nor was a moment ago
        self.unused: dict[str, None] = {}       # queues that nobody may ever have consumed from: they stay
        self._names = 0
        self._lines: dict[str, list[Line]] = {}     # what each client has opened since it last began anew
        self._orphans: dict[str, None] = {}     # queues whose user has died: nobody says when they go

    def spawn(self, work: Callable[[str], Any], kind: str) -> None:
        self._names += 1
        name = f"{kind}{self._names}"
        task = self.world.clients_loop.create_task(self._guard(work, name), name=name)
        self.tasks.append(task)

    async def _guard(self, work: Callable[[str], Any], name: str) -> None:
        while not self.is_over:
            try:
                await work(name)
            except (Gone, Refused) as fault:
                self.world.note(name, f"begins anew: {fault}")
                for line in self._lines.pop(name, []):
                    line.abort()
                await self._pause(0.5)
            except Exception as fault:  # noqa: BLE001 - a fault of the simulation itself must not pass for quiet
                self.world.complain(name, "the client failed", fault)
                return
        self.world.note(name, "is done")

    async def _pause(self, most: float) -> None:
        await asyncio.sleep(self.world.rng.random() * most)

    def pick_node(self) -> SimNode:
        up = [node for node in self.world.nodes if node.is_up]
        return self.world.rng.choice(up or self.world.nodes)

    async def connect(self, name: str, node: SimNode | None = None) -> Line:
        line = Line(self.world, name)
        self.world.graveyard.append(line)
        self._lines.setdefault(name, []).append(line)
        await line.open(node or self.pick_node())
        return line

    # --- publishers --------------------------------------------------------------------------------------------------

    async def publisher(self, name: str) -> None:
        rng, ledger = self.world.rng, self.ledger
        queue = rng.choice(self.queues)
        life = f"{name}.{len(ledger.messages)}"
        line = await self.connect(name)
        await line.call(ConfirmSelect())
        unconfirmed: dict[int, Message] = {}
        progress = asyncio.Event()

        def confirmed(tag: int, multiple: bool, is_taken: bool) -> None:
            tags = [each for each in unconfirmed if each <= tag] if multiple else [tag]
            for each in tags:
                message = unconfirmed.pop(each)
                if is_taken:
                    ledger.confirm(message)
                else:
                    message.is_refused = True
            self.world.note(name, f"{'confirmed' if is_taken else 'REFUSED'} {len(tags)} up to {tag}")
            progress.set()

        line.on_confirm = confirmed
        line.on_end = progress.set
        number = 0
        while not self.is_over and line.end is None and number < 400:
            for _ in range(rng.choice([1, 1, 2, 5, 20])):
                number += 1
                size = rng.choice([0, 10, 10, 100, 1000, 3000])
                persistent = rng.random() < 0.9
                unconfirmed[number] = ledger.sent(queue, life, number, is_persistent=persistent)
                line.publish("", queue, f"{life}/{number}/".encode() + bytes(size), is_persistent=persistent)
            mark = line.waits_for("confirms")
            limit = rng.choice([0, 0, 10, 40])
            while len(unconfirmed) > limit and line.end is None:
                progress.clear()
                await progress.wait()
            line.has(mark)
            await self._pause(rng.choice([0.02, 0.2, 1.0]) if len(ledger.messages) < MANY else 4.0)
        mark = line.waits_for("the last confirms")
        while unconfirmed and line.end is None:
            progress.clear()
            await progress.wait()
        line.has(mark)
        await line.close()

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def slow_consumer(self, name: str) -> None:
        """At the node that leads the first queue, if it can be reached."""
        record = record_of(self.world, self.queues[0])
        home = by_name(self.world, record["view"]["ring"][0]) if record is not None and "view" in record else None
        await self.consumer(name, self.queues[0], home if home is not None and home.is_up else None, 0.2)

    async def consumer(self, name: str, queue: str = "", node: SimNode | None = None, slow: float = -1.0) -> None:
        rng = self.world.rng
        queue = queue or rng.choice(self.queues)
        line = await self.connect(name, node)
        prefetch = rng.choice([1, 3, 10, 50])
        await line.call(BasicQos(prefetch_count=prefetch))
        got: list[tuple[int, Message]] = []
        news = asyncio.Event()
        last: dict[str, int] = {}

        def delivered(method: BasicDeliver, body: bytes) -> None:
            message = self.ledger.delivery(body, queue, name, redelivered=method.redelivered)
            if message is None:
                return
            if not method.redelivered:
                if last.get(message.publisher, 0) > message.number:
                    self.world.violate(f"(order) {name} received {message} behind number {last[message.publisher]}, both new")
                last[message.publisher] = message.number
            got.append((method.delivery_tag, message))
            news.set()

        line.on_deliver = delivered
        line.on_end = news.set
        line.on_cancel = lambda _tag: line.abort()
        await line.call(BasicConsume(queue, "tag"))
        turns = rng.choice([5, 50, 200])
        slow = rng.choice([0.0, 0.01, 0.2]) if slow < 0 else slow
        while not self.is_over and line.end is None and turns:
            turns -= 1
            if not got:
                news.clear()
                try:
                    async with asyncio.timeout(1.0):
                        await news.wait()
                except TimeoutError:
                    continue
            await self._pause(slow)
            if line.end is None and got:
                self._settle(line, got)
        if line.end is None and rng.random() < 0.5:
            await line.call(BasicCancel("tag"))
        if rng.random() < 0.7:
            await line.close()
        else:
            line.abort()

    def _settle(self, line: Line, got: list[tuple[int, Message]]) -> None:
        rng = self.world.rng
        kind = rng.random()
        if kind < 0.6:
            tag, message = got.pop(0)
            message.may_be_gone = True
            line.send(BasicAck(tag))
        elif kind < 0.8:
            tag = got[-1][0]
            for _, message in got:
                message.may_be_gone = True
            got.clear()
            line.send(BasicAck(tag, multiple=True))
        elif kind < 0.9:
            tag, message = got.pop(rng.randrange(len(got)))
            line.send(BasicReject(tag, requeue=True))
        elif kind < 0.95:
            tag = got[-1][0]
            got.clear()
            line.send(BasicNack(tag, multiple=True, requeue=True))

    async def getter(self, name: str) -> None:
        rng = self.world.rng
        queue = rng.choice(self.queues)
        line = await self.connect(name)
        for _ in range(rng.choice([3, 20, 60])):
            if self.is_over:
                break
            answer = await line.call(BasicGet(queue))
            if not isinstance(answer, BasicGetEmpty):
                method, body = answer
                message = self.ledger.delivery(body, queue, name, redelivered=method.redelivered)
                assert message is not None
                if rng.random() < 0.7:
                    message.may_be_gone = True
                    line.send(BasicAck(method.delivery_tag))
            await self._pause(0.3)
        await line.close()

    # --- transactions ------------------------------------------------------------------------------------------------

    async def transactor(self, name: str) -> None:
        """Takes messages and publishes others, in transactions."""
        rng, ledger = self.world.rng, self.ledger
        queue = rng.choice(self.queues)
        life = f"{name}.{len(ledger.messages)}"
        line = await self.connect(name)
        await line.call(TxSelect())
        number = 0
        for _ in range(rng.choice([2, 10])):
            if self.is_over:
                break
            taken, given = [], []
            for _ in range(rng.choice([0, 1, 3])):
                answer = await line.call(BasicGet(queue))
                if isinstance(answer, BasicGetEmpty):
                    break
                method, body = answer
                message = ledger.delivery(body, queue, name, redelivered=method.redelivered)
                assert message is not None
                taken.append(message)
                line.send(BasicAck(method.delivery_tag))
            target = rng.choice(self.queues)
            for _ in range(rng.choice([0, 1, 4])):
                number += 1
                given.append(ledger.sent(target, life, number))
                line.publish("", target, f"{life}/{number}/".encode())
            await self._pause(rng.choice([0.0, 0.5]))
            if rng.random() < 0.15:
                await line.call(TxRollback())
                continue
            for message in taken:
                message.may_be_gone = True
            await line.call(TxCommit())
            self.world.note(name, f"has committed {len(taken)} acknowledgements and {len(given)} messages")
            ledger.committed += 1
            for message in taken:
                message.must_be_gone = True
            for message in given:
                ledger.confirm(message)
            await self._pause(0.5)
        await line.close()

    # --- queues that end by themselves -------------------------------------------------------------------------------

    async def passer(self, name: str) -> None:
        """Makes queues that go with their last consumer, or with their connection, and looks whether they have gone."""
        rng = self.world.rng
        line, other = await self.connect(name), await self.connect(name)
        prefix = rng.choice(["", "q-"])         # the policy mirrors queues whose names begin with a q
        for _ in range(rng.choice([2, 6])):
            if self.is_over:
                break
            is_exclusive = rng.random() < 0.4
            queue = f"{prefix}{name}-{'own' if is_exclusive else 'auto'}"
            if not stays(self.world, queue):
                self._orphans.pop(queue, None)      # it is made anew
            is_orphan = queue in self._orphans      # somebody who left without a word may still count as its consumer
            quiet = self.is_quiet() and not is_orphan
            self.unused[queue] = None
            await line.call(QueueDeclare(queue, exclusive=is_exclusive, auto_delete=not is_exclusive, durable=False))
            user = line if is_exclusive or rng.random() < 0.3 else other
            cancelled: list[str] = []
            user.on_cancel = cancelled.append
            try:
                await user.call(BasicConsume(queue, "t"))
            except Refused as fault:
                if quiet and self.is_quiet():
                    self.world.violate(f"(passing) {name} declared {queue} on {line.node} and cannot consume from it on "
                                       f"{user.node}: {fault}")
                raise
            del self.unused[queue]
            self.world.note(name, f"consumes from {queue} on {user.node}")
            self._orphans[queue] = None             # unless it leaves politely
            if rng.random() < 0.3:
                await self._pause(0.02)
            if cancelled and quiet and self.is_quiet():
                self.world.violate(f"(passing) {queue} went while {name} consumed from it on {user.node}")
            how = rng.random()
            is_rude = 0.25 <= how < 0.4 and not is_exclusive
            if is_exclusive or how < 0.4:
                fresh = await self.connect(name)
                if not is_rude:
                    await user.close()
                else:
                    self.world.note(name, f"leaves {queue} without a word")
                    user.abort()
                    await self._pause(0.005)
                line, other = (fresh, other) if user is line else (line, fresh)
            elif how < 0.6:
                await user.call(ChannelClose(200, "enough"))
                await user.call(ChannelOpen())
            else:
                await user.call(BasicCancel("t"))
            if not is_rude and not is_orphan:
                del self._orphans[queue]
            if not is_rude and rng.random() < 0.3:
                await self._expect_gone(name, queue, is_quiet=quiet)
            if rng.random() < 0.3:
                await self._pause(0.3)
        await line.close()
        await other.close()

    async def _expect_gone(self, name: str, queue: str, *, is_quiet: bool) -> None:
        other = await self.connect(name)
        try:
            await other.call(QueueDeclare(queue, passive=True))
        except Refused as fault:
            if fault.code == 404:
                return
            if is_quiet and self.is_quiet():
                self.world.violate(f"(passing) {name} finds {queue} still there on {other.node}: {fault}")
            return
        if is_quiet and self.is_quiet():
            self.world.violate(f"(passing) {name} finds {queue} still there on {other.node}")
        await other.close()

    async def purger(self, name: str) -> None:
        await self._pause(10)
        if self.is_over:
            return
        queue = self.world.rng.choice(self.queues)
        line = await self.connect(name)
        for message in self.ledger.messages.values():
            if message.queue == queue:
                message.may_be_gone = True
        await line.call(QueuePurge(queue))
        # What is published while the purge is on its way may go with it too.
        for message in self.ledger.messages.values():
            if message.queue == queue:
                message.may_be_gone = True
        await line.close()


def stays(world: World, queue: str) -> bool:
    """Whether there is such a queue whose home has not proposed its end."""
    return any(each.name == queue and not each.is_going
               for node in world.nodes if node.is_up and node.runtime is not None
               for each in node.runtime.broker.queues_by_log.values())
