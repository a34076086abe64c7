"""The broker: everything that exists, and the turn in which all gathered work is done.

The node calls in (`receive`, `turn`, `fire`, `reach`), always with the time set in `now`; it gets its own duties through `Host`.
"""
from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from mypy_extensions import i64

from mirrormq.broker import handshake, publishing, registry, throttling
from mirrormq.broker.agreed_events import AgreedEvents
from mirrormq.broker.auth import Authority
from mirrormq.broker.backlog import Budget
from mirrormq.broker.channel import Channel
from mirrormq.broker.connection import Connection
from mirrormq.broker.delayed import Delays
from mirrormq.broker.dispatch import dispatch
from mirrormq.broker.events import Events
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.forward.forwarding import Forwarding
from mirrormq.broker.host import Host, Limits
from mirrormq.broker.journal import Afterwards, Awaiting, Journal, Proposal
from mirrormq.broker.limits import check_all_channels, check_user_channels
from mirrormq.broker.message import NEVER, ContentInfo, InfoCache, Message
from mirrormq.broker.outlet import Outlet
from mirrormq.broker.overflow import append_much
from mirrormq.broker.policy import Policy
from mirrormq.broker.ports import LogPort
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import QueueLog
from mirrormq.broker.records import Records
from mirrormq.broker.route import Route
from mirrormq.broker.stability import StabilityQueue
from mirrormq.broker.stopping import seal_queues, stop_queue
from mirrormq.broker.tracing import Tracer
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.errors import AMQPError, NotAllowed
from mirrormq.wire.methods import ChannelOpenOk, Method

VERSION: Final = "0.1.0"


class Broker:
    def __init__(self, host: Host, log: LogPort, node_name: str, now: int) -> None:
        self.host: Host = host
        self.log: LogPort = log
        self.node_name: str = node_name
        self.cluster_name: str = node_name
        self.version: str = VERSION
        self.platform: str = "Python"
        self.now: i64 = now             # the cluster's time, which nobody sets
        self.wall_ahead: i64 = 0        # of it, the clock that people see
        self.limits: Limits = Limits()
        self.mechanisms: list[str] = ["PLAIN", "AMQPLAIN"]
        self.infos: InfoCache = InfoCache()
        self.budget: Budget = Budget()
        self.stability: StabilityQueue = StabilityQueue()
        self.authority: Authority = Authority()
        self.vhosts: dict[str, VirtualHost] = {}
        self.policies: dict[tuple[str, str], Policy] = {}
        self.operator_policies: dict[tuple[str, str], Policy] = {}
        self.parameters: dict[tuple[str, str, str], object] = {}
        self.global_parameters: dict[str, object] = {}
        self.journal: Journal = Journal()
        self.records: Records = Records(self)
        self.awaiting: list[Awaiting] = []
        self.stranded: list[tuple[Channel, Method]] = []    # declares of queues that may be about to go with their node
        self.shut: dict[Queue, int] = {}            # queues that take nothing until then: they are to go if they are empty
        self.lingering: list[Proposal] = []         # ends of queues that the store did not take as they were proposed
        self.parting: list[Afterwards] = []         # answers that wait until queues are gone that go with what their client ended
        self.owners: dict[int, Connection] = {}     # of exclusive queues that are proposed, by their id
        self.connections: dict[Connection, None] = {}
        self.queues_by_log: dict[int, Queue] = {}
        self.active: list[Queue] = []
        self.ripe: list[QueueLog] = []              # mirrored queues whose rings have more than before
        self.dirty: list[Outlet] = []
        self.confirming: list[Channel] = []
        self.eased: list[Channel] = []              # with room under their limit that is not shared yet
        self.resumed: list[Channel] = []
        self.drained: list[Outlet] = []
        self.letters: deque[tuple[Queue, Message]] = deque()    # dead letters on their way to a queue
        self.letter_depth: i64 = 0
        self.letter_bytes: i64 = 0          # of the dead letters of this turn
        self.letters_wait: bool = False         # until every queue of a message has it
        self.routed: list[Connection] = []
        self.reply_channels: dict[str, Channel] = {}
        self.timers: list[tuple[int, int, Queue]] = []
        self.timer_count: i64 = 0
        self.idle_timers: i64 = 0
        self.delays: Delays = Delays(self)
        self.forwarding: Forwarding = Forwarding(self)
        self.alarms: dict[str, str] = {}
        self.is_busy: bool = False          # the disk is behind: publishers wait
        self.counters: dict[str, int] = {}
        self.tracer: Tracer | None = None           # while a virtual host is traced
        self.events: Events = Events(self)
        self.agreed_events: AgreedEvents = AgreedEvents(self)

    # --- the turn ---------------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """Do everything that has been gathered. True if there is more to do right away."""
        self.letters_wait = False       # a publish that failed half-way leaves it so
        self.go_on()
        self.forwarding.bring_home()
        self.share_rooms()
        active = self.active
        done: list[Queue] = []
        at = 0
        while at < len(active) or self._post_letters():
            queue = active[at]
            at += 1
            if not queue.is_deleted:
                if not queue.damage:
                    try:
                        queue.work()
                    except Exception as fault:  # noqa: BLE001 - one queue's fault must not freeze the others
                        stop_queue(self, queue, fault)
                done.append(queue)
            queue.is_active = False
        self.active = []
        seal_queues(self, done)
        self.letter_bytes = 0
        self._close_barriers()
        self._release_ripe()
        self.forwarding.flush()
        self._flush()
        return len(self.active) > 0 or self.forwarding.has_more()

    def share_rooms(self) -> None:
        while self.eased:
            self.eased.pop().share_room()

    def _release_ripe(self) -> None:
        while self.ripe:
            ripe = self.ripe
            self.ripe = []
            for queue in ripe:
                queue.release()

    def _post_letters(self) -> bool:
        """Dead letters that had to wait for their turn reach their queues. True if that gave a queue something to do."""
        before = len(self.active)
        while self.letters:
            queue, letter = self.letters.popleft()
            if not queue.is_deleted:
                queue.publish(letter, None)
                append_much(queue)
        return len(self.active) > before

    def _close_barriers(self) -> None:
        confirming = self.confirming
        if confirming:
            self.confirming = []
            for channel in confirming:
                channel.close_barrier()

    def _flush(self) -> None:
        dirty = self.dirty
        if dirty:
            self.dirty = []
            for connection in dirty:
                connection.flush()

    def reach(self, position: i64) -> None:
        """The log is stable up to here."""
        self.share_rooms()
        self.stability.reach(position)
        self._release_ripe()
        self.go_on()
        self.forwarding.flush()
        self._flush()

    def resume_later(self, channel: Channel) -> None:
        """Between two frames, let this channel go on with what arrived while it waited."""
        self.resumed.append(channel)
        self.host.schedule()

    def go_on_later(self, outlet: Outlet) -> None:
        """Its output has left: let this connection go on with what it had sent before."""
        self.drained.append(outlet)
        self.host.schedule()

    def go_on(self) -> None:
        drained = self.drained
        if drained:
            self.drained = []
            for outlet in drained:
                outlet.go_on()
        while self.resumed:
            resumed = self.resumed
            self.resumed = []
            for channel in resumed:
                channel.go_on()

    def schedule(self) -> None:
        self.host.schedule()

    # --- time -------------------------------------------------------------------------------------------------

    def wall(self) -> i64:
        """The time for people, who may set their clocks. Nothing waits for it."""
        return self.now + self.wall_ahead

    def wake_queue_at(self, queue: Queue, when: i64) -> None:
        if when >= queue.wake_at:
            return
        queue.wake_at = when
        self.timer_count += 1
        heapq.heappush(self.timers, (when, self.timer_count, queue))
        if self.timers[0][2] is queue:
            self.host.wake_at(when)

    def forget_timer(self, queue: Queue) -> None:
        """A queue is gone. Its timer may be due in years, so such timers are swept out before they are the most."""
        if queue.wake_at != NEVER:
            self.idle_timers += 1
            if self.idle_timers > 64 and self.idle_timers * 2 > len(self.timers):
                self.idle_timers = 0
                live = [timer for timer in self.timers if not timer[2].is_deleted and timer[2].wake_at == timer[0]]
                self.timers[:] = live           # the same list: `fire` may be going through it
                heapq.heapify(self.timers)

    def fire(self) -> None:
        """Timers that are due."""
        timers = self.timers
        while timers and timers[0][0] <= self.now:
            when, _, queue = heapq.heappop(timers)
            if queue.wake_at == when and not queue.is_deleted:
                queue.on_timer()
        if timers:
            self.host.wake_at(timers[0][0])

    # --- connections and channels -------------------------------------------------------------------------------

    def greet(self, connection: Connection) -> None:
        handshake.greet(connection)

    def on_connection_method(self, connection: Connection, method: Method) -> None:
        handshake.on_method(connection, method)

    def on_connected(self, connection: Connection) -> None:
        self.connections[connection] = None
        self.count("connection_created", 1)
        self.events.connection("connection.created", connection)

    def forget_connection(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self.count("connection_closed", 1)
            self.events.connection("connection.closed", connection)

    def count_connections(self, vhost: VirtualHost | None = None, user: str = "") -> int:
        if vhost is not None:
            return sum(1 for connection in self.connections if connection.vhost is vhost)
        return sum(1 for connection in self.connections if connection.user is not None and connection.user.name == user)

    def check_overdue(self, timeout: i64) -> None:
        """Close channels that hold a delivery for longer than its queue allows, or `timeout` milliseconds where the queue says
        nothing; -1 for no limit."""
        least = self._least_timeout(timeout)
        for connection in list(self.connections):
            for channel in list(connection.channels.values()):
                for delivery in channel.unacked.values():
                    held = self.now - delivery.at
                    if held <= least:
                        break               # those behind it are younger
                    allowed = delivery.queue.settings.consumer_timeout
                    if allowed < 0:
                        allowed = timeout
                    if 0 <= allowed < held:
                        connection.time_out(channel, allowed)
                        break

    def _least_timeout(self, timeout: i64) -> i64:
        least: i64 = timeout if timeout >= 0 else NEVER
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                if 0 <= queue.settings.consumer_timeout < least:
                    least = queue.settings.consumer_timeout
        return least

    def open_channel(self, connection: Connection, number: int) -> None:
        if len(connection.channels) >= connection.channel_max > 0:
            connection.current_method = 0
            raise NotAllowed(f"number of channels opened ({len(connection.channels)}) has reached the negotiated "
                             f"channel_max ({connection.channel_max})")
        user = connection.user
        assert user is not None
        if self.limits.channels >= 0:
            connection.current_method = 0
            check_all_channels(self.limits.channels, self.node_name, sum(len(other.channels) for other in self.connections))
        if user.limits:
            connection.current_method = 0
            mine = [other for other in self.connections if other.user is not None and other.user.name == user.name]
            check_user_channels(user.limits, user.name, sum(len(other.channels) for other in mine))
        channel = Channel(connection, number)
        connection.channels[number] = channel
        self.count("channel_created", 1)
        self.events.channel("channel.created", channel)
        channel.send(ChannelOpenOk())

    def count(self, name: str, more: int) -> None:
        """Totals of what is no longer there to be asked."""
        self.counters[name] = self.counters.get(name, 0) + more

    def count_channel(self, channel: Channel) -> None:
        self.count("publish", channel.published)
        self.count("confirm", channel.confirmed)
        self.count("return_unroutable", channel.returned)
        self.count("drop_unroutable", channel.dropped)
        self.count("channel_closed", 1)
        self.events.channel("channel.closed", channel)

    def count_queue(self, queue: Queue) -> None:
        for name, more in (("deliver", queue.delivered), ("deliver_no_ack", queue.delivered_no_ack), ("get", queue.got),
                           ("get_no_ack", queue.got_no_ack), ("redeliver", queue.redelivered), ("ack", queue.acknowledged)):
            self.count(name, more)
        self.count("deliver_get", queue.delivered + queue.delivered_no_ack + queue.got + queue.got_no_ack)
        self.count("queue_deleted", 1)

    def on_channel_method(self, channel: Channel, method: Method, payload: bytes) -> None:
        dispatch(channel, method, payload)

    def watch_closing(self, connection: Connection) -> None:
        self.host.watch_closing(connection)

    def log_error(self, connection: Connection, error: AMQPError, channel: int) -> None:
        self.host.report("error", f"{connection.name}, channel {channel}: {error}")

    def report_fault(self, error: BaseException) -> None:
        self.host.fault(error)

    def new_name(self, prefix: str) -> str:
        dot = "." if prefix.startswith("amq.rabbitmq") else "-"
        return f"{prefix}{dot}{self.host.token()}"

    # --- back-pressure ------------------------------------------------------------------------------------------

    def note_publisher(self, connection: Connection) -> None:
        throttling.note_publisher(self, connection)

    def throttle(self, connection: Connection) -> None:
        throttling.throttle(self, connection)

    def relieve(self, connection: Connection) -> None:
        throttling.relieve(connection)

    def set_alarms(self, alarms: dict[str, str], *, is_busy: bool) -> None:
        throttling.set_alarms(self, alarms, is_busy=is_busy)

    # --- permissions --------------------------------------------------------------------------------------------

    def check(self, connection: Connection, kind: str, name: str, permission: str) -> None:
        assert connection.user is not None and connection.vhost is not None
        if connection.user.is_operator:
            return
        self.authority.check(connection.user.name, connection.vhost.name, kind, name, permission)

    def check_topic(self, connection: Connection, exchange: Exchange, routing_key: str, permission: str) -> None:
        if exchange.inner != "topic":
            return
        assert connection.user is not None and connection.vhost is not None
        self.authority.check_topic(connection.user.name, connection.vhost.name, exchange.name, routing_key, permission)

    # --- publishing ---------------------------------------------------------------------------------------------

    def route_publish(self, connection: Connection, method: Method) -> Route:
        return publishing.route_publish(connection, method)

    def publish_carefully(self, channel: Channel, route: Route, info: ContentInfo, content: bytes, size: i64) -> None:
        publishing.publish_carefully(channel, route, info, content, size)

    def stop_queue(self, queue: Queue, fault: Exception) -> None:
        stop_queue(self, queue, fault)

    def goes_nowhere(self, channel: Channel, message: Message, *, mandatory: bool) -> None:
        if mandatory:
            publishing.return_message(channel, message, 312, "NO_ROUTE")
        else:
            channel.dropped += 1

    def return_message(self, channel: Channel, message: Message, code: int, text: str) -> None:
        publishing.return_message(channel, message, code, text)

    def dead_letter(self, queue: Queue, message: Message, reason: str, reason_code: i64) -> bool:
        return publishing.dead_letter(self, queue, message, reason, reason_code)

    def mind_tracing(self) -> None:
        if not any(vhost.tracing for vhost in self.vhosts.values()):
            self.tracer = None
        elif self.tracer is None:
            self.tracer = Tracer(self)

    def forget_routes(self) -> None:
        """Exchanges, bindings, queues or permissions changed: every kept route is worked out anew."""
        for vhost in self.vhosts.values():
            vhost.unbound.clear()
        routed = self.routed
        if routed:
            self.routed = []
            for connection in routed:
                connection.drop_routes()

    def forget_reply_channel(self, channel: Channel) -> None:
        self.reply_channels.pop(channel.reply_key, None)
        channel.reply_key = ""
        channel.reply_consumer = ""

    def serving(self, queue: Queue) -> Queue | None:
        """The queue itself, if this node serves it: clients may know it by the way to it."""
        return self.queues_by_log.get(queue.log_id) if queue.is_away else queue

    def delete_queue(self, queue: Queue, *, is_stubborn: bool = False) -> int:
        return registry.delete_queue(self, queue, is_stubborn=is_stubborn)
