"""All mirrored queues that this node holds, and what their machines hear: links, frames, durability, time. Compiled.

Rules
 1. A machine is given one input at a time; what its effects lead to comes after them.
 2. Links are told before a machine is started: else a new leader would put out members that it "cannot reach".
 3. A commit of the node's log tells each queue how far its own log is durable, once.
 4. A node may hear of a new queue after its successor: a request to follow that comes too early is kept until it does.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from mirrormq.broker.backlog import PlainBacklog
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import stop_serving
from mirrormq.broker.forward.runs import Publisher
from mirrormq.broker.ports import LogPort
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import ReservedMark
from mirrormq.broker.recovery import restore_queue
from mirrormq.broker.stability import Unstable
from mirrormq.log import lives
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store
from mirrormq.log.trail import Trail, recount, trail_from
from mirrormq.mirror.codec import BadMessage, decode, encode
from mirrormq.mirror.convert import machine_lineage
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader, InstallPiece, SteppedDown
from mirrormq.mirror.machine.inputs import (
    Durable,
    Head,
    Input,
    LinkDown,
    LinkUp,
    Received,
    Started,
    StoreReachable,
    Tick,
    Trimmed,
    ViewSeen,
)
from mirrormq.mirror.machine.messages import Follow, Message, Piece, PieceWanted
from mirrormq.mirror.machine.records import View

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

NEVER: Final = 1e18
MOST_EARLY: Final = 10_000


@mypyc_attr(allow_interpreted_subclasses=True)
class RingLog(LogPort):
    """The node's log, as rings need it beyond what queues do."""

    def has_written(self) -> None:
        """Something was written that was not an append."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class RingHost:
    """What the node does for the rings."""

    def now(self) -> float:
        raise NotImplementedError

    def send(self, node: str, payload: bytes, *, is_bulk: bool) -> None:
        raise NotImplementedError

    def propose(self, holding: Holding, view: View) -> None:
        raise NotImplementedError

    def install(self, holding: Holding, piece: InstallPiece) -> None:
        raise NotImplementedError

    def release(self, holding: Holding) -> None:
        """The machine holds the queue no longer, or may stop."""
        raise NotImplementedError

    def wake_at(self, when: float) -> None:
        raise NotImplementedError

    def led(self, holding: Holding, effect: BecameLeader, requeued: int) -> None:
        """The queue is served here from now on."""
        raise NotImplementedError

    def quarantined(self, holding: Holding, why: str) -> None:
        raise NotImplementedError

    def report(self, level: str, text: str) -> None:
        raise NotImplementedError


class Written:
    """An append that is not yet durable."""

    __slots__ = ("generation", "holding", "last", "position")

    def __init__(self, position: i64, holding: Holding, last: int, generation: int) -> None:
        self.position: i64 = position
        self.holding: Holding = holding
        self.last: int = last
        self.generation: int = generation


class Rings:
    def __init__(self, broker: Broker, host: RingHost, log: RingLog, store: Store) -> None:
        self.broker: Broker = broker
        self.host: RingHost = host
        self.log: RingLog = log
        self.store: Store = store
        self.me: str = broker.node_name
        self.by_id: dict[int, Holding] = {}
        self.linked: dict[str, None] = {}
        self._early: dict[int, dict[str, Follow]] = {}
        self._written: deque[Written] = deque()
        self._given: deque[tuple[Holding, Input]] = deque()
        self._is_giving: bool = False
        self._timers: list[tuple[float, int, Holding]] = []
        self._timer_count: int = 0

    # --- inputs -----------------------------------------------------------------------------------------------------

    def give(self, holding: Holding, given: Input) -> None:
        self._given.append((holding, given))
        if not self._is_giving:
            self._is_giving = True
            try:
                self._give_all()
            finally:
                self._is_giving = False

    def _give_all(self) -> None:
        queue = self._given
        now = self.host.now()
        while queue:
            holding, given = queue.popleft()
            try:
                holding.take(given, now)
            except Exception as fault:  # noqa: BLE001 - one queue's fault must not freeze the others
                self._failed(holding, fault)
            wake = holding.state.wake_at
            if wake < holding.woken_at:
                self._set_timer(holding, wake)

    def _failed(self, holding: Holding, fault: Exception) -> None:
        front = holding.front
        self.by_id.pop(holding.log_id, None)
        if isinstance(fault, QueueDamaged) and holding.queue is None:
            self._take_anew(holding, fault)
            return
        self.broker.report_fault(fault)
        self.host.report("error", f"queue '{front.name}' in vhost '{front.vhost}' is not mirrored on this node any more "
                                  f"after a fault ({fault}); restart the node")
        queue = holding.queue
        if queue is not None:
            self.broker.stop_queue(queue, fault)

    def _take_anew(self, holding: Holding, fault: QueueDamaged) -> None:
        """A mirror whose log cannot be read begins as after a restart, with nothing."""
        front = holding.front
        self.host.report("error", f"queue '{front.name}' in vhost '{front.vhost}' is not in sync here any more: {fault}")
        holding.found_damage(str(fault))
        self.hold(front, holding.state.view, holding.revision, is_fresh=False, is_damaged=True)

    def _set_timer(self, holding: Holding, when: float) -> None:
        holding.woken_at = when
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, holding))
        if self._timers[0][2] is holding:
            self.host.wake_at(when)

    def tick(self) -> None:
        """Timers that are due."""
        timers = self._timers
        now = self.host.now()
        while timers and timers[0][0] <= now:
            when, _, holding = heapq.heappop(timers)
            if holding.woken_at == when:
                holding.woken_at = NEVER
                if self.by_id.get(holding.log_id) is holding:
                    if holding.state.wake_at <= now:
                        self.give(holding, Tick())
                    elif holding.state.wake_at < NEVER:
                        self._set_timer(holding, holding.state.wake_at)
        if timers:
            self.host.wake_at(timers[0][0])

    def link_up(self, node: str) -> None:
        self.linked[node] = None
        for holding in list(self.by_id.values()):
            self.give(holding, LinkUp(node))

    def link_down(self, node: str) -> None:
        self.linked.pop(node, None)
        for requests in self._early.values():
            requests.pop(node, None)
        for holding in list(self.by_id.values()):
            self.give(holding, LinkDown(node))

    def store_reachable(self, *, is_reachable: bool) -> None:
        for holding in list(self.by_id.values()):
            self.give(holding, StoreReachable(is_reachable))

    def received(self, node: str, payload: bytes) -> None:
        try:
            log_id, message = decode(payload)
        except BadMessage as fault:
            self.host.report("error", f"from node {node}: {fault}")
            return
        holding = self.by_id.get(log_id)
        if holding is not None:
            self.give(holding, Received(node, message))
        elif isinstance(message, Follow):
            self._keep(log_id, node, message)

    def _keep(self, log_id: int, node: str, request: Follow) -> None:
        if len(self._early) >= MOST_EARLY:
            self._early.clear()             # they are made again
        self._early.setdefault(log_id, {})[node] = request

    def send(self, node: str, log_id: int, message: Message) -> None:
        is_bulk = isinstance(message, Piece | PieceWanted)
        self.host.send(node, encode(log_id, message), is_bulk=is_bulk)

    # --- durability -------------------------------------------------------------------------------------------------

    def note_write(self, holding: Holding, last: int, generation: int) -> None:
        self._written.append(Written(self.log.position, holding, last, generation))

    def durable(self, position: i64) -> None:
        """The node's log is on disk up to there."""
        written = self._written
        latest: dict[Holding, Written] = {}
        while written and written[0].position <= position:
            write = written.popleft()
            latest[write.holding] = write
        for holding, write in latest.items():
            if self.by_id.get(holding.log_id) is holding:
                self.give(holding, Durable(write.last, write.generation))

    def tidy(self) -> None:
        """Now and then: fold what was left to the log, a piece at a time, and tell mirrors what is consumed that they lack."""
        for holding in list(self.by_id.values()):
            try:
                if holding.is_behind:
                    holding.fold_on()
            except QueueDamaged as fault:
                self._failed(holding, fault)
            if holding.state.wants_head and holding.queue is not None:
                self.give(holding, Head(oldest_live(holding.queue)))

    def trim(self) -> None:
        """Less often: give up what nobody needs of the logs."""
        now = self.host.now()
        for holding in list(self.by_id.values()):
            holding.retain(now)

    # --- beginning and ending ---------------------------------------------------------------------------------------

    def hold(self, front: AwayQueue, view: View, revision: int, *, is_fresh: bool, is_damaged: bool = False,
             saved: Snapshot | None = None, queue: Queue | None = None) -> Holding:
        """This node is among those that hold the queue. `saved` is the last state that its log was given. Who has a damaged log
        has promised what it cannot show: it is as if it had lost its disk."""
        found = lives.nothing(front.log_id) if is_damaged else lives.lineage(self.store, front.log_id)
        holding = Holding(self, front, revision)
        holding.is_damaged = is_damaged
        holding.saved = None if is_damaged else saved
        holding.queue = queue
        lineage = machine_lineage(found)
        if not found.whole:
            holding.trail = None
        elif lineage.end > 0:
            holding.trail = trail_from(front.log_id, saved)
            holding.is_behind = True
        if not is_fresh:
            holding.forgotten_below = lineage.end + 1
        self.by_id[front.log_id] = holding
        holding.retain(self.host.now())
        for node in self.linked:
            self.give(holding, LinkUp(node))
        self.give(holding, Started(view, lineage, found.whole, is_fresh, is_damaged))
        self.give(holding, Trimmed(found.first_kept))
        for node, request in self._early.pop(front.log_id, {}).items():
            self.give(holding, Received(node, request))
        return holding

    def view_seen(self, holding: Holding, view: View, revision: int) -> None:
        if view.epoch >= holding.state.epoch:
            holding.revision = revision
        self.give(holding, ViewSeen(view))

    def forget(self, log_id: int) -> None:
        """The queue is deleted, or not held here any more: its log goes."""
        holding = self.by_id.pop(log_id, None)
        if holding is not None and holding.queue is not None:
            queue = holding.queue
            holding.queue = None
            self._dismiss(queue)
        self.log.drop(log_id)

    def _dismiss(self, queue: Queue) -> None:
        """Its consumers are told that it is gone."""
        queue.is_deleted = True
        self.broker.queues_by_log.pop(queue.log_id, None)
        for consumer in list(queue.turns.everyone):
            consumer.channel.cancel_consumer(consumer)
        queue.abandon()
        self.broker.forget_timer(queue)
        self.broker.count_queue(queue)

    # --- leading ----------------------------------------------------------------------------------------------------

    def lead(self, holding: Holding, effect: BecameLeader) -> None:
        queue = holding.queue
        if queue is None:
            queue = self._serve(holding)
        queue.ring = holding
        queue.look_ahead()
        queue.is_held = False
        queue.builder.epoch = effect.epoch
        self.host.led(holding, effect, returned_count(queue))
        queue.activate()
        self.broker.schedule()

    def _serve(self, holding: Holding) -> Queue:
        """Make the queue from its log."""
        broker = self.broker
        front = holding.front
        queue = Queue(broker, front.vhost, front.name, front.log_id, durable=front.durable, auto_delete=front.auto_delete,
                      owner=None, arguments=front.arguments, settings=front.settings)
        queue.home = front.home
        queue.policy = front.policy
        queue.operator_policy = front.operator_policy
        queue.effective_policy = front.effective_policy
        trail = holding.trail
        is_partial = trail is None
        if trail is None:
            trail = holding.make_do()
        holding.catch_up(holding.state.end)
        found = trail.recovered()
        if is_partial:
            recount(self.store, found)
        restore_queue(queue, found, forgotten_below=holding.forgotten_below)
        for publisher, (sequence, _) in found.publishers.items():
            known = queue.publishers[publisher] = Publisher()
            known.last = known.uncertain = sequence
            known.unsure = found.unsure.get(publisher, 0)
            if publisher in found.taken:
                known.taken = found.taken[publisher].copy()
        if holding.state.stable < holding.state.end:
            self._doubt_reservation(queue, holding.state.end)
        holding.trail = Trail(found)
        holding.queue = queue
        broker.queues_by_log[queue.log_id] = queue
        queue.ring = holding
        queue.look_ahead()
        queue.touch()
        broker.forwarding.queue_here(queue)
        return queue

    def _doubt_reservation(self, queue: Queue, end: int) -> None:
        """What was reserved for delivery is in this node's log; whether all others have it is not known yet."""
        mark = ReservedMark(queue, queue.reserved)
        mark.outstanding = 1
        queue.reserved_stably = 0
        queue.unstable.append(Unstable(end, [mark]))

    def step_down(self, holding: Holding, effect: SteppedDown) -> None:
        queue = holding.queue
        if queue is not None:
            holding.queue = None
            front = self.broker.forwarding.mirrored.get(holding.log_id)
            stop_serving(self.broker, queue, front)
            self.host.report("info", f"queue '{holding.front.name}' in vhost '{holding.front.vhost}': {effect.why}")
        kept = self.store.queue(holding.log_id)
        if kept is not None and kept.damage and not holding.is_damaged:
            raise QueueDamaged(kept.damage)


def oldest_live(queue: Queue) -> int:
    cursor = queue.backlog.cursor(queue.builder.next_index)
    return min([cursor, *queue.backlog.live_below(cursor), *queue.held_logged])


def returned_count(queue: Queue) -> int:
    """Messages that may have been delivered before, and will be again."""
    backlog = queue.backlog
    return len(backlog.returned) if isinstance(backlog, PlainBacklog) else 0
