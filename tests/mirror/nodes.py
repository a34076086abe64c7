"""Nodes that mirror one queue, in process: real stores, brokers and rings; the links, the store of views and the clock are here.

Nothing moves by itself: `rest` lets everything come to its end, `wait` lets time pass.
"""

from __future__ import annotations

import itertools
from collections import deque
from pathlib import Path

from fuzz.world import START, Notes
from log.support import abandon
from mirrormq.broker.arguments import QueueArguments, QueueSettings
from mirrormq.broker.broker import Broker
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.message import Message
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.log import quarantine
from mirrormq.log.backfill import install_piece
from mirrormq.log.entries import Entry
from mirrormq.log.helper import perform
from mirrormq.log.lives import FOLDER
from mirrormq.log.store import Store
from mirrormq.mirror.holding import Holding
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.effects import BecameLeader, Compared, InstallPiece
from mirrormq.mirror.machine.records import Desired, View
from mirrormq.mirror.machine.state import LEADER
from mirrormq.mirror.rings import RingHost, RingLog, Rings
from mirrormq.wire.frames import content_frames
from mirrormq.wire.properties import Properties, encode_properties

QUEUE = 7
ROUNDS = 2000


class StoreLog(RingLog):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store

    def append(self, log_id: int, first_index: int, count: int, chunk: bytes, *, sync: bool) -> None:
        self.store.append(log_id, first_index, count, chunk)
        self.has_written()

    def sync(self) -> None:
        return                  # every commit is synced

    def read(self, log_id: int, index: int, max_bytes: int) -> list[Entry]:
        return self.store.read(log_id, index, max_bytes)

    def drop(self, log_id: int) -> None:
        self.store.drop(log_id)
        self.has_written()

    def has_written(self) -> None:
        self.position = self.store.position


class Counter(Barrier):
    """How much of what was published is confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self.is_done = False

    def passed(self) -> None:
        self.is_done = True


class Node(RingHost):
    """One run of a node's process."""

    def __init__(self, cluster: Cluster, name: str, folder: Path) -> None:
        self.cluster = cluster
        self.name = name
        self.notes = Notes()
        self.reports: list[str] = []
        self.takes_turns = True
        self.led_as: list[BecameLeader] = []
        self.requeued: list[int] = []
        self.compared_with: list[Compared] = []
        self.orphans: dict[int, int] = {}
        self.store = Store(folder)
        self.recovery = self.store.open()
        self.log = StoreLog(self.store)
        self.log.has_written()
        self.broker = Broker(self.notes, self.log, name, START)
        self.rings = Rings(self.broker, self, self.log, self.store)
        self.installing: deque[tuple[Holding, InstallPiece]] = deque()

    @property
    def holding(self) -> Holding:
        return self.rings.by_id[QUEUE]

    @property
    def leads(self) -> bool:
        holding = self.rings.by_id.get(QUEUE)
        return holding is not None and holding.state.role == LEADER

    @property
    def queue(self) -> Queue:
        queue = self.holding.queue
        assert queue is not None, f"{self.name} does not lead: {self.holding.state}"
        return queue

    def hold(self, view: View, *, is_fresh: bool, queue: Queue | None = None) -> None:
        arguments = QueueArguments({})
        front = AwayQueue(self.broker, "/", "q", QUEUE, home=view.ring[0], durable=True, auto_delete=False, owner=None,
                          arguments=arguments, settings=QueueSettings(arguments, {}))
        found = self.recovery.queues.get(QUEUE)
        saved = None if found is None else found.since
        if queue is not None:
            saved = queue.snapshot(final=False)
            self.store.put_snapshot(saved)
            self.log.has_written()
        self.rings.hold(front, view, self.cluster.revision, is_fresh=is_fresh, saved=saved, queue=queue)

    def work(self) -> bool:
        """One turn, one commit; False if there was nothing to do."""
        busy = (self.takes_turns and bool(self.broker.active or self.broker.ripe)) or bool(self.installing)
        if self.takes_turns:
            self.broker.turn()
        while self.installing:
            self._install(*self.installing.popleft())
        if self.store.durable < self.store.position:
            position = self.store.commit()
            self.rings.durable(position)
            self.broker.reach(position)
            busy = True
        assert not self.notes.faults, self.notes.faults
        return busy

    def _install(self, holding: Holding, piece: InstallPiece) -> None:
        steps = install_piece(self.store, QUEUE, piece.data, piece.next)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                self.log.has_written()
                if self.rings.by_id.get(QUEUE) is holding:
                    holding.installed(piece, end.value)
                return
            if step.position:
                self.store.commit()
                self.rings.durable(self.store.position)
            elif step.job is not None:
                perform(step.job)

    # --- what the queue and its copies hold

    def bodies(self) -> list[bytes]:
        """Every message that the queue would hand out, taken from it."""
        out = []
        while self.queue.backlog.head() is not None:
            out.append(self.queue.backlog.pop().body())
        return out

    def live(self) -> int:
        """How many messages its own copy holds by its log, wherever it leads."""
        trail = self.holding.trail
        assert trail is not None
        self.holding.catch_up(self.holding.state.end)
        return trail.state.count

    def set_aside(self) -> list[bytes]:
        """What is in its quarantine."""
        broker = self.broker
        found = []
        for cut in quarantine.listed(self.store.directory / FOLDER):
            found += [Message(entry.content, entry.address, broker.infos.get(b"\0\0"), entry.size).body()
                      for entry in quarantine.messages(cut.path)]
        return found

    # --- the host of the rings

    def now(self) -> float:
        return self.cluster.now

    def send(self, node: str, payload: bytes, *, is_bulk: bool) -> None:
        if node in self.cluster.links.get(self.name, ()):
            self.cluster.on_the_way.append((self, self.cluster.nodes[node], payload))

    def propose(self, holding: Holding, view: View) -> None:
        self.cluster.proposals.append((self, view))

    def confirm(self, holding: Holding) -> None:
        self.cluster.questions.append((self, holding, holding.doubts))

    def install(self, holding: Holding, piece: InstallPiece) -> None:
        self.installing.append((holding, piece))

    def release(self, holding: Holding) -> None:
        pass

    def wake_at(self, when: float) -> None:
        pass

    def led(self, holding: Holding, effect: BecameLeader, requeued: int) -> None:
        self.led_as.append(effect)
        self.requeued.append(requeued)

    def quarantined(self, holding: Holding, why: str) -> None:
        self.reports.append(why)

    def orphaned(self, holding: Holding, epoch: int, count: int) -> None:
        self.orphans[epoch] = self.orphans.get(epoch, 0) + count

    def compared(self, holding: Holding, effect: Compared) -> None:
        self.compared_with.append(effect)

    def report(self, level: str, text: str) -> None:
        self.reports.append(text)


class Cluster:
    def __init__(self, folder: Path, *names: str, desired: Desired | None = None) -> None:
        self.folder = folder
        self.now = 0.0
        self.nodes: dict[str, Node] = {}
        self.links: dict[str, set[str]] = {}
        self.on_the_way: deque[tuple[Node, Node, bytes]] = deque()
        self.proposals: deque[tuple[Node, View]] = deque()
        self.questions: deque[tuple[Node, Holding, int]] = deque()      # of leaders that may have been deposed
        self.view = View(1, names[:1])
        self.revision = 1
        self.names = names
        self.desired = desired or Desired(names)
        self.numbers = itertools.count(1)
        for name in names:
            self.run(name)

    def run(self, name: str) -> Node:
        node = self.nodes[name] = Node(self, name, self.folder / name)
        self.links[name] = set()
        for other in self.nodes:
            if other != name and other in self.links:
                self.links[name].add(other)
                self.links[other].add(name)
                self.nodes[name].rings.link_up(other)
                self.nodes[other].rings.link_up(name)
        return node

    def begin(self, *, queue: Queue | None = None) -> None:
        """The first node has the queue; who else should have it becomes a mirror."""
        first = self.names[0]
        self.nodes[first].hold(self.view, is_fresh=True, queue=queue)
        self._tell(first)
        self.rest()

    def _tell(self, name: str) -> None:
        node = self.nodes[name]
        if QUEUE in node.rings.by_id:
            node.rings.give(node.holding, i.SetDesired(self.desired))

    def want(self, desired: Desired) -> None:
        self.desired = desired
        for name in self.links:
            self._tell(name)
        self.rest()

    # --- faults

    def stop(self, name: str) -> None:
        """A clean stop: what it leads is handed over, if there is somebody."""
        node = self.nodes[name]
        node.rings.give(node.holding, i.HandOver("", leave=True))
        self.rest()
        self.kill(name)

    def move(self, name: str) -> None:
        leader = self.leader
        if leader.name != name:
            leader.rings.give(leader.holding, i.HandOver(name, leave=False))
            self.rest()

    def kill(self, name: str, *, lose_unwritten: bool = False) -> None:
        del self.links[name]
        for other, linked in self.links.items():
            if name in linked:
                linked.discard(name)
                self.nodes[other].rings.link_down(name)
        store = self.nodes[name].store
        if lose_unwritten:
            abandon(store)
        else:
            store.close()

    def cut(self, one: str, other: str) -> None:
        """The link between two nodes is lost, until one of them is started again."""
        for here, there in ((one, other), (other, one)):
            self.links[here].discard(there)
            self.nodes[here].rings.link_down(there)
        self.rest()

    def start(self, name: str) -> None:
        node = self.run(name)
        if self.view.holds(name):
            node.hold(self.view, is_fresh=False)
            self._tell(name)
        self.rest()

    # --- time

    def rest(self) -> None:
        for _ in range(ROUNDS):
            busy = [self.nodes[name].work() for name in list(self.links)]
            if not any(busy) and not self.on_the_way and not self.proposals and not self.questions:
                return
            for _ in range(len(self.on_the_way)):
                sender, receiver, payload = self.on_the_way.popleft()
                if receiver.name in self.links.get(sender.name, ()):
                    receiver.rings.received(sender.name, payload)
            while self.proposals:
                self._swap(*self.proposals.popleft())
            while self.questions:
                node, holding, doubts = self.questions.popleft()
                if node.name in self.links and holding.state.epoch == self.view.epoch:
                    node.rings.still_leads(holding, doubts)
        raise AssertionError(f"the nodes do not come to rest in {self.view}")

    def _swap(self, node: Node, view: View) -> None:
        if node.name in self.links and view.epoch == self.view.epoch + 1:
            self.view = view
            self.revision += 1
        for name in self.links:
            self._see(self.nodes[name])

    def _see(self, node: Node) -> None:
        if QUEUE in node.rings.by_id:
            node.rings.view_seen(node.holding, self.view, self.revision)
        elif QUEUE in node.rings.unwell:
            node.rings.take_up(QUEUE, self.view, self.revision)
            self._tell(node.name)
        elif self.view.holds(node.name):
            node.hold(self.view, is_fresh=True)
            self._tell(node.name)

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.5)
            for name in list(self.links):
                self.nodes[name].rings.tick()
                self.nodes[name].rings.tidy()
            self.rest()

    # --- clients

    @property
    def leader(self) -> Node:
        leading = [node for node in map(self.nodes.get, self.links) if node is not None and node.leads]
        assert leading, f"nobody leads: {self.view}"
        return leading[0]

    def plain(self) -> Queue:
        """A queue of the first node alone, which begins as a mirrored one with `begin`."""
        arguments = QueueArguments({})
        return Queue(self.nodes[self.names[0]].broker, "/", "q", QUEUE, durable=True, auto_delete=False, owner=None,
                     arguments=arguments, settings=QueueSettings(arguments, {}))

    def publish(self, count: int, *, mode: int = 2) -> None:
        """Each is confirmed when this returns."""
        waiter = Counter()
        waiter.outstanding = 1
        for number in itertools.islice(self.numbers, count):
            assert self.leader.queue.publish(self.message(number, mode), waiter)
        waiter.outstanding -= 1
        self.rest()
        assert waiter.is_done or waiter.outstanding == 0

    def consume(self, count: int) -> None:
        queue = self.leader.queue
        for _ in range(count):
            message = queue.backlog.pop()
            queue.hold(message)
            queue.acknowledge(message)
        self.rest()

    def message(self, number: int, mode: int) -> Message:
        given = encode_properties(Properties(delivery_mode=mode))
        body = b"%d" % number
        broker = next(iter(self.nodes.values())).broker
        return Message(content_frames(1, given, body, 131072), b"\0\1q", broker.infos.get(given), len(body))


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]
