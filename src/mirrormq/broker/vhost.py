"""A virtual host: its exchanges, queues and bindings, and what becomes of them together."""
from __future__ import annotations

from mirrormq.broker.bindings import Binding, Destination
from mirrormq.broker.copies import Copies
from mirrormq.broker.exchange import Exchange, predeclared
from mirrormq.broker.queue import Queue
from mirrormq.wire.errors import NotFound
from mirrormq.wire.table import Table


class VirtualHost:
    def __init__(self, name: str) -> None:
        self.name: str = name
        self.description: str = ""
        self.tags: list[str] = []
        self.tracing: bool = False
        self.limits: dict[str, int] = {}
        self.exchanges: dict[str, Exchange] = {exchange.name: exchange for exchange in predeclared(name)}
        self.queues: dict[str, Queue] = {}
        self.copies: Copies = Copies()
        self.sources: dict[Destination, dict[Exchange, None]] = {}      # which exchanges are bound to a destination
        self.unbound: list[Binding] = []        # what was unbound in this batch of changes

    def exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.name}'")
        return found

    def queue(self, name: str) -> Queue:
        found = self.queues.get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.name}'")
        return found

    def put_queue(self, queue: Queue) -> None:
        self.queues[queue.name] = queue
        self.copies.add(queue.name, queue.arguments)

    def forget_queue(self, queue: Queue) -> None:
        if self.queues.pop(queue.name, None) is not None:
            self.copies.remove(queue.name, queue.arguments)

    def bind(self, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> bool:
        is_new = source.bind(destination, routing_key, arguments)
        if is_new:
            self.sources.setdefault(destination, {})[source] = None
        return is_new

    def unbind(self, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> bool:
        was_there = source.unbind(destination, routing_key, arguments)
        if was_there:
            self.unbound.append(Binding(source, destination, routing_key, arguments))
        if was_there and not source.bindings_to(destination):
            self._forget_source(destination, source)
        return was_there

    def bindings_to(self, destination: Destination) -> list[Binding]:
        """With those that go in the same batch: the bindings of what is deleted are told before it."""
        gone = [binding for binding in self.unbound if binding.destination is destination]
        return gone + [binding for source in self.sources.get(destination, {}) for binding in source.bindings_to(destination)]

    def _forget_source(self, destination: Destination, source: Exchange) -> None:
        sources = self.sources.get(destination)
        if sources is not None:
            sources.pop(source, None)
            if not sources:
                del self.sources[destination]

    def unbind_everywhere(self, destination: Destination) -> list[Exchange]:
        """Remove every binding to a destination; returns the exchanges that had one."""
        sources = list(self.sources.pop(destination, {}))
        for source in sources:
            source.unbind_destination(destination)
        return sources

    def replace(self, queue: Queue, front: Queue) -> None:
        """Whatever leads to the one leads to the other."""
        found = [(source, binding) for source in self.sources.get(queue, {}) for binding in source.bindings_to(queue)]
        self.unbind_everywhere(queue)
        for source, binding in found:
            self.bind(source, front, binding.routing_key, binding.arguments)
        self.queues[queue.name] = front

    def forget_exchange(self, exchange: Exchange) -> list[Exchange]:
        """Remove an exchange with its bindings both ways; returns the exchanges that were bound to it."""
        del self.exchanges[exchange.name]
        for destination in exchange.destinations():
            exchange.unbind_destination(destination)
            self._forget_source(destination, exchange)
        return self.unbind_everywhere(exchange)
