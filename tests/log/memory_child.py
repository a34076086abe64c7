"""Puts many messages into one queue, one to a chunk, and tells how much memory that took.

    memory_child.py FOLDER MESSAGES PER_CHUNK

Prints the growth of resident memory in MiB after publishing, and after reading everything again.
"""

from __future__ import annotations

import gc
import sys
from array import array
from pathlib import Path

from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.keeper import due_work, run_steps
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store


def resident() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / (1 << 20)


def main(folder: Path, messages: int, per_chunk: int) -> None:
    store = Store(folder)
    store.open()
    before = resident()

    def snapshot(queue_id: int) -> Snapshot:
        return Snapshot(queue_id, 1, store.next_index(queue_id), 1, array("Q"), 0, store.next_index(queue_id) - 1, 0)

    builder = ChunkBuilder(1, 1, 1)
    peak = 0.0
    for number in range(messages):
        builder.enqueue(0, b"", b"%099d " % number, 100)
        if builder.count == per_chunk:
            store.append(1, builder.first_index, builder.count, builder.seal(1))
        if number % 4096 == 4095:
            store.commit(sync=False)
            if store.wal.retired:
                run_steps(store, due_work(store, snapshot))
                peak = max(peak, resident() - before)
    if builder.count:
        store.append(1, builder.first_index, builder.count, builder.seal(1))
    store.commit()
    print(max(peak, resident() - before))
    wanted, start = 0, 1
    while entries := store.read(1, start, 1 << 18):
        for entry in entries:
            assert int(entry.content) == wanted
            wanted += 1
        start = entries[-1].index + 1
    assert wanted == messages
    print(resident() - before)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
