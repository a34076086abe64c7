"""What becomes of messages when a queue, or a chunk of its log, is full: the oldest go, or the new ones are refused."""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.arguments import DROP_HEAD, REJECT_PUBLISH_DLX
from mirrormq.broker.expiry import must_pause
from mirrormq.broker.message import Message
from mirrormq.broker.promised import put_back, set_aside, unpromised, unpromised_bytes
from mirrormq.broker.queue_log import OVERFLOW, REASONS
from mirrormq.log.errors import QueueDamaged

CHUNK_BYTES: Final = 64 << 20

if TYPE_CHECKING:
    from mirrormq.broker.queue import Queue


def append_much(queue: Queue) -> None:
    """Where one operation brings any number of messages: their chunk must not outgrow its format."""
    if queue.builder.size > CHUNK_BYTES:
        try:
            queue.append_gathered()
        except QueueDamaged as fault:
            queue.broker.stop_queue(queue, fault)


def make_place(queue: Queue) -> None:
    """Over the limit the oldest message goes, but not one that a waiting consumer can take."""
    if _is_over(queue):
        _work_ahead(queue)


def _is_over(queue: Queue) -> bool:
    settings = queue.settings
    if settings.max_length >= 0 and unpromised(queue) > settings.max_length:
        return True
    return settings.max_length_bytes >= 0 and unpromised_bytes(queue) > settings.max_length_bytes


def _work_ahead(queue: Queue) -> None:
    try:
        queue.broker.share_rooms()
        queue.pump()
        enforce_limits(queue)
    except Exception as fault:  # noqa: BLE001 - it is not the fault of whose publish asked for it
        queue.broker.stop_queue(queue, fault)


def has_place(queue: Queue, message: Message) -> bool:
    if queue.damage or not queue.is_enough:
        return False
    if queue.settings.overflow == DROP_HEAD or not is_full(queue, message):
        return True
    _work_ahead(queue)              # what a waiting consumer can take does not count against the limit
    queue.activate()
    if not is_full(queue, message):
        return not queue.damage
    if queue.settings.overflow == REJECT_PUBLISH_DLX:
        queue.broker.dead_letter(queue, message, REASONS[OVERFLOW], OVERFLOW)
    return False


def is_full(queue: Queue, message: Message) -> bool:
    settings = queue.settings
    if settings.max_length >= 0 and unpromised(queue) >= settings.max_length:
        return True
    return settings.max_length_bytes >= 0 and unpromised_bytes(queue) + message.size > settings.max_length_bytes


def enforce_limits(queue: Queue) -> None:
    if queue.settings.overflow == DROP_HEAD and _is_over(queue):
        promised = set_aside(queue)
        _drop_head(queue)
        put_back(queue, promised)


def _drop_head(queue: Queue) -> None:
    settings = queue.settings
    backlog = queue.backlog
    while settings.max_length >= 0 and backlog.count > settings.max_length and not must_pause(queue):
        queue.end(backlog.pop(), OVERFLOW)
    while settings.max_length_bytes >= 0 and backlog.bytes > settings.max_length_bytes and backlog.count \
            and not must_pause(queue):
        queue.end(backlog.pop(), OVERFLOW)
