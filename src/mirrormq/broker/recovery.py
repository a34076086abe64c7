"""A queue's state from what recovery found in its log.

Of a plain queue, everything below the cursor that is still live, and everything live between the cursor and the last index that
ended, is known one by one, a window of it with its content; from there on every entry is live and stays in the log until its turn
comes. Other queues know all of their messages one by one, and keep what their windows hold.
"""
from __future__ import annotations

from collections.abc import Iterator

from mypy_extensions import i64

from mirrormq.broker.backlog import WINDOW_BYTES, PlainBacklog
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.log.entries import ChunkBuilder
from mirrormq.log.fold import RecoveredQueue

READ_BYTES = 1 << 20


def restore_queue(queue: Queue, found: RecoveredQueue, *, forgotten_below: int = -1) -> None:
    """Transient messages below `forgotten_below` are not there any more; by default none is."""
    queue.damage = found.damage or ""
    queue.next_index = found.next_index
    queue.builder = ChunkBuilder(queue.log_id, found.epoch, found.next_index)
    queue.reserved = found.reserved
    queue.reserved_stably = found.reserved
    queue.look_ahead()
    # The window may reach beyond the log's end: what gets those indexes now is new.
    queue.delivered_high = queue.backlog.reserved = min(found.reserved, found.next_index)
    queue.kept = found.count
    queue.kept_bytes = found.bytes
    queue.senders = dict(found.publishers)
    queue.backlog.forgotten_below = found.next_index if forgotten_below < 0 else forgotten_below
    if queue.damage:
        return
    backlog = queue.backlog
    if isinstance(backlog, PlainBacklog):
        _restore_plain(queue, backlog, found)
    else:
        for message in _read_listed(queue, found):
            backlog.push_logged(message)
        for message in _read_live(queue, found, found.next_index):
            backlog.push_logged(message)
    queue.activate()


def _restore_plain(queue: Queue, backlog: PlainBacklog, found: RecoveredQueue) -> None:
    for message in _read_listed(queue, found):
        _put_back(backlog, message)
    start: i64 = found.cursor
    if found.ended >= start:
        for message in _read_live(queue, found, found.ended + 1):
            _put_back(backlog, message)
        start = found.ended + 1
    kept = [message for _, message in backlog.returned if message.persistent]
    backlog.tail_persistent = found.count - len(kept)
    backlog.tail_persistent_bytes = found.bytes - sum([message.size for message in kept])
    light = [size for index, size in found.transients.items() if index >= start and index >= backlog.forgotten_below]
    backlog.tail = backlog.tail_persistent + len(light)
    backlog.tail_next = start
    backlog.count += backlog.tail
    backlog.bytes += backlog.tail_persistent_bytes + sum(light)


def _put_back(backlog: PlainBacklog, message: Message) -> None:
    if backlog.bytes > WINDOW_BYTES:
        message.content = b""       # the log has it; it is read again in its turn
    backlog.put_back(message)


def _read_listed(queue: Queue, found: RecoveredQueue) -> Iterator[Message]:
    """What is live below the cursor."""
    backlog = queue.backlog
    for index in found.live:
        for entry in backlog.log.read(queue.log_id, index, 1)[:1]:
            if entry.index == index and not backlog.is_forgotten(entry):
                yield backlog.message_of(entry)


def _read_live(queue: Queue, found: RecoveredQueue, end: int) -> Iterator[Message]:
    """What is live from the cursor to `end`."""
    backlog = queue.backlog
    at = found.cursor
    while at < end:
        entries = backlog.log.read(queue.log_id, at, READ_BYTES)
        if not entries:
            break
        for entry in entries:
            if entry.index < end and entry.index not in found.gone and not backlog.is_forgotten(entry):
                yield backlog.message_of(entry)
        at = entries[-1].index + 1
