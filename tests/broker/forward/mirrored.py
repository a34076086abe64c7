"""Mirrored queues for the brokers of `cluster`, without machines: what the leader appends is with everybody at once, and stable
when the leader's disk is fast. Which node leads, and whether it does so at once, is in the test's hands."""

from __future__ import annotations

import json
from collections.abc import Callable

from broker.forward.cluster import Cluster, Node, NodeHost
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import stop_serving
from mirrormq.broker.forward.runs import Publisher
from mirrormq.broker.metadata import Record, key
from mirrormq.broker.ports import RingPort
from mirrormq.broker.queue import Queue
from mirrormq.broker.recovery import restore_queue
from mirrormq.log.trail import trail_from


class Ring(RingPort):
    """One queue where it leads."""

    def __init__(self, node: Node, log_id: int, chunks: list[tuple[int, int, bytes]]) -> None:
        self.node = node
        self.log_id = log_id
        self.chunks = chunks

    def append(self, first_index: int, count: int, chunk: bytes, *, waits: bool) -> None:
        self.chunks.append((first_index, count, chunk))
        self.node.log.append(self.log_id, first_index, count, chunk, sync=True)

    @property
    def end(self) -> int:
        return self.chunks[-1][0] + self.chunks[-1][1] - 1 if self.chunks else 0


class MirrorHost(NodeHost):
    """Every queue whose name begins with "m" is mirrored on all nodes."""

    def __init__(self, number: int, names: tuple[str, ...]) -> None:
        super().__init__(number)
        self.names = names
        self.on_view: Callable[[AwayQueue, Record], None] = lambda _front, _view: None
        self.on_gone: Callable[[int], None] = lambda _log_id: None

    def ring_for(self, vhost: str, name: str, home: str) -> list[str]:
        return [home, *(other for other in self.names if other != home)] if name.startswith("m") else []

    def view_seen(self, queue: AwayQueue, view: Record, revision: int) -> None:
        self.on_view(queue, view)

    def queue_gone(self, log_id: int) -> None:
        self.on_gone(log_id)


class MirroredCluster(Cluster):
    def __init__(self, *names: str) -> None:
        self.chunks: dict[int, list[tuple[int, int, bytes]]] = {}
        self.epochs: dict[tuple[str, int], int] = {}  # in which a node has stopped leading by itself
        super().__init__(*names)

    def new_node(self, name: str, number: int, names: tuple[str, ...]) -> Node:
        host = MirrorHost(number, names)
        node = Node(name, number, host)
        host.on_view = lambda front, view: self._view_seen(node, front, view)
        host.on_gone = lambda log_id: self._gone(node, log_id)
        return node

    # --- who leads

    def record(self, name: str) -> Record:
        record: Record = json.loads(self.store.items[key("queue", "/", name)][0])
        return record

    def lead(self, name: str, leader: str) -> None:
        """A new epoch, in which this node comes first."""
        record = self.record(name)
        view = record["view"]
        ring = [leader, *(node for node in view["ring"] if node != leader)]
        record["view"] = view | {"epoch": view["epoch"] + 1, "ring": ring}
        self.store.put(key("queue", "/", name), json.dumps(record))

    def stop_leading(self, name: str) -> None:
        """The leader stops serving, and goes on in the next epoch at the earliest."""
        record = self.record(name)
        node = self.nodes[record["view"]["ring"][0]]
        self.epochs[node.name, record["id"]] = record["view"]["epoch"]
        self._stop(node, record["id"])

    def served(self, name: str) -> Queue:
        record = self.record(name)
        return self.nodes[record["view"]["ring"][0]].broker.queues_by_log[record["id"]]

    def _view_seen(self, node: Node, front: AwayQueue, view: Record) -> None:
        log_id = front.log_id
        leads = view["ring"][0] == node.name and view["epoch"] > self.epochs.get((node.name, log_id), 0)
        if not leads:
            self._stop(node, log_id)
        elif log_id not in node.broker.queues_by_log:
            self._serve(node, front)

    def _serve(self, node: Node, front: AwayQueue) -> None:
        """As `Rings` does it."""
        log_id = front.log_id
        chunks = self.chunks.setdefault(log_id, [])
        trail = trail_from(log_id, None)
        for _, _, chunk in chunks:
            trail.fold(chunk)
        found = trail.recovered()
        node.log.chunks[log_id] = [chunk for _, _, chunk in chunks]
        node.log.starts[log_id] = [first for first, _, _ in chunks]
        ring = Ring(node, log_id, chunks)
        node.log.next_index[log_id] = ring.end + 1
        queue = Queue(node.broker, front.vhost, front.name, log_id, durable=front.durable, auto_delete=front.auto_delete,
                      owner=None, arguments=front.arguments, settings=front.settings)  # fmt: skip
        restore_queue(queue, found, forgotten_below=0)
        for publisher, (sequence, _) in found.publishers.items():
            known = queue.publishers[publisher] = Publisher()
            known.last = known.uncertain = sequence
            known.unsure = found.unsure.get(publisher, 0)
            if publisher in found.taken:
                known.taken = found.taken[publisher].copy()
        node.broker.queues_by_log[log_id] = queue
        queue.ring = ring
        queue.reach(ring.end, ring.end, is_enough=True)
        queue.touch()
        node.broker.forwarding.queue_here(queue)
        queue.activate()

    def _stop(self, node: Node, log_id: int) -> None:
        queue = node.broker.queues_by_log.get(log_id)
        if queue is not None:
            stop_serving(node.broker, queue, node.broker.forwarding.mirrored.get(log_id))

    def _gone(self, node: Node, log_id: int) -> None:
        queue = node.broker.queues_by_log.pop(log_id, None)
        if queue is not None:
            queue.is_deleted = True
            for consumer in list(queue.turns.everyone):
                consumer.channel.cancel_consumer(consumer)
            queue.abandon()
            node.broker.forget_timer(queue)
        node.log.drop(log_id)

    # --- time

    def turn(self, name: str) -> bool:
        more = super().turn(name)
        node = self.nodes[name]
        if node.is_disk_fast:
            for queue in list(node.broker.queues_by_log.values()):
                ring = queue.ring
                if isinstance(ring, Ring) and queue.ring_durable < ring.end:
                    queue.reach(ring.end, ring.end, is_enough=True)
        return more or bool(node.broker.ripe)
