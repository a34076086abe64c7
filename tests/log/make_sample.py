"""Writes the sample directory that every later version must be able to read.

    PYTHONPATH=src python tests/log/make_sample.py tests/log/sample-v1

Run it once for each format version, never again for an old one. What must be found in it is written beside it, in
expected.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from array import array
from hashlib import sha256
from pathlib import Path

from mirrormq.log.entries import MAXLEN, REDELIVERED, TRANSIENT, ChunkBuilder
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.recovery import Recovery
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store

BACKLOG, MIXED, DROPPED, EMPTY = 0x51, 0x52, 0x53, 0x54
MESSAGES = 240


def seal(store: Store, builder: ChunkBuilder, time_ms: int) -> None:
    first, count = builder.first_index, builder.count
    store.append(builder.queue_id, first, count, builder.seal(time_ms))


def backlog(store: Store, acked: int) -> Snapshot:
    """The long queue: the first `acked` messages ended but for the third."""
    next_index = store.next_index(BACKLOG)
    live = array("Q", [3] if acked >= 3 else [])
    count = min(next_index - 1, MESSAGES) - acked + len(live)
    return Snapshot(BACKLOG, 1, next_index, acked + 1, live, 0, count, 150 * count, b"backlog")


def write_backlog(store: Store) -> None:
    builder = ChunkBuilder(BACKLOG, 1, 1)
    for number in range(MESSAGES):
        builder.enqueue(0, b"orders", (b"%d-" % number * 50)[:150], 150)
        if builder.count == 8:
            seal(store, builder, 1_000 + number)
            store.commit()
            run_steps(store, due_work(store, lambda queue_id: backlog(store, 0)))


def write_mixed(store: Store) -> None:
    builder = ChunkBuilder(MIXED, 7, 1)
    builder.config(b'{"x-max-length": 10}')
    builder.enqueue(0, b"a", b"persistent", 10)
    builder.enqueue(TRANSIENT, b"b", b"transient", 9)
    builder.enqueue(REDELIVERED, b"c", b"redelivered", 11)
    builder.enqueue_extra(0, b"d", b"with extra", 10, b"extra blob", bytes(range(24)))
    builder.skip(1000)
    seal(store, builder, 5_000)
    builder.reserve(1005)
    builder.enqueue(0, b"e", b"x" * 5000, 5000)
    builder.requeue([4, 4])
    builder.ack([2, 2], 1, 10)
    builder.drop(MAXLEN, [4, 4], 1, 11)
    seal(store, builder, 6_000)


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    store = Store(folder, wal_bytes=12_000, segment_bytes=10_000)
    store.open()
    write_backlog(store)
    dropped = ChunkBuilder(DROPPED, 1, 1)
    dropped.enqueue(0, b"", b"gone", 4)
    seal(store, dropped, 1)
    store.commit()
    store.drop(DROPPED)
    write_mixed(store)
    store.put_snapshot(Snapshot(EMPTY, 2, 500, 500, array("Q"), 400, extra=b"empty"))
    builder = ChunkBuilder(BACKLOG, 1, store.next_index(BACKLOG))
    builder.ack([1, 2, 4, 20], 19, 19 * 150)
    seal(store, builder, 7_000)
    store.close()
    for spare in (folder / "wal").glob("*.spare"):
        spare.unlink()
    (folder / "LOCK").unlink()
    store = Store(folder)
    found = describe(store, store.open())
    store.close()
    (folder / "LOCK").unlink()
    (folder / "expected.json").write_text(json.dumps(found, indent=2) + "\n")


def describe(store: Store, recovery: Recovery) -> dict[str, object]:
    """Everything that can be read out of a store."""
    assert recovery.notes == []
    return {f"{queue_id:x}": describe_queue(store, recovery, queue_id) for queue_id in sorted(recovery.queues)}


def describe_queue(store: Store, recovery: Recovery, queue_id: int) -> dict[str, object]:
    queue = recovery.queues[queue_id]
    messages = []
    start = 1
    while entries := store.read(queue_id, start, 1000):
        for entry in entries:
            digest = sha256(entry.address + b"|" + entry.content + b"|" + entry.extra + b"|" + entry.publisher)
            messages.append([entry.index, entry.flags, entry.size, entry.time_ms, digest.hexdigest()[:16]])
        start = entries[-1].index + 1
    return {
        "epoch": queue.epoch, "next_index": queue.next_index, "cursor": queue.cursor, "live": list(queue.live),
        "gone": queue.gone.flat(), "reserved": queue.reserved, "count": queue.count, "bytes": queue.bytes,
        "extra": queue.extra.decode(), "configs": [config.decode() for config in queue.configs],
        "damage": queue.damage, "messages": messages,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
