"""A branch: what the clients of a node that is cut off publish to a mirrored queue, kept on that node alone until it is healed.

Rules
 1. A branch takes whole runs, in place of the queue's home, and answers for them when they are on this node's disk. They take no
    sequence numbers of the home's: it will never hear of these runs.
 2. What was sent before is not taken: the home may have it. It goes on waiting for the home.
 3. A branch has no consumers. Its messages leave it when the real queue has confirmed them.
 4. Its log's number follows from the queue's, so no record is needed to find it again.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.arguments import QueueArguments, effective_settings
from mirrormq.broker.deadletter import with_properties
from mirrormq.broker.forward.codec import MESSAGE, MESSAGE_SIZE, RUN_SIZE, SAME, properties_of
from mirrormq.broker.message import InfoCache, Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.wire.properties import replace_headers
from mirrormq.wire.table import Table, encode_value, join_fields, split_fields

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.forward.away import AwayQueue
    from mirrormq.broker.forward.runs import Run

HEADER: Final = "x-branch"


class BranchBarrier(Barrier):
    """A run is on this node's disk, or was refused."""

    def __init__(self, front: AwayQueue, run: Run) -> None:
        super().__init__()
        self.front: AwayQueue = front
        self.run: Run = run
        self.outstanding = 1

    def passed(self) -> None:
        run = self.run
        if self.is_lost:
            run.refuse_all()
        self.front.embassy.add_load(-run.size)
        run.done()


class BranchQueue(Queue):
    """Hidden: no client knows its name. Of the queue's settings only the time to live holds here."""

    def __init__(self, broker: Broker, of: Queue) -> None:
        table: Table = {"x-message-ttl": int(of.settings.message_ttl)} if of.settings.message_ttl >= 0 else {}
        arguments = QueueArguments(table)
        super().__init__(broker, of.vhost, f"amq.branch.{of.name}", branch_id(of.log_id), durable=True, auto_delete=False,
                         owner=None, arguments=arguments, settings=effective_settings(arguments, {}))

    def take(self, front: AwayQueue, run: Run) -> None:
        barrier = BranchBarrier(front, run)
        sequence = run.first
        for message in messages_of(run, self.broker.infos):
            if not self.publish(message, barrier):
                run.refuse(sequence)
            sequence += 1
        barrier.outstanding -= 1
        if barrier.outstanding == 0:
            barrier.passed()

    def forget(self) -> None:
        """Everything has left."""
        self.is_deleted = True
        self.abandon()
        self.broker.forget_timer(self)
        self.broker.queues_by_log.pop(self.log_id, None)
        self.broker.log.drop(self.log_id)


def branch_id(log_id: int) -> int:
    """Queues have even numbers."""
    return log_id | 1


def messages_of(run: Run, infos: InfoCache) -> list[Message]:
    if not run.frame:
        return run.messages
    data = run.frame
    found: list[Message] = []
    at: i64 = RUN_SIZE
    end: i64 = len(data)
    address = b""
    while at < end:
        length, size, content_length = MESSAGE.unpack_from(data, at)
        at += MESSAGE_SIZE
        if length != SAME:
            address = data[at:at + length]
            at += length
        content = data[at:at + content_length]
        at += content_length
        found.append(Message(content, address, infos.get(properties_of(content)), size))
    return found


def open_branch(front: AwayQueue, branch: BranchQueue) -> None:
    """From now on the branch takes what is published, and what was not sent yet."""
    if front.run is not None:
        front.hand_over()
    front.branch = branch
    unsent = [run for run in front.unconfirmed.values() if not run.is_sent]
    for run in unsent:
        del front.unconfirmed[run.first]
    if unsent:
        front.sequence = unsent[0].first
    for run in unsent:
        branch.take(front, run)


def marked(broker: Broker, message: Message) -> Message:
    """A copy that says on which node's branch it was."""
    info = message.info
    fields = split_fields(info.properties, info.headers_at) if info.headers_at >= 0 else []
    kept = [field for field in fields if field[0] != HEADER]
    properties = replace_headers(info.properties, 0, join_fields([*kept, (HEADER, encode_value(broker.node_name))]))
    return Message(with_properties(message, properties), message.address, broker.infos.get(properties), message.size)
