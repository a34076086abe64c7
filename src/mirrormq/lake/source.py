"""Reading queues' logs in Spark: batches and streams of rows by address. Nothing is consumed.

Spark pickles readers and runs their methods in several processes: planning in one that lives as long as the query, `read` in a
copy for each task. So nothing is shared through `self` but the options.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from mirrormq.lake.client import Feed, FeedClient
from mirrormq.lake.errors import LakeError
from mirrormq.lake.options import Options
from mirrormq.lake.ranges import Range, place_of, range_of, read_range, served

IDLE: Final = 1.0  # seconds that a stream with nothing new holds Spark's question, asked a hundred times a second otherwise
POLL: Final = 0.1
UNLIMITED: Final = 1 << 62

Offset = dict[str, Any]
"""By log id: the queue's name, the first index that was there when it was found, the next index to read, and the
epoch of the entry before it."""


class Part(InputPartition):
    def __init__(self, part: Range) -> None:
        super().__init__(part)
        self.part = part


class BatchReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        client = FeedClient(self.options.address)
        ranges: list[Range] = []
        for feed in self.wanted(served(client, self.options.pattern)):
            first, upto = self.bounds(client, feed)
            ranges += range_of(feed, first, upto, self.options.nodes).cut(self.options.partition_rows)
        client.close()
        return [Part(part) for part in ranges]

    def wanted(self, feeds: list[Feed]) -> list[Feed]:
        if not feeds:
            raise LakeError(
                f"no queue of vhost '{self.options.address.vhost}' that user '{self.options.address.user}' may read "
                f"matches '{self.options.pattern}'"
            )
        return feeds

    def bounds(self, client: FeedClient, feed: Feed) -> tuple[int, int]:
        first = place_of(client, feed, self.options.starting)
        upto = min(place_of(client, feed, self.options.ending), feed.end)
        if first < feed.earliest and not self.options.fail_on_data_loss:
            first = feed.earliest
        return first, max(first, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Part):
            return  # Spark's stand-in where there are no ranges at all
        client = FeedClient(self.options.address)
        try:
            yield from read_range(client, partition.part, self.options.schema, fail_on_data_loss=self.options.fail_on_data_loss)
        finally:
            client.close()


class PushingReader(BatchReader):
    """Reads only the queues, indexes and times that the query asks for. Spark looks at the rows once more all the same."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.queues: set[str] | None = None
        self.first = 0
        self.upto = 1 << 62
        self.since = 0

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for each in filters:
            self._narrow(each)
        return filters

    def _narrow(self, each: Filter) -> None:
        match each:
            case EqualTo(("queue",), name):
                self._only({str(name)})
            case In(("queue",), names):
                self._only({str(name) for name in names})
            case EqualTo(("index",), int(index)):
                self.first, self.upto = max(self.first, index), min(self.upto, index + 1)
            case GreaterThan(("index",), int(index)):
                self.first = max(self.first, index + 1)
            case GreaterThanOrEqual(("index",), int(index)):
                self.first = max(self.first, index)
            case LessThan(("index",), int(index)):
                self.upto = min(self.upto, index)
            case LessThanOrEqual(("index",), int(index)):
                self.upto = min(self.upto, index + 1)
            case GreaterThan(("time",), moment) | GreaterThanOrEqual(("time",), moment):
                self.since = max(self.since, int(moment.timestamp() * 1000))

    def _only(self, names: set[str]) -> None:
        self.queues = names if self.queues is None else self.queues & names

    def wanted(self, feeds: list[Feed]) -> list[Feed]:
        return [feed for feed in super().wanted(feeds) if self.queues is None or feed.name in self.queues]

    def bounds(self, client: FeedClient, feed: Feed) -> tuple[int, int]:
        first, upto = super().bounds(client, feed)
        # A skip takes many indexes and stands at its first: it must not be cut in two by a filter on the index.
        first = max(first, self.first)
        if self.since:
            first = max(first, client.index_at(feed.name, self.since))
        return first, max(first, min(upto, self.upto))


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options) -> None:
        self.options = options
        self.client = FeedClient(options.address)
        self.target: dict[str, int] | None = None  # for availableNow: where each log ended when the run began
        self.places: dict[str, tuple[str, ...]] = {}  # by log id, who is to be asked first

    # --- offsets ------------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        self._register({})
        where = self.options.starting
        return {feed.id: _place(feed, place_of(self.client, feed, where)) for feed in served(self.client, self.options.pattern)}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        deadline = time.monotonic() + IDLE
        while True:
            feeds = served(self.client, self.options.pattern)
            self.places = {feed.id: range_of(feed, 0, 0, self.options.nodes).places for feed in feeds}
            end = self._advance(start, feeds, limit)
            if end != start or self.target is not None or time.monotonic() > deadline:
                return end
            time.sleep(POLL)

    def _advance(self, start: Offset, feeds: list[Feed], limit: ReadLimit) -> Offset:
        left = limit.max_rows if isinstance(limit, ReadMaxRows) else UNLIMITED
        bytes_left = UNLIMITED if isinstance(limit, ReadAllAvailable) else self.options.max_bytes or UNLIMITED
        end: Offset = {}
        # Queues take turns to be first, by their position: with a limit, none starves the others.
        for feed in sorted(feeds, key=lambda feed: int(start.get(feed.id, {}).get("next", 0))):
            here = start.get(feed.id) or _place(feed, feed.earliest)
            self._check_branch(feed, here)
            stop = feed.end if self.target is None else min(feed.end, self.target.get(feed.id, here["next"]))
            upto = max(min(stop, here["next"] + left), here["next"])
            if bytes_left != UNLIMITED and upto > here["next"]:
                upto, size = self._within(feed, here["next"], upto, bytes_left)
                bytes_left -= size
            left -= upto - here["next"]
            end[feed.id] = here if upto == here["next"] else here | {"next": upto, "epoch": feed.epoch_of(upto - 1)}
        return end

    def _check_branch(self, feed: Feed, here: dict[str, Any]) -> None:
        if self.options.fail_on_data_loss:
            feed.check_branch(here["next"], here.get("epoch", 0))

    def _within(self, feed: Feed, first: int, upto: int, limit: int) -> tuple[int, int]:
        """As far as the bytes that are left reach; the first queue gets at least something."""
        if limit <= 0:
            return first, 0
        index, size = self.client.span(feed.name, max(first, feed.earliest), limit)
        return max(first, min(upto, index)), size

    def reportLatestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return {feed.id: _place(feed, feed.end) for feed in self.client.feeds(self.options.pattern)}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        if self.options.max_rows:
            return ReadMaxRows(self.options.max_rows)
        return ReadMaxBytes(self.options.max_bytes) if self.options.max_bytes else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self.target = {feed.id: feed.end for feed in served(self.client, self.options.pattern)}

    # --- reading ------------------------------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        ranges: list[Range] = []
        for log_id, place in end.items():
            first = start[log_id]["next"] if log_id in start else place["first"]
            places = self.places.get(log_id, ())
            epoch = place.get("epoch", 0) if self.options.fail_on_data_loss else 0
            part = Range(self.options.address.vhost, place["queue"], log_id, first, place["next"], places, epoch=epoch)
            ranges += part.cut(self.options.partition_rows)
        return [Part(part) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return BatchReader(self.options).read(partition)

    def commit(self, end: Offset) -> None:
        self._register({log_id: place["next"] for log_id, place in end.items()})

    def _register(self, acknowledged: dict[str, int]) -> None:
        if self.options.mirror:
            self.client.put_mirror(self.options.mirror, pattern=self.options.pattern, queues=acknowledged)


def _place(feed: Feed, index: int) -> dict[str, Any]:
    return {"queue": feed.name, "first": index, "next": index, "epoch": feed.epoch_of(index - 1)}
