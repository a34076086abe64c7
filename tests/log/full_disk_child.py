"""Works on a small disk until it is full, then gets room and must go on.

    full_disk_child.py FOLDER ROOM

ROOM is "limit" (the size of files is limited for a while) or a path: a file there that takes space until it is removed.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from pathlib import Path

from mirrormq.log.committer import Committer
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.store import Store


def make_room(room: str) -> None:
    if room == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    else:
        Path(room).unlink()


async def main(folder: Path, room: str) -> None:
    loop = asyncio.get_running_loop()
    faults: list[str | None] = []
    store = Store(folder, wal_bytes=8 << 20)
    store.open()
    committer = Committer(store, loop, lambda _: None, faults.append)
    builder = ChunkBuilder(1, 1, 1)
    while not faults:
        builder.enqueue(0, b"", b"%d " % builder.next_index + b"." * 5000, 5000)
        store.append(1, builder.first_index, builder.count, builder.seal(1))
        committer.kick()
        await asyncio.sleep(0.001)
    assert faults[0] is not None
    print(f"fault {faults[0]}", flush=True)
    for _ in range(10):
        builder.enqueue(0, b"", b"%d " % builder.next_index + b"." * 5000, 5000)
        store.append(1, builder.first_index, builder.count, builder.seal(1))
        committer.kick()
        await asyncio.sleep(0.05)
    assert faults[1:] == []
    make_room(room)
    await committer.drain()
    assert faults[1:] == [None]
    print(f"stored {builder.next_index - 1}", flush=True)
    committer.close()
    store.close()


if __name__ == "__main__":
    if sys.argv[2] == "limit":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
