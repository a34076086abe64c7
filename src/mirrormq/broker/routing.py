"""From an exchange to queues.

Exchanges bound to exchanges are followed, each at most once a message, so cycles end. An exchange that has no
destination for a message hands it to its alternate exchange; that is asked of every exchange on the way, not of the
whole result. The default exchange stands for the queues named by the routing keys. As an alternate it takes nothing, as
in RabbitMQ, so an empty `alternate-exchange` argument is a way of having none whatever a policy says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mirrormq.broker.bindings import Destination, Envelope
from mirrormq.broker.exchange import Exchange

FindExchange: TypeAlias = Callable[[str], Exchange | None]
FindQueue: TypeAlias = Callable[[str], Destination | None]


def route(
    exchange: Exchange, envelope: Envelope, find_exchange: FindExchange, find_queue: FindQueue
) -> list[Destination]:
    """The queues that get a copy, each once. `find_*` look up names in the exchange's virtual host."""
    if exchange.name == "":
        return _named_queues(envelope.routing_keys, find_queue)
    queues: dict[Destination, None] = {}
    visited: set[Destination] = {exchange}
    waiting: list[Exchange] = [exchange]
    while waiting:
        for destination in _step(waiting.pop(), envelope, find_exchange):
            if not isinstance(destination, Exchange):
                queues[destination] = None
            elif destination not in visited:
                visited.add(destination)
                waiting.append(destination)
    return list(queues)


def _named_queues(names: list[str], find_queue: FindQueue) -> list[Destination]:
    queues: dict[Destination, None] = {}
    for name in names:
        queue = find_queue(name)
        if queue is not None:
            queues[queue] = None
    return list(queues)


def _step(exchange: Exchange, envelope: Envelope, find_exchange: FindExchange) -> list[Destination]:
    found = exchange.match(envelope)
    if found or exchange.alternate is None:
        return found
    alternate = find_exchange(exchange.alternate)
    return [] if alternate is None else [alternate]


def reachable(exchange: Exchange, find_exchange: FindExchange) -> list[Exchange]:
    """The exchange and every exchange that a message may pass after it, alternates included."""
    order: list[Exchange] = [exchange]
    visited: set[Destination] = {exchange}
    at = 0
    while at < len(order):
        for following in _neighbours(order[at], find_exchange):
            if following not in visited:
                visited.add(following)
                order.append(following)
        at += 1
    return order


def _neighbours(exchange: Exchange, find_exchange: FindExchange) -> list[Exchange]:
    found = [destination for destination in exchange.destinations() if isinstance(destination, Exchange)]
    alternate = None if exchange.alternate is None else find_exchange(exchange.alternate)
    return found if alternate is None else [*found, alternate]


def depends_on_headers(exchange: Exchange, find_exchange: FindExchange) -> bool:
    """Whether anything but the routing keys decides where messages go from here, so that a route must not be kept."""
    return any(stop.hashes_content or stop.is_delayed for stop in reachable(exchange, find_exchange))
