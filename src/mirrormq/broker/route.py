"""Where a publish goes: worked out once for each distinct basic.publish payload and kept until bindings or permissions change."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

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
        self.count: i64 = 0                 # publishes that went this way and that the exchange does not know of yet

    def settle(self) -> None:
        """Let the exchange know of them. They are counted here because that costs a publish the least."""
        if self.count:
            self.exchange.published_in += self.count
            self.exchange.published_out += self.count * len(self.queues)
            self.count = 0
