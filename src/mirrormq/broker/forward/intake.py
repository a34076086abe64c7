"""Publishes that other nodes forward, at their queue's home: each is enqueued once, however often its run arrives.

A run is confirmed when it is stable here. Runs may be confirmed out of order; the publishers' node puts that right.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.arguments import DROP_HEAD
from mirrormq.broker.forward.answers import RunBarrier
from mirrormq.broker.forward.codec import MESSAGE, MESSAGE_SIZE, RUN, RUN_SIZE, SAME, encode_confirmed, properties_of
from mirrormq.broker.forward.runs import Publisher, Run
from mirrormq.broker.message import InfoCache, Message
from mirrormq.broker.queue import Queue

if TYPE_CHECKING:
    from mirrormq.broker.forward.reception import Reception


def take_here(reception: Reception, queue: Queue, run: Run, settled: i64) -> None:
    """A run of this node's own clients, as they published it."""
    publisher = reception.forwarding.publisher_id()
    known = _publisher(reception, queue, publisher)
    first = run.first
    if not known.is_new(first) or (queue.ring is not None and known.comes_early(first, settled)):
        run.seal(queue.log_id, publisher, settled)
        take_run(reception, queue, run.frame)       # it was here before, or comes too early
        return
    known.settled(settled)
    barrier = RunBarrier(reception, queue.log_id, first, run.count)
    queue.origin = publisher if queue.ring is not None else 0
    sequence = first
    for message in run.messages:
        known.last = sequence
        queue.origin_sequence = sequence
        if not queue.publish(message, barrier):
            known.refused.append(sequence)
            barrier.refused.append(sequence)
        sequence += 1
    queue.origin = 0
    barrier.outstanding -= 1
    if barrier.outstanding == 0:
        barrier.passed()


def take_run(reception: Reception, queue: Queue | None, payload: bytes) -> None:
    log_id, publisher, first, settled, count = RUN.unpack_from(payload, 0)
    if queue is None or queue.is_deleted or queue.damage:
        lost = [] if log_id in reception.forwarding.deleted else list(range(first, first + count))
        reception.confirms.append(encode_confirmed(log_id, first, lost))
        return
    known = _publisher(reception, queue, publisher)
    if queue.ring is not None and known.comes_early(first, settled):
        reception.drop(log_id)          # it comes again, behind those that are missing
        return
    known.settled(settled)
    barrier = RunBarrier(reception, log_id, first, count)
    before = len(known.refused)
    if not known.is_new(first):         # sent again after a broken link
        barrier.refused = _refused(queue, known, first, first + count)
        queue.wait_for_chunk(barrier)
    if first + count > known.last + 1:
        if queue.ring is not None:
            queue.origin = publisher
        _enqueue(queue, payload, first, count, known, barrier, reception.forwarding.broker.infos)
        queue.origin = 0
    if len(known.refused) > before:
        barrier.refused = barrier.refused + known.refused[before:]
    barrier.outstanding -= 1
    if barrier.outstanding == 0:
        barrier.passed()


def _enqueue(queue: Queue, payload: bytes, first: i64, count: i64, known: Publisher, barrier: RunBarrier,
             infos: InfoCache) -> None:
    at: i64 = RUN_SIZE
    address = b""
    sequence: i64 = first
    end: i64 = first + count
    while sequence < end:
        length, size, content_length = MESSAGE.unpack_from(payload, at)
        at += MESSAGE_SIZE
        if length != SAME:
            address = payload[at:at + length]
            at += length
        content = payload[at:at + content_length]
        at += content_length
        if known.is_new(sequence):
            known.last = sequence
            queue.origin_sequence = sequence
            if not queue.publish(Message(content, address, infos.get(properties_of(content)), size), barrier):
                known.refused.append(sequence)
        sequence += 1


def _refused(queue: Queue, known: Publisher, first: i64, end: i64) -> list[int]:
    """Of a run that is here already, what was not taken. A leader that has just taken over finds it in its log, as far back as it
    has read that; of what is older, a queue that may have refused it says that it has."""
    refused = [sequence for sequence in known.refused if first <= sequence < end]
    sequence = first
    while sequence < end and sequence <= known.uncertain:
        if sequence > known.unsure:
            if sequence not in known.taken:
                refused.append(sequence)
        elif queue.settings.overflow != DROP_HEAD:
            refused.append(sequence)
        sequence += 1
    return refused


def _publisher(reception: Reception, queue: Queue, publisher: int) -> Publisher:
    """What the queue knows of a node's publishes; a mirrored one found it in its log when it took over."""
    known = queue.publishers.get(publisher)
    if known is None:
        reception.forwarding.note_publisher(reception.guests.name, publisher)
        known = queue.publishers[publisher] = Publisher()
    return known
