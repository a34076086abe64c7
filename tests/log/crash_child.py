"""A process to be killed: publishes and acknowledges in three queues, and tells what is durable.

    crash_child.py FOLDER SEED

Each message's content is its index and that of the message before it in its queue. For each commit it prints
"queue last-index acknowledged-up-to" lines. It starts from what it finds.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from pathlib import Path
from random import Random

from mirrormq.log.committer import Committer
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.fold import RecoveredQueue
from mirrormq.log.keeper import Keeper
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

QUEUES = (1, 2, 3)


class Queue:
    def __init__(self, store: Store, queue_id: int, found: RecoveredQueue | None) -> None:
        self.store = store
        self.queue_id = queue_id
        self.live: list[tuple[int, int]] = []
        self.acked = 0
        self.last = 0
        if found is not None:
            assert found.damage is None, found.damage
            self.find_live(found)
        self.builder = ChunkBuilder(queue_id, 1, store.next_index(queue_id))

    def find_live(self, found: RecoveredQueue) -> None:
        assert not len(found.live)
        start = found.cursor
        while entries := self.store.read(self.queue_id, start, 100_000):
            self.live += [(entry.index, entry.size) for entry in entries if entry.index not in found.gone]
            start = entries[-1].index + 1
        self.acked = found.cursor - 1
        self.last = self.live[-1][0] if self.live else 0

    def publish(self, number: int, filler: int) -> None:
        for _ in range(number):
            content = b"%d %d %s" % (self.builder.next_index, self.last, b"." * filler)
            self.last = self.builder.enqueue(0, b"", content, len(content))
            self.live.append((self.last, len(content)))

    def ack(self, number: int) -> None:
        gone, self.live = self.live[:number], self.live[number:]
        if gone:
            self.builder.ack([gone[0][0], gone[-1][0]], len(gone), sum(size for _, size in gone))
            self.acked = gone[-1][0]

    def seal(self) -> None:
        if self.builder.count:
            first, count = self.builder.first_index, self.builder.count
            self.store.append(self.queue_id, first, count, self.builder.seal(1))

    def snapshot(self) -> Snapshot:
        self.seal()
        cursor = self.live[0][0] if self.live else self.builder.next_index
        size = sum(size for _, size in self.live)
        return Snapshot(self.queue_id, 1, self.builder.next_index, cursor, array("Q"), 0, len(self.live), size)


async def main(folder: Path, seed: int) -> None:
    random = Random(seed)
    loop = asyncio.get_running_loop()
    store = Store(folder, wal_bytes=200_000, segment_bytes=60_000)
    recovery = store.open()
    queues = {queue_id: Queue(store, queue_id, recovery.queues.get(queue_id)) for queue_id in QUEUES}
    waiting: list[tuple[int, str]] = []

    def durable(position: int) -> None:
        told = ""
        while waiting and waiting[0][0] <= position:
            told += waiting.pop(0)[1]
        sys.stdout.write(told)
        sys.stdout.flush()

    def fault(sentence: str | None) -> None:
        sys.exit(f"a fault: {sentence}")

    committer = Committer(store, loop, durable, fault)
    keeper = Keeper(store, committer, loop, lambda queue_id: queues[queue_id].snapshot())
    async with asyncio.TaskGroup() as group:
        group.create_task(keeper.run())
        print("ready", flush=True)
        while True:
            queue = queues[random.choice(QUEUES)]
            queue.publish(random.randrange(40), random.randrange(400))
            backlog = len(queue.live)
            queue.ack(random.randrange(backlog // 2 + 1) if random.random() < 0.5 or backlog > 3000 else 0)
            queue.seal()
            waiting.append((store.position, f"{queue.queue_id} {queue.last} {queue.acked}\n"))
            committer.kick()
            await asyncio.sleep(0)
            if store.pending_bytes > 500_000:
                await committer.drain()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
