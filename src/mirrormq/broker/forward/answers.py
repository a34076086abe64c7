"""What the home waits for before it answers another node: runs and purges that become stable, gets that need a reservation."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.forward.codec import GOT, REDELIVERED, encode_confirmed, encode_message
from mirrormq.broker.journal import Afterwards
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.broker.stopping import out_of_service

if TYPE_CHECKING:
    from mirrormq.broker.forward.guests import GuestChannel, Stay
    from mirrormq.broker.forward.reception import Reception
    from mirrormq.broker.message import Message


class RunBarrier(Barrier):
    """A run that was enqueued here."""

    def __init__(self, reception: Reception, log_id: i64, first: i64, count: i64) -> None:
        super().__init__()
        self.reception: Reception = reception
        self.log_id: i64 = log_id
        self.first: i64 = first
        self.count: i64 = count
        self.refused: list[int] = []
        self.outstanding = 1            # until all of it has been enqueued
        self.is_publish = True

    def passed(self) -> None:
        if self.reception.port is None:
            return
        refused = self.refused
        if self.is_lost:                # which of them the log did not take nobody knows
            refused = list(range(self.first, self.first + self.count))
        self.reception.confirms.append(encode_confirmed(self.log_id, self.first, refused))


class AnswerBarrier(Barrier):
    """An answer that is ready and waits for stability."""

    def __init__(self, reception: Reception, queue: Queue, request: int, data: bytes) -> None:
        super().__init__()
        self.reception: Reception = reception
        self.queue: Queue = queue
        self.request: int = request
        self.data: bytes = data

    def passed(self) -> None:
        if self.is_lost:
            self.reception.refuse(self.request, 404, out_of_service(self.queue).text)
        else:
            self.reception.answer(self.request, self.data)


class GuestGet(Barrier):
    """A basic.get for a guest. It may have to wait until what it takes is stably reserved."""

    def __init__(self, reception: Reception, stay: Stay, channel: GuestChannel, request: int, *, no_ack: bool) -> None:
        super().__init__()
        self.reception: Reception = reception
        self.stay: Stay = stay
        self.channel: GuestChannel = channel
        self.request: int = request
        self.no_ack: bool = no_ack

    def passed(self) -> None:
        if self.stay.is_over:
            return
        if self.channel.is_closing or self.stay.queue.is_deleted:
            self.reception.refuse(self.request, 404, "")
        else:
            self._attempt_again()

    def _attempt_again(self) -> None:
        try:
            if self.is_lost or self.stay.queue.damage:
                raise out_of_service(self.stay.queue)
            self.attempt()
        except Exception as fault:  # noqa: BLE001 - whatever is wrong with the queue, nobody else is to blame
            self.reception.queue_failed(self.stay.queue, self.request, fault)

    def attempt(self) -> None:
        queue = self.stay.queue
        queue.touch()
        message = queue.get(self)
        if message is not None:
            self._hand_over(message)
        elif not self.outstanding:
            self.reception.answer(self.request, b"")

    def _hand_over(self, message: Message) -> None:
        queue = self.stay.queue
        tag: i64 = 0
        if self.no_ack:
            queue.got_no_ack += 1
            queue.settle(message)
        else:
            queue.got += 1
            queue.hold(message)
            tag = self.stay.lend(message, None, self.channel)
        head = GOT.pack(queue.backlog.count, tag, REDELIVERED if message.redelivered else 0)
        self.reception.answer(self.request, head + encode_message(message.address, message.content, message.size))


class LastLeft(Afterwards):
    """A cancel whose queue went with it is answered when the queue is gone."""

    def __init__(self, first: int, last: int, reception: Reception, request: int) -> None:
        super().__init__(first, last)
        self.reception: Reception = reception
        self.request: int = request

    def happen(self) -> None:
        self.reception.answer(self.request, b"")
