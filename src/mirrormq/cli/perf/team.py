"""The producers and consumers of one process, each on a connection of its own.

Consumers subscribe when the run starts, not when they connect: the drain of a backlog is measured from its first
message. Producers start when every consumer of the team is subscribed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from mirrormq.cli.perf.blocks import build_block
from mirrormq.cli.perf.client import CHANNEL, Client
from mirrormq.cli.perf.errors import PerfError
from mirrormq.cli.perf.hot.deliver import Meter
from mirrormq.cli.perf.hot.histogram import Histogram
from mirrormq.cli.perf.hot.link import Press
from mirrormq.cli.perf.hot.pacing import Pacer
from mirrormq.cli.perf.hot.publish import Ledger
from mirrormq.cli.perf.hot.verify import Seen, Witness
from mirrormq.cli.perf.measure import Snapshot
from mirrormq.cli.perf.settings import Settings
from mirrormq.cli.perf.verdict import Evidence
from mirrormq.wire.methods import BasicConsume, BasicQos, ConfirmSelect

T = TypeVar("T")
# Acknowledgements wait at most this long for others to share a frame with.
TICK_SECONDS = 0.05
POLL_SECONDS = 0.01
DIALS_AT_ONCE = 32


@dataclass
class Producer:
    """A publishing connection."""

    index: int
    client: Client
    press: Press


@dataclass
class Consumer:
    """A consuming connection."""

    index: int
    client: Client
    meter: Meter
    pace: Pacer | None


class Team:
    """The share of one process: the producers and consumers with these indexes."""

    def __init__(self, settings: Settings, producers: range, consumers: range) -> None:
        self.settings = settings
        self.failure: PerfError | None = None
        self._indexes = (producers, consumers)
        self._producers: list[Producer] = []
        self._consumers: list[Consumer] = []
        self._confirm = Histogram()
        self._delivery = Histogram()
        self._seen: dict[str, dict[int, Seen]] = {}
        self._ticker: asyncio.TimerHandle | None = None
        self._heartbeat = 0
        self._beat_at = time.monotonic()

    async def connect(self) -> None:
        """Open every connection."""
        producers, consumers = self._indexes
        gate = asyncio.Semaphore(DIALS_AT_ONCE)
        self._consumers = await _all(gate, [self._consumer(index) for index in consumers])
        self._producers = await _all(gate, [self._producer(index) for index in producers])
        self._heartbeat = min((client.heartbeat for client in self._clients() if client.heartbeat), default=0)

    async def start(self) -> None:
        """Subscribe, publish."""
        for consumer in self._consumers:
            consumer.client.link.consume(consumer.meter, consumer.pace)
        await asyncio.gather(*[self._subscribe(consumer) for consumer in self._consumers])
        for producer in self._producers:
            if producer.press.pacer is not None:
                producer.press.pacer.start = time.time_ns()
            producer.press.running = True
            producer.client.link.pump()
        self._tick()

    async def stop(self) -> None:
        """Publish nothing more; wait for the confirms under way, as long as they keep coming."""
        for producer in self._producers:
            producer.press.running = False
        polls = int(self.settings.shutdown_timeout / POLL_SECONDS)
        for _ in range(polls):
            if self.failure or not any(producer.press.ledger.outstanding() for producer in self._producers):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """Close every connection."""
        if self._ticker is not None:
            self._ticker.cancel()
        for consumer in self._consumers:
            consumer.client.link.idle()
        await asyncio.gather(*[client.close() for client in self._clients()])

    def snapshot(self) -> Snapshot:
        """The totals by now."""
        ledgers = [producer.press.ledger for producer in self._producers]
        meters = [consumer.meter for consumer in self._consumers]
        clients = self._clients()
        outstanding = sum(ledger.outstanding() for ledger in ledgers)
        return Snapshot(
            at=time.time_ns(),
            sent=sum(ledger.sent for ledger in ledgers),
            confirmed=sum(ledger.confirmed for ledger in ledgers),
            nacked=sum(ledger.nacked for ledger in ledgers),
            returned=sum(client.link.inbox.returned for client in clients),
            received=sum(meter.received for meter in meters),
            redelivered=sum(meter.redelivered for meter in meters),
            outstanding=outstanding,
            blocked=sum(client.blocked for client in clients),
            heard_at=max((client.link.heard for client in clients), default=0),
            producers_done=not outstanding and all(producer.press.finished() for producer in self._producers),
            consumers_done=all(not meter.left for meter in meters),
            confirm=self._confirm.copy(),
            delivery=self._delivery.copy(),
        )

    def evidence(self) -> Evidence:
        """What `--verify` has to compare."""
        evidence = Evidence()
        for producer in self._producers:
            ledger = producer.press.ledger
            evidence.sent[producer.index] = ledger.sent
            evidence.excused[producer.index] = ledger.refused + ledger.unsettled()
        for queue, seen in self._seen.items():
            evidence.seen |= {(queue, producer): bytes(one.bits) for producer, one in seen.items()}
        for witness in [consumer.meter.witness for consumer in self._consumers]:
            if witness is not None:
                evidence.duplicated += witness.duplicated
                evidence.disordered += witness.disordered
                evidence.again += witness.again
                evidence.foreign += witness.foreign
        return evidence

    async def _client(self, role: str, index: int) -> Client:
        settings = self.settings
        client = Client(f"{settings.identity} {role} {index}", settings.heartbeat, settings.frame_max)
        client.on_failure = self._failed
        await client.open(settings.addresses_for(index))
        return client

    async def _producer(self, index: int) -> Producer:
        settings = self.settings
        client = await self._client("producer", index)
        if settings.confirm:
            await client.call(ConfirmSelect())
        block = build_block(settings, index, CHANNEL, client.frame_max)
        ledger = Ledger(self._confirm, awaited=settings.confirm > 0)
        pacer = Pacer(settings.rate, 0) if settings.rate else None
        press = Press(block, ledger, settings.confirm, settings.producer_messages, pacer)
        client.link.publish(press)
        return Producer(index, client, press)

    async def _consumer(self, index: int) -> Consumer:
        settings = self.settings
        client = await self._client("consumer", index)
        if settings.prefetch:
            await client.call(BasicQos(0, settings.prefetch))
        if settings.global_prefetch:
            await client.call(BasicQos(0, settings.global_prefetch, global_=True))
        meter = Meter(self._delivery, self._ack_every(), settings.consumer_messages, self._witness(index))
        return Consumer(index, client, meter, Pacer(settings.consumer_rate, 0) if settings.consumer_rate else None)

    def _ack_every(self) -> int:
        settings = self.settings
        if settings.auto_ack:
            return 0
        limits = [limit for limit in (settings.prefetch, settings.global_prefetch) if limit]
        return max(1, min([settings.multi_ack, *limits]))

    def _witness(self, index: int) -> Witness | None:
        if not self.settings.verify:
            return None
        queue = self.settings.queue_of(index)
        return Witness(self.settings.run, queue, self._seen.setdefault(queue, {}))

    async def _subscribe(self, consumer: Consumer) -> None:
        if consumer.pace is not None:
            consumer.pace.start = time.time_ns()
        consume = BasicConsume(
            self.settings.queue_of(consumer.index),
            no_ack=self.settings.auto_ack,
            exclusive=self.settings.exclusive_consumers,
            arguments=self.settings.consumer_arguments,
        )
        await consumer.client.call(consume)

    def _failed(self, failure: PerfError) -> None:
        self.failure = self.failure or failure

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        for consumer in self._consumers:
            consumer.client.link.idle()
        self._beat()

    def _beat(self) -> None:
        now = time.monotonic()
        if self._heartbeat and now - self._beat_at > self._heartbeat / 2:
            self._beat_at = now
            for client in self._clients():
                client.beat()

    def _clients(self) -> list[Client]:
        return [one.client for one in self._producers] + [one.client for one in self._consumers]


async def _all(gate: asyncio.Semaphore, jobs: list[Coroutine[Any, Any, T]]) -> list[T]:
    async def one(job: Coroutine[Any, Any, T]) -> T:
        async with gate:
            return await job

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(job)) for job in jobs]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
