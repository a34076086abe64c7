"""How old the oldest ready message of a queue is, without a clock in each message.

Whoever looks at a queue leaves a mark: the index that the next message will get, and the time. A message whose index is below a
mark was there when the mark was made. So the oldest mark above the head's index tells the least that the head's age can be, as
precisely as the queue is looked at. Marks that no ready message needs are dropped, and of many only some are kept.
"""

from __future__ import annotations

from typing import Final

from mirrormq.broker.backlog import PlainBacklog
from mirrormq.broker.queue import Queue

MOST: Final = 64            # marks of one queue
FORGET: Final = 3_600_000   # milliseconds after which a queue that nobody looks at is forgotten


class _Marks:
    def __init__(self) -> None:
        self.marks: list[tuple[int, int]] = []      # next index, time
        self.looked = 0


class Ages:
    def __init__(self) -> None:
        self._queues: dict[int, _Marks] = {}          # by log id
        self._swept = 0

    def look(self, queue: Queue, now: int) -> float:
        """Seconds; 0 for a queue with nothing ready, in which a mark would tell nothing of what comes later."""
        head, key = first_ready(queue), int(queue.log_id)
        if head is None:
            self._queues.pop(key, None)
            return 0.0
        found = self._queues.get(key)
        if found is None:
            found = self._queues[key] = _Marks()
        found.looked = now
        found.marks = [mark for mark in found.marks if mark[0] > head]
        oldest = found.marks[0][1] if found.marks else now
        if not found.marks or found.marks[-1][0] != queue.next_index:
            found.marks.append((int(queue.next_index), now))
        if len(found.marks) > MOST:
            found.marks = found.marks[:1] + found.marks[1::2]
        self._sweep(now)
        return (now - oldest) / 1000

    def _sweep(self, now: int) -> None:
        if now - self._swept > FORGET:
            self._swept = now
            self._queues = {key: marks for key, marks in self._queues.items() if now - marks.looked <= FORGET}


def first_ready(queue: Queue) -> int | None:
    """Its index, as far as memory tells; nothing is read from disk for it."""
    backlog = queue.backlog
    if not backlog.count:
        return None
    if not isinstance(backlog, PlainBacklog):
        head = backlog.head()
        return None if head is None else int(head.index)
    if backlog.returned:
        return int(backlog.returned[0][0])
    return int(backlog.window[0].index if backlog.window else backlog.tail_next)
