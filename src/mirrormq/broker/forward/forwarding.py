"""Forwarding as the rest of the broker and the node see it: every session with every other node.

For each other node there is an `Embassy` (what our clients have there, for as long as the process runs) and, while there is a
session, a `Reception` (what its clients have here).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.forward.codec import (
    ANSWER,
    CANCELLED,
    CONFIRM,
    DELIVER,
    DROPPED,
    PROBED,
    REPLY,
    RESTART,
    encode_message,
    encode_text,
)
from mirrormq.broker.forward.embassy import Embassy
from mirrormq.broker.forward.guests import GuestConnection
from mirrormq.broker.forward.loop import LoopGuests, LoopPort
from mirrormq.broker.forward.probes import Probe, Probes
from mirrormq.broker.forward.reception import Reception

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel
    from mirrormq.broker.connection import Connection
    from mirrormq.broker.forward.away import AwayQueue
    from mirrormq.broker.forward.port import PeerPort
    from mirrormq.broker.message import Message
    from mirrormq.broker.queue import Queue
    from mirrormq.wire.methods import QueueDeclare

DELETED_KEPT: Final = 10_000        # ids of deleted queues, for work that was on its way to them
REPLIES_WAITING: Final = 4 << 20    # octets in the link beyond which replies are dropped


class Forwarding:
    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker
        self.embassies: dict[str, Embassy] = {}
        self.receptions: dict[str, Reception] = {}
        self.congested: Embassy | None = None       # whom the frames in hand published too much to
        self.deleted: dict[int, None] = {}
        self.publishers: dict[str, int] = {}        # the publisher that each node was last
        self.probes: Probes = Probes()
        self.last_id: i64 = 0
        self.last_consumer: i64 = 0
        self.own_publisher: i64 = 0
        self.mirrored: dict[int, AwayQueue] = {}    # by id: whoever leads them
        self.loop: LoopPort | None = None           # to mirrored queues that lead here

    def next_id(self) -> i64:
        """For requests and channels of this node."""
        self.last_id += 1
        return self.last_id

    def next_consumer(self) -> i64:
        self.last_consumer += 1
        return self.last_consumer

    def publisher_id(self) -> i64:
        """Who this process is among publishers."""
        if not self.own_publisher:
            self.own_publisher = self.broker.host.fresh_id()
        return self.own_publisher

    def embassy(self, name: str) -> Embassy:
        embassy = self.embassies.get(name)
        if embassy is None:
            embassy = self.embassies[name] = Embassy(self, name)
            if name == self.broker.node_name:
                self.loop = embassy.loop = LoopPort(name)
                reception = self.receptions[name] = Reception(self, self.loop, LoopGuests(self.broker, self.loop, embassy))
                reception.is_told = True
                embassy.open(self.loop, 1)
        return embassy

    def is_gone(self, name: str) -> bool:
        embassy = self.embassies.get(name)
        return embassy is not None and embassy.is_gone

    def bring_home(self) -> None:
        """What this node's clients want of queues that lead here is done before the turn's work."""
        loop = self.loop
        if loop is not None:
            self.embassies[loop.name].flush()
            self._go_round(loop)

    def _go_round(self, loop: LoopPort) -> None:
        frames = loop.frames
        while frames:
            frame = frames.popleft()
            if frame.run is None:
                self.received(loop.name, frame.kind, frame.payload)
            else:
                self.receptions[loop.name].publish_here(frame.log_id, frame.run, frame.settled)

    def has_more(self) -> bool:
        return self.loop is not None and len(self.loop.frames) > 0

    # --- sessions ---------------------------------------------------------------------------------------------

    def link_up(self, port: PeerPort, incarnation: int) -> None:
        """A fresh session with a node; `incarnation` is another one whenever its process is another one."""
        if port.name in self.receptions:
            self.link_down(port.name)
        self.receptions[port.name] = Reception(self, port, GuestConnection(self.broker, port))
        self.embassy(port.name).open(port, incarnation)
        self.broker.schedule()

    def link_down(self, name: str) -> None:
        """The session is over. What that node's clients held is requeued, its consumers leave; our consumers there wait."""
        reception = self.receptions.pop(name, None)
        if reception is not None:
            reception.close()
        embassy = self.embassies.get(name)
        if embassy is not None and embassy.port is not None:
            embassy.close()
        self.probes.node_lost(name)
        self.broker.schedule()

    def node_gone(self, name: str) -> None:
        """It is down, as far as the cluster knows: nobody waits for it any longer. A new session makes it well again. This node
        may look like that to the cluster, while it starts or was frozen; the way to its own queues stays open."""
        if name == self.broker.node_name:
            return
        self.out_of_reach(name)
        for queue in list(self.mirrored.values()):
            if queue.embassy.is_gone and queue.is_hopeless() and not queue.durable and name in queue.holders:
                self.broker.delete_queue(queue, is_stubborn=True)       # nobody will ever have it again

    def out_of_reach(self, name: str) -> None:
        """There has been no session with it for long: nobody here waits for it any longer. A new session makes it well again."""
        self.link_down(name)
        self.embassy(name).gone()
        for queue in list(self.mirrored.values()):
            if queue.embassy.is_gone and queue.is_hopeless():
                queue.embassy.give_up(queue)
        self.broker.schedule()

    def is_linked(self, name: str) -> bool:
        return name in self.receptions

    def received(self, name: str, kind: int, payload: bytes) -> None:
        reception = self.receptions.get(name)
        if reception is None:
            return
        try:
            if kind < CONFIRM or kind == RESTART:
                reception.received(kind, payload)
            else:
                self._answered(self.embassies[name], kind, payload)
        except Exception as fault:  # noqa: BLE001 - a fault in one frame must not end what all other clients do there
            self.broker.report_fault(fault)
        self.broker.schedule()

    def _answered(self, embassy: Embassy, kind: int, payload: bytes) -> None:
        if kind == DELIVER:
            embassy.delivered(payload)
        elif kind == CONFIRM:
            embassy.confirmed(payload)
        elif kind == ANSWER:
            embassy.answered(payload)
        elif kind == CANCELLED:
            embassy.cancelled(payload)
        elif kind == PROBED:
            self.probes.answered(payload)
        elif kind == DROPPED:
            embassy.dropped(payload)

    def drained(self, name: str) -> None:
        """The link takes more again."""
        reception = self.receptions.get(name)
        if reception is not None:
            reception.guests.unclog()
            self.broker.schedule()

    def flush(self) -> None:
        """Give the links what this turn has gathered: after queues have sealed, before connections write."""
        for embassy in self.embassies.values():
            if embassy.gathered or embassy.credit:
                embassy.flush()
        for reception in self.receptions.values():
            reception.flush()
        if self.loop is not None:
            self._go_round(self.loop)

    def tick(self) -> None:
        """Twice a second: work that waits for a queue which does not appear is given up."""
        for reception in self.receptions.values():
            if reception.parked or reception.departed:
                reception.tick()

    # --- what happens here ------------------------------------------------------------------------------------

    def queue_here(self, queue: Queue) -> None:
        """A queue has its home here from now on; others may have worked for it already."""
        for reception in list(self.receptions.values()):
            if queue.log_id in reception.dropped:
                reception.tell_dropped(queue.log_id)
            if queue.log_id in reception.parked:
                reception.queue_known(queue.log_id)

    def queue_lost(self, log_id: int) -> None:
        """A mirrored queue will not be led here, nor elsewhere."""
        for reception in list(self.receptions.values()):
            if log_id in reception.parked:
                reception.queue_known(log_id)

    def drop_parked(self, log_id: int) -> None:
        """Another node leads this queue: what waited here for it is sent there. A node that has missed this change of the lead
        would go on waiting for us, so it is told when we lead again."""
        for reception in self.receptions.values():
            if log_id in reception.parked:
                reception.forget(log_id)

    def queue_deleted(self, log_id: int) -> None:
        if len(self.deleted) >= DELETED_KEPT:
            del self.deleted[next(iter(self.deleted))]
        self.deleted[log_id] = None
        for reception in list(self.receptions.values()):
            reception.queue_deleted(log_id)

    def note_publisher(self, name: str, publisher: int) -> None:
        """A node that was restarted is another publisher; what its queues remember of the former is of no use."""
        former = self.publishers.get(name)
        if former != publisher:
            self.publishers[name] = publisher
            if former is not None:
                for queue in self.broker.queues_by_log.values():
                    queue.publishers.pop(former, None)

    def enrol(self, channel: Channel) -> None:
        """Give a channel its name between nodes."""
        if not channel.away_id:
            channel.away_id = self.next_id()

    def limit_changed(self, channel: Channel) -> None:
        for embassy in self.embassies.values():
            embassy.limit_changed(channel)

    def channel_left(self, channel: Channel) -> None:
        for embassy in self.embassies.values():
            embassy.channel_left(channel)

    def reply(self, node: str, key: str, message: Message) -> bool:
        """A direct reply to a channel of another node; False if there is no way to it."""
        embassy = self.embassies.get(node)
        port = None if embassy is None else embassy.port
        if port is None:
            return False
        if port.waiting() < REPLIES_WAITING:        # else it is dropped, as for a requester that does not read
            port.send(REPLY, encode_text(key) + encode_message(message.address, message.content, message.size))
        return True

    def probe(self, node: str, channel: Channel, method: QueueDeclare) -> bool:
        """Ask another node whether a reply address leads to a channel there; False if it cannot be asked."""
        embassy = self.embassies.get(node)
        port = None if embassy is None else embassy.port
        if port is None:
            return False
        self.probes.ask(self.next_id(), port, Probe(node, channel, method))
        return True

    def mind_congestion(self, connection: Connection) -> None:
        """A connection has published into a pile that is too high: it is not read until the pile is small."""
        embassy = self.congested
        self.congested = None
        if embassy is not None:
            embassy.hold(connection)
