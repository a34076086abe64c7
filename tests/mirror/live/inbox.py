"""A consumer of pika's for tests that look at every delivery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pika.adapters.blocking_connection import BlockingChannel

from .rings import SETTLED, eventually


class Inbox:
    """A consumer that keeps what it gets and acknowledges nothing by itself."""

    def __init__(self, channel: BlockingChannel, queue: str, *, prefetch: int = 0, **options: Any) -> None:
        self.channel = channel
        self.got: list[tuple[bytes, bool, int]] = []        # body, redelivered, tag
        self.cancelled: list[str] = []
        self.tags: set[str] = set()
        channel.add_on_cancel_callback(lambda frame: self.cancelled.append(frame.method.consumer_tag))
        if prefetch:
            channel.basic_qos(prefetch_count=prefetch)
        self.tag = channel.basic_consume(queue, self._take, **options)

    def _take(self, _channel: BlockingChannel, method: Any, _properties: Any, body: bytes) -> None:
        self.got.append((body, method.redelivered, method.delivery_tag))
        self.tags.add(method.consumer_tag)

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _, _ in self.got]

    def until(self, wanted: Callable[[], bool], within: float = SETTLED) -> None:
        def look() -> bool:
            self.channel.connection.process_data_events(time_limit=0.02)
            return wanted()

        try:
            eventually(look, within=within)
        except AssertionError:
            raise AssertionError(f"got {self.got}, cancelled {self.cancelled}") from None

    def until_bodies(self, *bodies: bytes) -> None:
        self.until(lambda: self.bodies == list(bodies))

    def rest(self, seconds: float = 0.5) -> None:
        """Let come what comes."""
        self.channel.connection.process_data_events(time_limit=seconds)
