"""All mirrored queues that this node holds, and what their machines hear: links, frames, durability, time. Compiled.

Rules
 1. A machine is given one input at a time; what its effects lead to comes after them.
 2. Links are told before a machine is started: else a new leader would put out members that it "cannot reach".
 3. A commit of the node's log tells each queue how far its own log is durable, once.
 4. A leader that has lost its link to a member of the ring, or hears nothing from it, or whose node stood still for a while, may
    have been deposed and not know it. It delivers nothing until it can reach every member of its ring, and the store has said
    after that that it leads.
 5. A node may hear of a new queue after its successor: a request to follow that comes too early is kept until it does.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64, mypyc_attr

from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import held_of, stop_serving
from mirrormq.broker.forward.runs import Publisher
from mirrormq.broker.ports import LogPort
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import ReservedMark
from mirrormq.broker.recovery import restore_queue
from mirrormq.broker.stability import Unstable
from mirrormq.log import lives
from mirrormq.log.errors import CannotCut, QueueDamaged
from mirrormq.log.ranges import sizes
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.store import Store
from mirrormq.log.trail import Trail, recount, trail_from
from mirrormq.mirror.codec import BadMessage, decode, encode
from mirrormq.mirror.convert import machine_lineage
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine.effects import BecameLeader, Compared, InstallPiece, SteppedDown
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
from mirrormq.mirror.machine.succession import has_lost_everything, may_learner_lead

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

NEVER: Final = 1e18
MOST_EARLY: Final = 10_000
ANEW_AFTER: Final = 4.0     # seconds between two times that a copy is taken anew: a fault that comes again must not fill the log


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

    def confirm(self, holding: Holding) -> None:
        """Ask the store whether this node still leads; if it does, say `still_leads` with the doubts of now."""
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

    def orphaned(self, holding: Holding, epoch: int, count: int) -> None:
        """So many messages of this copy are in quarantine: who took over by force in that epoch did not have them."""
        raise NotImplementedError

    def compared(self, holding: Holding, effect: Compared) -> None:
        """The queue is led here, and another copy's state was compared."""
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
        self.quiet: frozenset[str] = frozenset()        # of those: from whom nothing has come for a while
        self.unwell: dict[int, tuple[Holding, Exception]] = {}     # not held for now, after a fault
        self._taken_anew: dict[int, float] = {}                     # when, after a fault
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
        """A copy that does not lead is taken anew from those who are in sync, whatever has happened to it."""
        front = holding.front
        self.by_id.pop(holding.log_id, None)
        if not isinstance(fault, QueueDamaged | CannotCut | OSError):       # none is a fault of the program
            self.broker.report_fault(fault)
        if holding.queue is None and (isinstance(fault, QueueDamaged) or holding.state.view.ring != (self.me,)):
            self._take_anew(holding, fault)
            return
        self.host.report("error", f"queue '{front.name}' in vhost '{front.vhost}' is not mirrored on this node any more "
                                  f"after a fault ({fault}); restart the node")
        queue = holding.queue
        if queue is not None:
            self.broker.stop_queue(queue, fault)

    def _take_anew(self, holding: Holding, fault: Exception) -> None:
        """A mirror whose log cannot be read, or that had a fault, begins as after a restart, with nothing. One that fails again
        at once, or for which the disk has no room, waits until the logs are looked at the next time."""
        front = holding.front
        log_id = holding.log_id
        now = self.host.now()
        if isinstance(fault, OSError):
            self._refused(holding, fault)
            return
        if now < self._taken_anew.get(log_id, -NEVER) + ANEW_AFTER:
            self.unwell[log_id] = holding, fault
            return
        if not holding.state.view.holds(self.me):
            self.forget(log_id)
            return
        if not isinstance(fault, QueueDamaged | CannotCut) and not holding.state.settled:
            try:
                holding.spare_unsettled(f"{self.me} has given up its copy after a fault ({fault})")
            except OSError as refusal:
                self._refused(holding, refusal)
                return
        self._taken_anew[log_id] = now
        self.host.report("error", f"queue '{front.name}' in vhost '{front.vhost}' is not in sync here any more: {fault}")
        holding.found_damage(str(fault) or repr(fault))
        self.hold(front, holding.state.view, holding.revision, is_fresh=False, is_damaged=True)

    def _refused(self, holding: Holding, refusal: OSError) -> None:
        self.unwell[holding.log_id] = holding, refusal
        self.host.report("error", f"queue '{holding.front.name}' in vhost '{holding.front.vhost}' is not mirrored on this node: "
                                  f"the disk refused to work ({refusal}); it is tried again")

    def _try_again(self) -> None:
        unwell, self.unwell = self.unwell, {}
        for log_id, (holding, fault) in unwell.items():
            if log_id in self.by_id:
                continue                    # a new view has come, and with it a new beginning
            if isinstance(fault, OSError):
                self.hold(holding.front, holding.state.view, holding.revision, is_fresh=False,
                          is_damaged=False, saved=holding.saved)
            else:
                self._take_anew(holding, fault)

    def take_up(self, log_id: int, view: View, revision: int) -> None:
        """A new view of a queue that was not held for now. Its log may have been condemned before the fault."""
        holding, _ = self.unwell.pop(log_id)
        self.hold(holding.front, view, revision, is_fresh=False, is_damaged=self._is_condemned(log_id), saved=holding.saved)

    def _is_condemned(self, log_id: int) -> bool:
        kept = self.store.queue(log_id)
        return kept is not None and bool(kept.damage)

    def _set_timer(self, holding: Holding, when: float) -> None:
        holding.woken_at = when
        self._timer_count += 1
        heapq.heappush(self._timers, (when, self._timer_count, holding))
        if self._timers[0][2] is holding:
            self.host.wake_at(when)

    def tick(self) -> None:
        """Timers that are due. One that is set meanwhile comes in a later turn of the loop, so that no queue stops the node."""
        timers = self._timers
        now = self.host.now()
        due: list[tuple[float, int, Holding]] = []
        while timers and timers[0][0] <= now:
            due.append(heapq.heappop(timers))
        for when, _, holding in due:
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
            self.clear_up(holding)

    def link_down(self, node: str) -> None:
        self.linked.pop(node, None)
        for requests in self._early.values():
            requests.pop(node, None)
        for holding in list(self.by_id.values()):
            if node in rivals(holding):
                self.doubt(holding)
            self.give(holding, LinkDown(node))

    def stood_still(self) -> None:
        """The process was frozen for so long that the others may have gone on without it."""
        for holding in list(self.by_id.values()):
            if holding.queue is not None and (len(holding.state.view.ring) > 1 or holding.state.view.learners):
                self.doubt(holding)

    def listened(self, quiet: frozenset[str]) -> None:
        """Two sides of a cut notice it half a second apart. So a leader doubts before the other side can have taken over."""
        newly = quiet - self.quiet
        self.quiet = quiet
        for holding in list(self.by_id.values()):
            if holding.queue is not None and not newly.isdisjoint(rivals(holding)):
                self.doubt(holding)
            else:
                self.clear_up(holding)

    def doubt(self, holding: Holding) -> None:
        """Another node may lead by now."""
        queue = holding.queue
        if queue is not None:
            holding.doubts += 1
            queue.is_doubted = True
            queue.look_ahead()
            self.clear_up(holding)

    def clear_up(self, holding: Holding) -> None:
        """Ask the store, once nobody is out of sight who could take over right after the answer."""
        queue = holding.queue
        if queue is not None and queue.is_doubted and self._sees_ring(holding):
            self.host.confirm(holding)

    def _sees_ring(self, holding: Holding) -> bool:
        return all(node in self.linked and node not in self.quiet for node in ring_mates(holding))

    def still_leads(self, holding: Holding, doubts: int) -> None:
        """The store said so after so many doubts."""
        queue = holding.queue
        if queue is None or holding.doubts != doubts or not self._sees_ring(holding):
            return
        queue.trust()
        self.broker.schedule()

    def store_reachable(self, *, is_reachable: bool) -> None:
        for holding in list(self.by_id.values()):
            if not is_reachable and any(node not in self.linked for node in rivals(holding)):
                self.doubt(holding)
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
        """Now and then: fold what was left to the log, a piece at a time, and tell mirrors what is consumed that they lack.
        Whoever is not certain to lead asks again: the store may not have answered."""
        for holding in list(self.by_id.values()):
            try:
                if holding.is_behind:
                    holding.fold_on()
            except QueueDamaged as fault:
                self._failed(holding, fault)
            self.clear_up(holding)
            if holding.state.wants_head and holding.queue is not None:
                self.give(holding, Head(oldest_live(holding.queue)))

    def trim(self) -> None:
        """Less often: give up what nobody needs of the logs."""
        now = self.host.now()
        for holding in list(self.by_id.values()):
            try:
                holding.retain(now)
            except Exception as fault:  # noqa: BLE001 - one queue's fault must not leave the others' logs to grow
                self._failed(holding, fault)
        if self.unwell:
            self._try_again()

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
        self.unwell.pop(log_id, None)
        self._taken_anew.pop(log_id, None)
        if holding is not None:
            holding.front.lost_copy = ""
            queue = holding.queue
            if queue is not None:
                holding.queue = None
                self._dismiss(queue)
        self.log.drop(log_id)

    def tell_waiting(self, holding: Holding) -> None:
        """Clients of all nodes wait for a queue that is led from here. If it never will be, they are told."""
        is_lost = has_lost_everything(holding.state)
        holding.front.lost_copy = holding.sentence if is_lost else ""
        if is_lost:
            self.broker.forwarding.queue_lost(holding.log_id)

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
        is_turned = queue is not None and queue.ring is None
        if queue is None:
            queue = self._serve(holding, restarted=effect.restarted)
        queue.ring = holding
        queue.look_ahead()
        queue.is_held = False
        queue.builder.epoch = effect.epoch
        if is_turned:
            queue.log_light(held_of(self.broker, queue))
        if not self._sees_ring(holding):
            self.doubt(holding)
        self.host.led(holding, effect, returned_count(holding, queue))
        queue.activate()
        self.broker.schedule()

    def _serve(self, holding: Holding, *, restarted: bool) -> Queue:
        """Make the queue from its log. Transient messages end with a restart only where nobody is known to have kept them, and
        then by an entry: what a leader forgot by itself would come again with the next one."""
        broker = self.broker
        front = holding.front
        queue = Queue(broker, front.vhost, front.name, front.log_id, durable=front.durable, auto_delete=front.auto_delete,
                      owner=None, arguments=front.arguments, settings=front.settings)
        queue.home = front.home
        queue.policy = front.policy
        queue.operator_policy = front.operator_policy
        queue.effective_policy = front.effective_policy
        trail = holding.trail
        missing: list[int] | None = [] if holding.is_damaged else None
        if trail is None:
            trail = holding.make_do()
        holding.catch_up(holding.state.end)
        if holding.makes_do or trail.state.light:
            absent = recount(self.store, trail.state)
            missing = absent if holding.makes_do else missing
        found = trail.recovered()
        forgotten = sorted(found.transients) if restarted else []
        restore_queue(queue, found, forgotten_below=found.next_index if restarted else 0)
        queue.builder.epoch = holding.state.epoch       # what was parked for it may be appended before all of this is done
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
        if forgotten:
            queue.end_transient(forgotten)
        if missing is not None:
            queue.end_lost(missing)
            holding.state.lost_in = holding.state.epoch
        else:
            holding.state.lost_in = found.lost_in
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
        if holding.makes_do:
            raise QueueDamaged("it led for a moment without having said what its log lacks")
        if kept is not None and kept.damage and not holding.is_damaged:
            raise QueueDamaged(kept.damage)


def rivals(holding: Holding) -> list[str]:
    """Who could take over, also without being in sync."""
    learners = list(holding.state.view.learners) if may_learner_lead(holding.state) else []
    return ring_mates(holding) + learners


def ring_mates(holding: Holding) -> list[str]:
    """Who could take over with everything; also who is just being taken into the ring, as far as this node knows."""
    state = holding.state
    ring = state.view.ring if state.proposal is None else state.view.ring + state.proposal.ring
    return [node for node in ring if node != state.me]


def oldest_live(queue: Queue) -> int:
    cursor = queue.backlog.cursor(queue.builder.next_index)
    return min([cursor, *queue.backlog.live_below(cursor), *queue.held_logged])


def returned_count(holding: Holding, queue: Queue) -> int:
    """Messages that may have been delivered before, and will be again: what is ready and was reserved."""
    trail = holding.trail
    if trail is None:
        return 0
    live = trail.state.live_in(1, queue.backlog.reserved - 1)
    return min(queue.backlog.count, sizes(live))
