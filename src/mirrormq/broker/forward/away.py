"""A queue whose home is another node, as the clients of this node see it.

Rules
 1. It holds nothing of its own: settlements, publishes and fences are gathered and handed over to the home once a turn, in this
    order; before a request of a client everything that was gathered is handed over, and before a requeue what was published. A
    fence answers for the settlements before it, so it ends with the session in which they were sent.
 2. A delivery is known by the tag that the home gave it. Tags grow, over broken links too; a message that came over a link that
    broke since is stale, the home has requeued it, and what a client says about it is dropped.
 3. The home counts prefetch and credit. What arrives while the channel's own limit is full, or its socket, is parked with its
    consumer, and its credit goes back when it leaves.
"""
from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.arguments import QueueArguments, QueueSettings
from mirrormq.broker.consumer import Consumer, Turns
from mirrormq.broker.forward.codec import ACKED, PUBLISH, REJECTED, REQUEUED, SETTLE, SETTLED, encode_ranges
from mirrormq.broker.forward.runs import Run
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import Ended
from mirrormq.broker.stability import Barrier, lose_all
from mirrormq.wire.errors import NotFound, PreconditionFailed
from mirrormq.wire.table import Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.branch import BranchQueue
    from mirrormq.broker.forward.embassy import Embassy

WINDOW: Final = 512 << 10       # octets that a consumer may have under way
COST: Final = 64                # of a delivery beside its content
RUN_LIMIT: Final = 1 << 20      # a run that is larger leaves before the turn ends
SWAMPED: Final = 64 << 20       # octets on their way to a home beyond which dead letters are dropped: nobody throttles them


class AwayConsumer(Consumer):
    """A consumer here of a queue there. `id` names it between the nodes."""

    def __init__(self, channel: Channel, queue: AwayQueue, tag: str, id: i64, *, no_ack: bool, exclusive: bool,
                 priority: int, limit: int, arguments: dict[str, Value]) -> None:
        super().__init__(channel, queue, tag, no_ack=no_ack, exclusive=exclusive, priority=priority, limit=limit,
                         arguments=arguments)
        self.id: i64 = id
        self.away: AwayQueue = queue
        self.is_known: bool = False         # the home has accepted it, in this session or in an earlier one
        self.parked: deque[Message] = deque()
        self.owed: i64 = 0                  # credit to give back

    def is_ready(self) -> bool:
        """Its own prefetch is counted at the home."""
        channel = self.channel
        if channel.limit and not self.no_ack and not channel.has_room(self):
            return False
        return channel.flowing and not channel.connection.is_full

    def arrived(self, message: Message) -> None:
        if self.parked or not self.is_ready():
            self.parked.append(message)
        else:
            self._pass_on(message)

    def _pass_on(self, message: Message) -> None:
        self.channel.deliver(self, message)
        embassy = self.away.embassy
        if embassy.loop is None:            # a queue that leads here looks for itself whether there is room
            self.owed += len(message.content) + COST
            if self.owed >= WINDOW // 4:
                embassy.give_credit(self)

    def go_on(self) -> None:
        """Deliver what was parked as far as there is room now."""
        parked = self.parked
        while parked and self.is_ready():
            self._pass_on(parked.popleft())


class AwayQueue(Queue):
    def __init__(self, broker: Broker, vhost: str, name: str, log_id: int, *, home: str, durable: bool, auto_delete: bool,
                 owner: Connection | None, arguments: QueueArguments, settings: QueueSettings) -> None:
        super().__init__(broker, vhost, name, log_id, durable=durable, auto_delete=auto_delete, owner=owner,
                         arguments=arguments, settings=settings)
        self.is_away = True
        self.is_mirrored: bool = False              # others can take over from its home
        self.holders: tuple[str, ...] = ()          # its leader, then those in sync with it
        self.learners: tuple[str, ...] = ()         # its mirrors that are not in sync
        self.lost_copy: str = ""                    # this node alone was in sync, and has lost its copy: the words for it
        self.home = home
        self.embassy: Embassy = broker.forwarding.embassy(home)
        self.embassy.queues[log_id] = self
        self.run: Run | None = None
        self.unconfirmed: dict[int, Run] = {}       # by first sequence, in order
        self.sequence: i64 = 1                      # of the next publish
        self.branch: BranchQueue | None = None      # takes what is published while this node is cut off
        self.is_gathered: bool = False
        self.requeues: Ended = Ended()
        self.rejects: Ended = Ended()
        self.fences: list[Barrier] = []
        self.attempt: i64 = 0                       # number of the last RESTART in this session, or 0
        self.met: int = self.embassy.incarnation if self.embassy.port is not None else 0    # the process that had it, if known
        self.highest: i64 = 0                       # tag that arrived
        self.stale_below: i64 = 0

    def check_home(self) -> None:
        if self.is_hopeless():
            raise self.home_is_down()

    def is_hopeless(self) -> bool:
        """Its home is gone, and nobody is there to take over; or it went with the process that had it."""
        if self.is_going and not self.keeps_record:
            return True
        if not self.embassy.is_gone:
            return False
        forwarding = self.embassy.forwarding
        return not self.is_mirrored or all(forwarding.is_gone(node) for node in self.holders)

    def waits_for(self) -> str:
        """Of a mirrored queue that nobody leads: the nodes without which it is not served, or that none of them can serve it."""
        if self.lost_copy:
            return self.lost_copy
        names = " or ".join(self.holders)
        holds = "only they hold" if len(self.holders) > 1 else "only it holds"
        out = f", {' and '.join(self.learners)} not in sync" if self.learners else ""
        return f"waiting for {names}: {holds} everything that was confirmed{out}"

    def home_is_down(self) -> NotFound:
        if self.lost_copy:
            return self.copy_is_lost()
        if self.is_mirrored:
            return NotFound(f"queue '{self.name}' in vhost '{self.vhost}' is {self.waits_for()}")
        durable = "durable " if self.durable else ""
        return NotFound(f"home node '{self.home}' of {durable}queue '{self.name}' in vhost '{self.vhost}' "
                        "is down or inaccessible")

    def copy_is_lost(self) -> NotFound:
        return NotFound(f"queue '{self.name}' in vhost '{self.vhost}' is not served: {self.lost_copy}")

    def may_hold_messages(self) -> PreconditionFailed:
        """Nobody is there who knows that it is empty."""
        return PreconditionFailed(f"queue '{self.name}' in vhost '{self.vhost}' not empty")

    # --- publishing -------------------------------------------------------------------------------------------

    def publish(self, message: Message, waiter: Barrier | None) -> bool:
        embassy = self.embassy
        if (embassy.is_gone or self.is_going) and self.branch is None and self.is_hopeless():
            return False
        self.published += 1
        run = self.run
        if run is None:
            run = self._begin_run()
        embassy.add_load(run.add(message, waiter))
        self.sequence += 1
        if run.size > RUN_LIMIT:
            self._end_run(run)
        return True

    def post(self, letter: Message, waiter: Barrier) -> None:
        """A dead letter, unless too much is under way already."""
        if self.embassy.load <= SWAMPED:
            self.publish(letter, waiter)

    def _begin_run(self) -> Run:
        run = self.run = Run(self.sequence)
        self.gather()
        return run

    def _end_run(self, run: Run) -> None:
        self.run = None
        if self.branch is not None:
            self.sequence = run.first           # the home hears nothing of it, so there must be no gap
            self.branch.take(self, run)
            return
        self.unconfirmed[run.first] = run
        loop = self.embassy.loop
        if loop is not None:
            run.is_sent = True
            loop.hand_over(self.log_id, run, self._oldest(run))
        else:
            self._send(run)

    def _send(self, run: Run) -> None:
        run.seal(self.log_id, self.embassy.forwarding.publisher_id(), self._oldest(run))
        port = self.embassy.port
        if port is not None:
            run.is_sent = True
            port.send(PUBLISH, run.frame)

    def send_again(self, *, is_new_home: bool) -> None:
        """A session has begun. What a home that has restarted since knows of earlier publishes nobody can say, unless the queue
        is mirrored: then its log tells."""
        for run in list(self.unconfirmed.values()):
            if run.is_sent and is_new_home and not self.is_mirrored:
                self._give_up(run)
            else:
                self._send(run)

    def _oldest(self, run: Run) -> i64:
        for first in self.unconfirmed:
            return first
        return run.first

    def confirmed(self, first: i64, refused: list[int]) -> None:
        run = self.unconfirmed.pop(first, None)
        if run is not None:
            for sequence in refused:
                run.refuse(sequence)
            self.embassy.add_load(-run.size)
            run.done()

    def _give_up(self, run: Run) -> None:
        self.unconfirmed.pop(run.first, None)
        self.embassy.add_load(-run.size)
        run.refuse_all()
        run.done()

    def give_up(self) -> None:
        """The home is gone: whoever waits for it is refused."""
        for each in list(self.unconfirmed.values()):
            self._give_up(each)
        run = self.run
        if run is not None:
            self.run = None
            self._give_up(run)

    def wait_for_chunk(self, waiter: Barrier) -> None:
        """Wait until the home has made stable what is gathered here."""
        if self.embassy.port is None:
            waiter.is_lost = True           # so are the settlements that it waits for
            return
        if self.fences and self.fences[-1] is waiter:
            return
        waiter.outstanding += 1
        self.fences.append(waiter)
        self.gather()

    # --- settling ---------------------------------------------------------------------------------------------

    def acknowledge(self, message: Message) -> None:
        self.acknowledged += 1
        self._settle(self.acked, message)

    def settle(self, message: Message) -> None:
        self._settle(self.acked, message)

    def requeue(self, message: Message) -> None:
        """What was published before it may have no place behind it."""
        run = self.run
        if run is not None:
            self._end_run(run)
        self._settle(self.requeues, message)

    def reject(self, message: Message) -> None:
        self._settle(self.rejects, message)

    def is_stale(self, message: Message) -> bool:
        """The home, or the next one, has it back in its place."""
        return message.index < self.stale_below

    def _settle(self, ended: Ended, message: Message) -> None:
        if not self.is_stale(message):
            ended.add(message)
            if not self.is_gathered:
                self.gather()

    # --- handing over -----------------------------------------------------------------------------------------

    def gather(self) -> None:
        if not self.is_gathered:
            self.is_gathered = True
            self.embassy.gathered.append(self)

    def hand_over(self) -> None:
        self.is_gathered = False
        self._settle_there(ACKED, self.acked)
        self._settle_there(REQUEUED, self.requeues)
        self._settle_there(REJECTED, self.rejects)
        run = self.run
        if run is not None:
            self._end_run(run)
        fences = self.fences
        if fences:
            self.fences = []
            self.embassy.fence(self, fences)

    def _settle_there(self, how: i64, ended: Ended) -> None:
        if ended.ranges:
            port = self.embassy.port
            if port is not None:
                port.send(SETTLE, SETTLED.pack(self.log_id, how) + encode_ranges(ended.ranges))
            ended.clear()

    # --- delivering -------------------------------------------------------------------------------------------

    def work(self) -> None:
        self._unpark()
        if self.embassy.loop is not None:
            here = self.broker.queues_by_log.get(self.log_id)
            if here is not None:
                here.activate()

    def offer(self) -> None:
        self._unpark()
        if self.embassy.loop is not None:
            here = self.broker.queues_by_log.get(self.log_id)
            if here is not None:
                here.offer()

    def _unpark(self) -> None:
        for consumer in self.turns.everyone:
            if isinstance(consumer, AwayConsumer):
                consumer.go_on()

    def link_lost(self) -> None:
        """The home requeues everything that it had delivered here."""
        self.stale_below = self.highest + 1
        self.acked.clear()
        self.requeues.clear()
        self.rejects.clear()
        for consumer in self.turns.everyone:
            if isinstance(consumer, AwayConsumer):
                consumer.parked.clear()
                consumer.owed = 0
        fences, self.fences = self.fences, []
        lose_all(fences)

    def add_consumer(self, consumer: Consumer) -> None:
        self.turns.add(consumer)
        self.is_consumed = True

    def remove_consumer(self, consumer: Consumer) -> None:
        assert isinstance(consumer, AwayConsumer)
        for message in consumer.parked:
            self.requeue(message)
        consumer.parked.clear()
        self.embassy.dismiss(consumer)
        self.forget_consumer(consumer)

    def forget_consumer(self, consumer: Consumer) -> None:
        if consumer in self.turns.everyone:
            self.turns.remove(consumer)
            self.is_consumed = len(self.turns.everyone) > 0

    # --- what the home does -----------------------------------------------------------------------------------

    def pump(self) -> None:
        return

    def seal(self) -> None:
        return

    def seal_dead_letters(self) -> None:
        return

    def append_gathered(self) -> None:
        return

    def touch(self) -> None:
        return

    def purge(self) -> int:
        raise AssertionError("only its home purges a queue")

    def get(self, waiter: Barrier) -> Message | None:
        raise AssertionError("only its home gives messages away")

    def end(self, message: Message, reason: int) -> None:
        raise AssertionError("only its home ends messages")

    def apply_settings(self, settings: QueueSettings) -> None:
        self.settings = settings

    def on_timer(self) -> None:
        return

    def abandon(self) -> None:
        """The queue is deleted, or not away any more. Publishes to a queue that goes count as taken, as on its home."""
        run = self.run
        self.run = None
        runs = list(self.unconfirmed.values())
        if run is not None:
            runs.append(run)
        self.unconfirmed.clear()
        for each in runs:
            self.embassy.add_load(-each.size)
            each.done()
        for consumer in list(self.turns.everyone):
            if isinstance(consumer, AwayConsumer):
                self.embassy.consumers.pop(consumer.id, None)
        self.embassy.queue_ended(self)
        self.turns = Turns()
        self.backlog.writer = None          # a circle of references would outlive the queue for long
