"""What a crash left lying about, cleared away when the store is opened. Compiled.

Only what is known to be of no use is removed: files that a queue's manifest does not name, directories of queues that were
dropped, spares that were not finished. A directory that nobody knows is left alone, and reported.
"""

from __future__ import annotations

from pathlib import Path

from mirrormq.log.helper import perform
from mirrormq.log.queue import QueueLog
from mirrormq.log.recovery import Recoverer
from mirrormq.log.wal import SPARE_SUFFIX, Wal


class Leftovers:
    def __init__(self, wal: Wal, directory: Path, queues: dict[int, QueueLog], recoverer: Recoverer) -> None:
        self._wal: Wal = wal
        self._directory: Path = directory
        self._queues: dict[int, QueueLog] = queues
        self._recoverer: Recoverer = recoverer

    def clear(self) -> None:
        for folder in (self._wal.directory, self._directory.parent, self._directory.parent / "quarantine"):
            for path in folder.glob("*.new"):
                path.unlink()
        for path in sorted(self._wal.directory.glob("*" + SPARE_SUFFIX)):
            self._wal.spares.append(path)
        for path in sorted(self._directory.iterdir()):
            if path.is_dir():
                self._clear_queue(path)

    def _clear_queue(self, path: Path) -> None:
        queue_id = _queue_id(path.name)
        queue = self._queues.get(queue_id)
        if queue is not None and not queue.damage:
            named = {segment.path for segment in queue.segments}
            if queue_id in self._recoverer.asides:
                named |= {segment.path for segment in self._recoverer.asides[queue_id].segments}
            perform(("remove", [str(file) for file in path.iterdir() if file not in named]))
        elif queue is None and queue_id in self._recoverer.dropped:
            perform(("remove_tree", str(path)))
        elif queue is None:
            self._recoverer.recovery.notes.append(
                f"{path} belongs to no queue that the log knows; it is left as it is, remove it if you do not need it"
            )


def _queue_id(name: str) -> int:
    try:
        return int(name, 16)
    except ValueError:
        return -1
