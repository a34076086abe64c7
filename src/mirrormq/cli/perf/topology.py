"""The exchange, queues and bindings of a run: made before it, removed after it when they were made up for it."""

from __future__ import annotations

from contextlib import suppress

from mirrormq.cli.perf.client import Client
from mirrormq.cli.perf.errors import PerfError
from mirrormq.cli.perf.settings import Settings
from mirrormq.wire.methods import ExchangeDeclare, QueueBind, QueueDeclare, QueueDelete


class Topology:
    """What the run works with at the broker."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    async def declare(self) -> None:
        """Declare what the run needs; nothing when it is predeclared. Either way the broker must let us in."""
        client = self._client("setup")
        try:
            await client.open(self.settings.addresses)
            if not self.settings.predeclared:
                await self._declare_exchange(client)
                await self._declare_queues(client)
        finally:
            await client.close()

    async def remove(self) -> None:
        """Delete queues that only this run knew of. A broker that is gone takes no offence."""
        if not self.settings.temporary or self.settings.predeclared:
            return
        client = self._client("cleanup")
        with suppress(PerfError):
            await client.open(self.settings.addresses)
            for queue in self.settings.queues:
                await client.call(QueueDelete(queue))
        await client.close()

    async def _declare_exchange(self, client: Client) -> None:
        name = self.settings.exchange
        if name and not name.startswith("amq."):
            await client.call(ExchangeDeclare(name, self.settings.exchange_type, durable=True))

    async def _declare_queues(self, client: Client) -> None:
        settings = self.settings
        key = settings.binding_key or settings.routing_key
        for queue in settings.queues:
            declare = QueueDeclare(
                queue, durable=settings.durable, auto_delete=settings.auto_delete, arguments=settings.queue_arguments
            )
            await client.call(declare)
            if settings.exchange:
                await client.call(QueueBind(queue, settings.exchange, queue if key is None else key))

    def _client(self, role: str) -> Client:
        return Client(f"{self.settings.identity} {role}", self.settings.heartbeat, self.settings.frame_max)
