"""Ranges of queues' logs: how they are planned in the driver and read in the executors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from mirrormq.lake.client import MIRRORS, ONLY, Feed, FeedClient
from mirrormq.lake.decode import Decoder
from mirrormq.lake.errors import LakeError, Trimmed
from mirrormq.lake.options import EARLIEST, LATEST

PAUSE: Final = 0.2
WAIT: Final = 5  # seconds that a node is given to hear that what was planned is stable


@dataclass(frozen=True)
class Range:
    """Entries `first` to `upto` - 1 of one log, and who is to be asked for them first."""

    vhost: str
    queue: str
    queue_id: str
    first: int
    upto: int
    places: tuple[str, ...] = ()
    is_only: bool = False
    epoch: int = 0  # of the last entry when the range was planned, 0 if not known: none of a later epoch belongs in it

    def cut(self, rows: int) -> list[Range]:
        """In pieces of at most so many indexes, each of which one task reads."""
        firsts = range(self.first, self.upto, max(rows, 1))
        return [replace(self, first=first, upto=min(first + rows, self.upto)) for first in firsts]


def range_of(feed: Feed, first: int, upto: int, nodes: str = MIRRORS) -> Range:
    places = feed.places(nodes, int(feed.id[-6:], 16))
    return Range(feed.vhost, feed.name, feed.id, first, upto, places, nodes.startswith(ONLY), feed.epoch_of(upto - 1))


def served(client: FeedClient, pattern: str) -> list[Feed]:
    """The queues that there are and that answer; one that does not is an error, for its rows would silently be missing. A queue
    whose leader changes just now is waited for."""
    deadline = time.monotonic() + client.address.patience
    while True:
        feeds = client.feeds(pattern)
        down = [feed for feed in feeds if feed.state != "running"]
        if not down:
            return feeds
        if time.monotonic() > deadline or down[0].state == "crashed":
            raise LakeError(f"queue '{down[0].name}' does not answer: its node {down[0].node} is down or the queue is damaged")
        time.sleep(PAUSE)


def place_of(client: FeedClient, feed: Feed, where: Any) -> int:
    """The index that an option means for this queue."""
    if where == EARLIEST:
        return feed.earliest
    if where == LATEST:
        return feed.end
    if isinstance(where, int):
        return client.index_at(feed.name, where)
    index = where.get(feed.name, where.get(feed.id))
    if index is None:
        return feed.earliest
    return feed.earliest if index == -2 else feed.end if index == -1 else int(index)


def read_range(client: FeedClient, part: Range, schema: pa.Schema, *, fail_on_data_loss: bool = True) -> Iterator[pa.RecordBatch]:
    """The rows of a range, the same whenever it is read and whoever gives them."""
    decoder = Decoder(part.vhost, part.queue, part.queue_id, schema, part.epoch)
    at = part.first
    while at < part.upto:
        try:
            data = _read_some(client, part, at)
        except Trimmed as loss:
            if fail_on_data_loss:
                raise
            at = loss.earliest or part.upto
            continue
        yield from decoder.feed(data)
        at = decoder.next_index
    if decoder.rows:
        yield decoder.batch()


def _read_some(client: FeedClient, part: Range, at: int) -> bytes:
    """What was planned is stable somewhere; who is asked may not have heard of it yet."""
    deadline = time.monotonic() + client.address.patience
    while True:
        data = client.read(part.queue, part.queue_id, at, part.upto, wait=WAIT, places=part.places, is_only=part.is_only)
        if data:
            return data
        if time.monotonic() > deadline:
            raise LakeError(f"queue '{part.queue}' gave no entries from {at} on, although its log goes on to {part.upto}")
