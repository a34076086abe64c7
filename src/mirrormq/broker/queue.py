"""The queue machine: an ordered log of operations, folded into what is ready, held and waiting.

What goes into the log, and when, is in `queue_log`. Here is what clients see: publishing, delivering, settling, limits, expiry.
Work is gathered: a queue that has something to do is activated; once a turn it pumps, enforces its limits and seals one chunk.
"""
from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from mypy_extensions import i64

from mirrormq.broker.arguments import DROP_HEAD, QueueArguments, QueueSettings, effective_settings
from mirrormq.broker.backlog import Backlog, PlainBacklog
from mirrormq.broker.consumer import PLENTY, Consumer, Turns
from mirrormq.broker.expiry import expire, expire_head, must_pause, postpone, send_postponed
from mirrormq.broker.forward.runs import Publisher
from mirrormq.broker.message import NEVER, Message
from mirrormq.broker.overflow import enforce_limits, has_place, make_place
from mirrormq.broker.pace import UNBOUNDED, Pace
from mirrormq.broker.priority import PriorityBacklog
from mirrormq.broker.promised import room_of_consumers
from mirrormq.broker.queue_log import PURGED, REASONS, REJECTED, QueueLog, ended_for
from mirrormq.broker.stability import Barrier, pass_all
from mirrormq.log.entries import MOVED, REDELIVERED, TRANSIENT
from mirrormq.log.snapshot import Snapshot

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.away import AwayQueue


class Queue(QueueLog):
    def __init__(self, broker: Broker, vhost: str, name: str, log_id: int, *, durable: bool, auto_delete: bool,
                 owner: Connection | None, arguments: QueueArguments, settings: QueueSettings) -> None:
        super().__init__(broker, name, log_id, keeps=durable and owner is None)
        self.vhost: str = vhost
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.owner: Connection | None = owner
        self.exclusive: bool = owner is not None
        self.arguments: QueueArguments = arguments
        self.settings: QueueSettings = settings
        self.backlog: Backlog = self._new_backlog(settings)
        self.turns: Turns = Turns()
        self.holder: Consumer | None = None     # exclusive consumer, or the single active one
        self.leaving: Consumer | None = None    # the single active one before it, if it holds what comes before the rest
        self.delivered_high: i64 = 0
        self.promised: i64 = 0                  # so many at the head only wait for the log or the ring
        self.postponed: list[tuple[Message, int]] = []      # held until they may leave as dead letters, each for its reason
        self.letters_to: AwayQueue | None = None            # where its dead letters go on another node, or behind a ring
        self.passes_on: bool = False            # what expires goes to other queues, though there is no dead-letter exchange
        self.is_away: bool = False              # its home is another node, and this a way to it
        self.home: str = ""                     # the name of that node
        self.publishers: dict[int, Publisher] = {}      # other nodes that published here, by their ids
        self.is_active: bool = False
        self.roused: i64 = 0                    # when it became active
        self.is_deleted: bool = False
        self.is_going: bool = False             # its end is proposed, and will be until the store has it
        self.keeps_record: bool = durable and owner is None
        self.damage: str = ""
        self.last_used: i64 = broker.now
        self.wake_at: i64 = NEVER
        self.policy: str = ""
        self.operator_policy: str = ""
        self.effective_policy: dict[str, object] = {}
        self.published: i64 = 0
        self.delivered: i64 = 0
        self.delivered_no_ack: i64 = 0
        self.got: i64 = 0
        self.got_no_ack: i64 = 0
        self.redelivered: i64 = 0
        self.acknowledged: i64 = 0
        self.pace: Pace = Pace()

    def _new_backlog(self, settings: QueueSettings) -> Backlog:
        broker = self.broker
        levels = settings.max_priority
        backlog: Backlog = PriorityBacklog(broker.log, broker.infos, broker.budget, levels) if levels > 0 \
            else PlainBacklog(broker.log, broker.infos, broker.budget)
        backlog.log_id = self.log_id
        backlog.ttl = settings.message_ttl
        backlog.writer = self
        return backlog

    # --- publishing -------------------------------------------------------------------------------------------

    def publish(self, message: Message, waiter: Barrier | None) -> bool:
        """Enqueue; False when the queue refuses it. `waiter` waits for the entry to be stable if it has to be."""
        settings = self.settings
        if (settings.limited or self.damage or not self.is_enough) and not has_place(self, message):
            return False
        ttl = settings.message_ttl
        if message.info.ttl >= 0 and (ttl < 0 or message.info.ttl < ttl):
            ttl = message.info.ttl
        if ttl >= 0:
            message.expires = self.broker.now + ttl
        self.published += 1
        self._enqueue(message, waiter)
        if settings.limited and settings.overflow == DROP_HEAD:
            make_place(self)
        return True

    def _enqueue(self, message: Message, waiter: Barrier | None) -> None:
        message.index = self.next_index
        self.next_index += 1
        if self.keeps and message.persistent:
            self.log_message(message, 0)
            if waiter is not None and self.last_waiter is not waiter:
                self._wait(waiter)
            self.backlog.push_logged(message)
            if self.origin:
                self.note_origin(message.index)
        elif self.ring is not None:
            self._log_in_ring(message, waiter)
        elif self.backlog.has_room(message.size):
            self.unlogged += 1
            self.backlog.push(message)
        else:
            message.persistent = False
            self.log_message(message, TRANSIENT)
            self.backlog.push_logged(message)
        if not self.is_active:
            self.activate()

    def _log_in_ring(self, message: Message, waiter: Barrier | None) -> None:
        """A message that need not be on disk goes round the ring all the same."""
        message.persistent = False
        self.log_message(message, TRANSIENT)
        if self.origin:
            self.note_origin(message.index)
        if waiter is not None and (not self.light or self.light[-1] is not waiter):
            waiter.outstanding += 1
            self.light.append(waiter)
        self.backlog.push_logged(message)

    def log_light(self, held: list[Message]) -> None:
        """The queue is mirrored from now on: what lived in memory alone gets a place in the log, at its end, so that mirrors get
        it. What is behind it moves too, to keep the order. `held` are the messages that clients have not acknowledged."""
        light = [message for message in held if not message.logged]
        ready = self.backlog.take_light(min([message.index for message in light], default=self.next_index))
        places = [(message.index, True, message) for message in light] + [(message.index, False, message) for message in ready]
        places.sort()
        for _, is_held, message in places:
            if message.logged:
                ended_for(self.dropped, MOVED).add(message)
            message.persistent = message.persistent and self.keeps
            message.index = self.next_index
            self.next_index += 1
            flags = 0 if message.persistent else TRANSIENT
            self.log_message(message, flags | REDELIVERED if is_held or message.redelivered else flags)
            if is_held:
                self.held_logged.add(message.index)
            else:
                self.backlog.push_logged(message)
        self.activate()

    # --- delivering -------------------------------------------------------------------------------------------

    def activate(self) -> None:
        if not self.is_active:
            self.is_active = True
            self.roused = self.broker.now
            self.broker.active.append(self)

    def pump(self) -> None:
        """Hand ready messages to consumers that can take them, but for those that had expired when there was something to do:
        since then the clock may have moved, and a consumer that was waiting gets even what expires at once."""
        backlog = self.backlog
        since = self.roused if self.is_active else self.broker.now
        tracer = self.broker.tracer
        promised = self.promised
        self.promised = 0
        self.is_awaited = False
        is_lean = self.holds_much()
        while backlog.count:
            consumer = self._taker()
            if consumer is None:
                break
            message = backlog.pop()
            if message.expires < since and promised <= 0:
                self.turns.give_back(consumer)
                if not expire(self, message):
                    break
                continue
            if message.index >= self.deliverable and self._must_wait(message):
                backlog.put_back(message)
                self.turns.give_back(consumer)
                self.is_awaited = message.index >= self.reserved_stably
                if message.expires != NEVER or self.settings.limited:
                    self.promised = room_of_consumers(self)
                break
            promised -= 1
            if consumer.no_ack:
                if message.logged:
                    self.acked.add(message)
                self.delivered_no_ack += 1
            else:
                self.hold(message)
                self.delivered += 1
            if message.redelivered:
                self.redelivered += 1
            if message.index >= self.delivered_high:
                self.delivered_high = message.index + 1
            if tracer is not None:
                tracer.delivered(self, consumer.channel, message)
            consumer.channel.deliver(consumer, message)
            if is_lean and message.logged:
                message.content = b""       # the log has it; it is read again if it comes back

    def offer(self) -> None:
        if self.backlog.count and not self.is_deleted and not self.damage and not self.is_held:
            self.activate()
            try:
                self.pump()
            except Exception as fault:  # noqa: BLE001 - one queue's fault is nobody else's
                self.broker.stop_queue(self, fault)

    def _taker(self) -> Consumer | None:
        holder = self.holder
        if holder is None:
            return self.turns.take()
        leaving = self.leaving
        if leaving is not None:
            if leaving.unacked > 0:
                return None             # what it gives back comes before what is ready
            self.leaving = None
        return holder if holder.is_ready() else None

    def get(self, waiter: Barrier) -> Message | None:
        """The next message for basic.get; the caller settles it or holds it. If it has to wait first, `waiter` does."""
        now = self.broker.now
        backlog = self.backlog
        self._catch_up()
        while backlog.count:
            message = backlog.pop()
            if message.expires <= now:
                if not expire(self, message):
                    return None
                continue
            if message.index >= self.deliverable and self._must_wait(message):
                backlog.put_back(message)
                if self.is_doubted:
                    waiter.outstanding += 1
                    self.doubters.append(waiter)
                else:
                    self.wait_for_chunk(waiter)
                return None
            if message.redelivered:
                self.redelivered += 1
            if message.index >= self.delivered_high:
                self.delivered_high = message.index + 1
            expire_head(self)                  # the next one may have expired behind it, and is not counted as left
            self.activate()
            return message
        return None

    # --- ending -----------------------------------------------------------------------------------------------

    def acknowledge(self, message: Message) -> None:
        self._let_go(message)
        self.acknowledged += 1
        self.settle(message)

    def settle(self, message: Message) -> None:
        if message.logged and not self.is_deleted:
            self.acked.add(message)
            if not self.is_active:
                self.activate()

    def requeue(self, message: Message) -> None:
        """Back to its place, marked as delivered once already."""
        self._let_go(message)
        message.redelivered = True
        if not self.is_deleted:
            self.backlog.put_back(message)
            self.activate()

    def reject(self, message: Message) -> None:
        if not self.is_deleted and must_pause(self):
            postpone(self, message, REJECTED)
        else:
            self.leave(message, REJECTED)

    def leave(self, message: Message, reason: int) -> None:
        """It was held, and ends."""
        self._let_go(message)
        if not self.is_deleted:
            self.end(message, reason)

    def end(self, message: Message, reason: int) -> None:
        """A message leaves without being acknowledged: to the dead-letter exchange, or away."""
        if self.settings.dead_letter_exchange is not None:
            if not self._load(message):
                self.backlog.put_back(message)
                return
            must_wait = self.broker.dead_letter(self, message, REASONS[reason], reason)
            if message.logged and not must_wait:
                self.note_dead_letter(message, reason)
        elif message.logged:
            ended_for(self.dropped, reason).add(message)
        self.activate()

    def _load(self, message: Message) -> bool:
        """False if the log does not give its content back; the queue is out of service then."""
        try:
            self.backlog.load(message)
        except Exception as fault:  # noqa: BLE001 - who holds the message, or is closing, is not to blame
            self.broker.stop_queue(self, fault)
            return False
        return True

    def ready(self) -> int:
        """How many messages are ready, for a client that asks."""
        try:
            self._catch_up()
        except Exception as fault:  # noqa: BLE001 - who asks is not to blame
            self.broker.stop_queue(self, fault)
        return self.backlog.count

    def purge(self) -> int:
        self._catch_up()
        count = self.backlog.count
        ranges, persistent, size = self.backlog.take_all(self.next_index)
        if ranges:
            if self.unlogged:
                self._bridge()
            self.builder.drop(PURGED, ranges, persistent, size)
            if persistent:
                self.broker.host.purged(self, ranges[0], self.next_index, persistent, size)
            self.next_index += 1
            self.kept -= persistent
            self.kept_bytes -= size
            self.ended_bytes += size
        self.activate()
        return count

    # --- the turn ---------------------------------------------------------------------------------------------

    def work(self) -> None:
        """Everything a turn does before sealing. May activate other queues by dead letters."""
        if self.is_held:
            return
        if self.postponed:
            send_postponed(self)
        if self.backlog.count:
            self._share_out()
        if self.turns.everyone and (self.kept or (self.ring is not None and self.next_index > 1)):
            self._keep_window_reserved()

    def _share_out(self) -> None:
        """What consumers can take is theirs, and what is left is kept within the limits."""
        if self.turns.everyone:
            self.pump()
        if self.backlog.count > self.promised:
            expire_head(self)
            if self.settings.limited:
                enforce_limits(self)

    def _catch_up(self) -> None:
        """What came before somebody takes or counts messages is shared out before that. In a ring, a message may have come round
        since the last turn."""
        if (self.is_active or self.is_consumed) and self.backlog.count and not self.is_held and not self.damage:
            self.broker.share_rooms()
            self._share_out()

    def _keep_window_reserved(self) -> None:
        """Reserve the next window while half of what goes by in a while is left, so that deliveries need not wait for it."""
        start = self.delivered_high
        head = self.backlog.head()
        if head is None:
            start = self.next_index
        elif head.index > start:
            start = head.index
        ahead = self.pace.ahead // 2
        shared = self.shared_room()
        if start + max(ahead, shared) >= self.reserved:
            window = self.window()
            if head is None:
                start += 1              # a reservation takes an index itself
            if window and start + window > self.reserved:       # the last one counts: less would take back what may be delivered
                self.reserve(start, window)

    def window(self) -> i64:
        """What can be delivered now, and what will be delivered before the next reservation is stable. 0: nobody has room, and
        nothing is being settled."""
        room: i64 = room_of_consumers(self) if self.is_consumed else 1
        is_unbounded = room >= PLENTY
        gone = self.acknowledged + self.delivered_no_ack + self.got + self.got_no_ack
        if is_unbounded:
            gone += self.delivered
            room = UNBOUNDED
        window = room + self.pace.look(gone, self.broker.now, is_reserving=room > 0)
        shared = 2 * self.shared_room()
        return max(window, shared)

    def shared_room(self) -> i64:
        """How much channels whose limit their queues share may want of this one at once. It is reserved before there is room: a
        queue that has to wait for that when the room is shared out would leave its part to the others, time and again."""
        room: i64 = 0
        last: Channel | None = None
        for consumer in self.turns.everyone:
            if consumer.channel is not last:        # those of one channel stand together, and share one limit
                last = consumer.channel
                room += last.limit
        return room

    def snapshot(self, *, final: bool) -> Snapshot:
        """The fold of everything appended so far. Only right after a turn, when nothing is gathered.

        The final one of a clean stop knows exactly what was delivered; any other has to count the reserved window as delivered.
        """
        cursor = self.backlog.cursor(self.builder.next_index)
        live = sorted([*self.backlog.live_below(cursor), *self.held_logged])
        reserved = self.delivered_high if final else self.reserved
        light = max(0, self.backlog.count + self.held - self.kept)
        return Snapshot(self.log_id, self.builder.epoch, self.builder.next_index, cursor, array("Q", live), reserved,
                        self.kept, self.kept_bytes, b"", self.sender_numbers(), light=int(light))

    # --- consumers and settings -------------------------------------------------------------------------------

    def add_consumer(self, consumer: Consumer) -> None:
        self.turns.add(consumer)
        self.is_consumed = True
        if consumer.exclusive or (self.settings.single_active_consumer and self.holder is None):
            self.holder = consumer
        self.activate()

    def remove_consumer(self, consumer: Consumer) -> None:
        if consumer in self.turns.everyone:
            self.release_consumer(consumer)
            if self.auto_delete and not self.turns.everyone:
                self.broker.delete_queue(self, is_stubborn=True)

    def release_consumer(self, consumer: Consumer) -> None:
        """It leaves for now; an auto-delete queue stays."""
        if consumer not in self.turns.everyone:
            return
        self.turns.remove(consumer)
        self.promised = 0
        self.is_consumed = len(self.turns.everyone) > 0
        self.last_used = self.broker.now
        if self.holder is consumer:
            self.holder = None
            if self.settings.single_active_consumer:
                if consumer.unacked > 0 and self.backlog.count:
                    self.leaving = consumer
                if self.turns.groups:
                    self.holder = self.turns.groups[0][0]
        self.activate()
        if not self.turns.everyone:
            if self.reserved > self.delivered_high:
                self.withdraw(self.delivered_high)
            self.watch_expiry()

    def touch(self) -> None:
        """The queue was used: its time to live starts anew."""
        self.last_used = self.broker.now
        self.watch_expiry()

    def watch_expiry(self) -> None:
        if self.settings.expires > 0 and not self.turns.everyone:
            self.broker.wake_queue_at(self, self.last_used + self.settings.expires)

    def apply_settings(self, settings: QueueSettings) -> None:
        if self in self.broker.shut:        # a policy may change while the queue's end is being decided
            settings = effective_settings(self.arguments, self.effective_policy)
            settings.refuse_publishes()
        self.settings = settings
        self.letters_to = None              # they may go elsewhere now
        self.backlog.ttl = settings.message_ttl
        if not settings.single_active_consumer and self.holder is not None and not self.holder.exclusive:
            self.holder = None
        self.touch()
        self.activate()

    def abandon(self) -> None:
        """The queue is deleted: nobody waits for it any more, and what it holds is forgotten."""
        waiters = self.everyone_waiting()
        self.close()
        pass_all(waiters)
        self.broker.forwarding.queue_deleted(self.log_id)

    def everyone_waiting(self) -> list[Barrier]:
        waiters = self.waiters + self.light + self.doubters
        for unstable in [*self.unstable, *self.unreceived]:
            waiters += unstable.waiters
        return waiters

    def close(self) -> None:
        """It does not serve here any more. Who waits for it is not answered by it."""
        self.is_deleted = True
        self.forget_held()
        self.waiters = []
        self.light = []
        self.doubters = []
        self.unstable.clear()
        self.unreceived.clear()
        self.ring = None
        self.backlog.clear()
        self.backlog.writer = None          # a circle of references would outlive the queue for long
        self.turns = Turns()
        self.holder = None
        self.leaving = None

    def on_timer(self) -> None:
        self.wake_at = NEVER
        expires = self.settings.expires
        if expires > 0 and not self.turns.everyone and self.broker.now >= self.last_used + expires:
            self.broker.delete_queue(self, is_stubborn=True)
            return
        self.watch_expiry()
        self.activate()
