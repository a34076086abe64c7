"""Where a publish goes: worked out once for each distinct basic.publish payload and kept until bindings or permissions change."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.exchange import Exchange

if TYPE_CHECKING:
    from mirrormq.broker.queue import Queue


class Route:
    def __init__(self, exchange: Exchange, routing_key: str, address: bytes, queues: list[Queue], *,
                 mandatory: bool, special: bool) -> None:
        self.exchange: Exchange = exchange
        self.routing_key: str = routing_key
        self.address: bytes = address
        self.queues: list[Queue] = queues
        self.mandatory: bool = mandatory
        self.special: bool = special        # must be routed message by message: headers, delays, tracing
