"""A process to be killed while its helper is at a long job in the store's directory.

    worker_child.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mirrormq.log.store import Store
from mirrormq.log.syncer import Worker


async def main(folder: Path) -> None:
    store = Store(folder)
    store.open()
    worker = Worker(asyncio.get_running_loop(), store.lock_fd)
    await worker.perform(("remove", []))
    job = asyncio.create_task(worker.perform(("fill", str(folder / "wal" / "x.spare"), 64 << 20)))
    while not (folder / "wal" / "x.spare.new").exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.001)
    print("filling", flush=True)
    await job


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
