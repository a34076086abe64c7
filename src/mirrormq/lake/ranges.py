"""Ranges of queues' logs: how they are planned in the driver and read in the executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mirrormq.lake.client import Feed, FeedClient
from mirrormq.lake.decode import Decoder
from mirrormq.lake.errors import LakeError, Trimmed
from mirrormq.lake.options import EARLIEST, LATEST


@dataclass(frozen=True)
class Range:
    """Entries `first` to `upto` - 1 of one log."""

    vhost: str
    queue: str
    queue_id: str
    first: int
    upto: int

    def cut(self, rows: int) -> list[Range]:
        """In pieces of at most so many indexes, each of which one task reads."""
        return [
            Range(self.vhost, self.queue, self.queue_id, first, min(first + rows, self.upto))
            for first in range(self.first, self.upto, max(rows, 1))
        ]


def served(client: FeedClient, pattern: str) -> list[Feed]:
    """The queues that there are and that answer; one that does not is an error, for its rows would silently be missing."""
    feeds = client.feeds(pattern)
    down = [feed for feed in feeds if feed.state != "running"]
    if down:
        raise LakeError(f"queue '{down[0].name}' does not answer: its node {down[0].node} is down or the queue is damaged")
    return feeds


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
    """The rows of a range, the same whenever it is read."""
    decoder = Decoder(part.vhost, part.queue, part.queue_id, schema)
    at = part.first
    while at < part.upto:
        try:
            data = client.read(part.queue, part.queue_id, at, part.upto)
        except Trimmed as loss:
            if fail_on_data_loss:
                raise
            at = loss.earliest or part.upto
            continue
        if not data:
            raise LakeError(f"queue '{part.queue}' gave no entries from {at} on, although its log goes on to {part.upto}")
        yield from decoder.feed(data, part.upto)
        at = decoder.next_index
    if decoder.rows:
        yield decoder.batch()
