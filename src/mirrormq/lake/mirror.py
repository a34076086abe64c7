"""The lake as one more mirror: what is stable in queues' logs and not yet in the table `events` is read by Spark's tasks, written
as Parquet and committed, again and again.

Rules
 1. It registers as a lake mirror before it looks at anything, so that what it has not read is kept; each sync renews the lease
    and tells how far the table is. A job that dies lets the lease run out.
 2. The table is the only memory (see `tables`): a job that was killed at any moment goes on where the table ends.
 3. A commit is of bounded size, so that much work is not lost at once; a sync makes as many as it needs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mirrormq.lake.client import MIRRORS, Address, Feed, FeedClient
from mirrormq.lake.errors import Forked, LakeError
from mirrormq.lake.ranges import Range, range_of, read_range
from mirrormq.lake.schema import EVENTS
from mirrormq.lake.tables import Overtaken, Place, Table, Writer, Written

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT_ROWS: Final = 4_000_000
TASK_ROWS: Final = 250_000
TIDY_EVERY: Final = 50
LEASE: Final = 24 * 3_600_000


@dataclass
class Progress:
    """What one sync did. `lag` is what it left, in entries."""

    rows: int = 0
    commits: int = 0
    queues: int = 0
    lag: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def sentence(self) -> str:
        rate = f", {self.rows / self.seconds:,.0f} a second" if self.rows and self.seconds else ""
        text = f"{self.rows:,} entries of {self.queues} queues in {self.seconds:.1f} s{rate}; {self.lag:,} behind"
        return "; ".join([text, *self.notes])


class Mirror:
    def __init__(
        self,
        spark: SparkSession,
        address: Address,
        place: Place,
        name: str = "lake",
        pattern: str = ".*",
        *,
        lease: int = LEASE,
        commit_rows: int = COMMIT_ROWS,
        task_rows: int = TASK_ROWS,
        allow_loss: bool = False,
        nodes: str = MIRRORS,
        on_commit: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.spark = spark
        self.client = FeedClient(address)
        self.place = place
        self.events = Table(place, "events")
        self.name = name
        self.pattern = pattern
        self._lease = lease
        self._commit_rows = commit_rows
        self._task_rows = task_rows
        self._allow_loss = allow_loss
        self._nodes = nodes
        self._on_commit = on_commit
        self._commits = 0

    def start(self) -> None:
        self.client.put_mirror(self.name, pattern=self.pattern, lease=self._lease)
        self.events.create()

    def sync(self) -> Progress:
        """Everything that is stable now."""
        began = time.monotonic()
        progress = Progress()
        feeds = self._feeds(progress)
        done = self._places(feeds, progress)
        while True:
            ranges = self._plan(feeds, done)
            if not ranges:
                break
            self._commit(ranges, done, progress)
        self._acknowledge(done)
        progress.queues = len(feeds)
        progress.lag = sum(max(0, feed.end - done[feed.id]) for feed in self.client.feeds(self.pattern) if feed.id in done)
        progress.seconds = time.monotonic() - began
        return progress

    def _feeds(self, progress: Progress) -> list[Feed]:
        feeds = self.client.feeds(self.pattern)
        down = [feed.name for feed in feeds if feed.state != "running"]
        if down:
            progress.notes.append(f"{len(down)} queues do not answer now, '{down[0]}' first")
        return [feed for feed in feeds if feed.state == "running"]

    def _places(self, feeds: list[Feed], progress: Progress) -> dict[str, int]:
        """Where each log is to be read from."""
        there = self.events.next_indexes(feed.id for feed in feeds)
        epochs = self.events.epochs(there)
        places: dict[str, int] = {}
        oldest = self._oldest([feed for feed in feeds if there.get(feed.id, 1) < feed.earliest])
        for feed in feeds:
            places[feed.id] = there.get(feed.id, oldest.get(feed.id, feed.earliest))
            if feed.id in there:
                self._check_branch(feed, places, epochs.get(feed.id, 0), progress)
            if places[feed.id] < oldest.get(feed.id, feed.earliest):
                self._lost(feed, places, progress)
        return places

    def _oldest(self, feeds: list[Feed]) -> dict[str, int]:
        """A leader that came in by a full sync has less than mirrors that were there before it: the first index that any has."""
        mirrored = {feed.id: feed for feed in feeds if len(feed.members) > 1}
        told = self.client.feeds(self.pattern, with_copies=True) if mirrored else []
        return {
            feed.id: min(earliest for _, earliest, end in [("", mirrored[feed.id].earliest, 1 << 62), *feed.copies]
                         if end >= mirrored[feed.id].earliest)
            for feed in told if feed.id in mirrored
        }  # fmt: skip

    def _check_branch(self, feed: Feed, places: dict[str, int], epoch: int, progress: Progress) -> None:
        at = places[feed.id]
        try:
            feed.check_branch(at, epoch)
        except Forked as fork:
            gap = f"{fork.sentence}; what it has below {at} is not in the lake, which keeps what it read"
            self._give_up(feed, gap, (at, at), feed.epoch_of(at - 1), progress)

    def _lost(self, feed: Feed, places: dict[str, int], progress: Progress) -> None:
        at = places[feed.id]
        gap = f"entries {at} to {feed.earliest - 1} of queue '{feed.name}' are gone from the log and not in the lake"
        why = ": the mirror was away for longer than its lease or 'lake-retention' allowed"
        self._give_up(feed, gap, (at, feed.earliest), feed.epoch_of(feed.earliest - 1), progress, why)
        places[feed.id] = feed.earliest

    def _give_up(
        self, feed: Feed, gap: str, advance: tuple[int, int], epoch: int, progress: Progress, why: str = ""
    ) -> None:
        if not self._allow_loss:
            raise LakeError(f"{gap}{why}; go on without them with --allow-data-loss")
        progress.notes.append(gap)
        # The hole is told in the table itself, by a version that moves the mark and adds nothing.
        self.events.add([], {feed.id: advance}, {"mirrormq.lost": gap}, {feed.id: epoch})

    def _plan(self, feeds: list[Feed], done: dict[str, int]) -> list[Range]:
        left = self._commit_rows
        ranges: list[Range] = []
        for feed in feeds:
            upto = min(feed.end, done[feed.id] + left)
            if upto > done[feed.id]:
                left -= upto - done[feed.id]
                ranges.append(range_of(feed, done[feed.id], upto, self._nodes))
        return ranges

    def _commit(self, ranges: list[Range], done: dict[str, int], progress: Progress) -> None:
        files = self.write(ranges)
        advance = {part.queue_id: (part.first, part.upto) for part in ranges}
        epochs = {part.queue_id: part.epoch for part in ranges}
        self.events.add(files, advance, {"mirrormq.mirror": self.name}, epochs)
        done |= {part.queue_id: part.upto for part in ranges}
        progress.rows += sum(file.rows for file in files)
        progress.commits += 1
        self._commits += 1
        self._on_commit(self._commits)
        if self._commits % TIDY_EVERY == 0:
            self.events.tidy()
        self._acknowledge({part.queue_id: part.upto for part in ranges})

    def write(self, ranges: list[Range]) -> list[Written]:
        """Have Spark's tasks write the ranges; what they wrote is in no version of the table yet."""
        parts = [piece for part in ranges for piece in part.cut(self._task_rows)]
        task = WriteTask(self.client.address, self.place)
        context = self.spark.sparkContext
        groups = max(1, min(len(parts), context.defaultParallelism * 4))
        return [file for files in context.parallelize(parts, groups).map(task).collect() for file in files]

    def _acknowledge(self, done: dict[str, int]) -> None:
        self.client.put_mirror(self.name, pattern=self.pattern, lease=self._lease, queues=done)

    def follow(self, interval: float, on_sync: Callable[[Progress], None], is_over: Callable[[], bool] = lambda: False) -> None:
        """Sync after sync, `interval` seconds from the beginning of one to the next."""
        while not is_over():
            began = time.monotonic()
            try:
                on_sync(self.sync())
            except Overtaken:
                # Another job was faster. Look again where the table is: either it goes on with the work, or we do.
                time.sleep(min(interval, 1.0))
            time.sleep(max(0.0, interval - (time.monotonic() - began)))


class WriteTask:
    """Runs in an executor: one range into one file."""

    def __init__(self, address: Address, place: Place) -> None:
        self._address = address
        self._place = place

    def __call__(self, part: Range) -> list[Written]:
        client = FeedClient(self._address)
        writer = Writer(self._place, "events", EVENTS, f"{part.queue_id}-{part.first:016d}")
        try:
            for batch in read_range(client, part, EVENTS):
                writer.put(batch)
        finally:
            client.close()
        return writer.close()
