"""Several brokers in one process, joined by links in memory that keep order, can be cut with frames under way, and heal.

Nothing moves by itself: `rest` lets everything come to its end, the finer steps let a test stop in between.
"""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.world import START, UNDER_WAY, MemoryLog, Notes, Pipe
from memorystore import MemoryStore
from mirrormq.broker import agreement, rules
from mirrormq.broker.auth import Permission, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import Connection
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import put_before
from mirrormq.broker.forward.port import PeerPort
from mirrormq.broker.passwords import hash_password
from mirrormq.broker.peer import Peer
from mirrormq.broker.ports import RingPort
from mirrormq.broker.queue import Queue
from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import content_frames, frame
from mirrormq.wire.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    decode_method,
)
from mirrormq.wire.properties import Properties, encode_properties

SECRET = hash_password("guest", b"salt")
TURNS = 500
CAPABLE = {"capabilities": {"consumer_cancel_notify": True, "basic.nack": True, "publisher_confirms": True}}


class NodeHost(Notes):
    """Gives ids that no other node gives."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def fresh_id(self) -> int:
        self.tokens += 1
        return (self.number << 40 | self.tokens) << 1

    def token(self) -> str:
        self.tokens += 1
        return f"token{self.number}{self.tokens:015d}"


class Port(PeerPort):
    """One direction of a session: `sent` is what has not arrived yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sent: list[tuple[int, bytes]] = []
        self.is_up = True
        self.clogged = 0

    def send(self, kind: int, payload: bytes) -> None:
        assert type(payload) is bytes
        if self.is_up:
            self.sent.append((kind, payload))

    def waiting(self) -> int:
        return self.clogged


class Ring(RingPort):
    """The others have all that is appended as soon as the leader's disk has it."""

    def __init__(self, log: MemoryLog, queue: Queue) -> None:
        self.log = log
        self.queue = queue
        self.end = queue.builder.next_index - 1

    def append(self, first_index: int, count: int, chunk: bytes, *, waits: bool) -> None:
        self.log.append(self.queue.log_id, first_index, count, chunk, sync=True)
        self.end = first_index + count - 1

    def found_damage(self, why: str) -> None:
        raise AssertionError(why)

    def close(self) -> None:
        if self.queue.ring_durable < self.end:
            self.queue.reach(self.end, self.end, is_enough=True)


class Node:
    def __init__(self, name: str, number: int, host: NodeHost | None = None) -> None:
        self.name = name
        self.host = host or NodeHost(number)
        self.log = MemoryLog()
        self.broker = Broker(self.host, self.log, name, START)
        self.incarnation = 1
        self.is_disk_fast = True
        self.rings: list[Ring] = []

    def queue(self, name: str) -> Queue:
        return self.broker.vhosts["/"].queues[name]


class Cluster:
    def __init__(self, *names: str) -> None:
        self.nodes = {name: self.new_node(name, number + 1, names) for number, name in enumerate(names)}
        self.store = MemoryStore(*(node.broker for node in self.nodes.values()))
        first = next(iter(self.nodes.values())).broker
        rules.put_vhost(first, "/")
        rules.put_user(first, User("guest", SECRET))
        rules.set_permission(first, "guest", "/", Permission(".*", ".*", ".*"))
        self.store.commit()
        self.ports: dict[tuple[str, str], Port] = {}
        for a, b in self.pairs():
            self.heal(a, b)

    def new_node(self, name: str, number: int, names: tuple[str, ...]) -> Node:
        return Node(name, number)

    def pairs(self) -> Iterator[tuple[str, str]]:
        names = list(self.nodes)
        for at, a in enumerate(names):
            for b in names[at + 1 :]:
                yield a, b

    # --- links

    def heal(self, a: str, b: str) -> None:
        for here, there in ((a, b), (b, a)):
            self.ports[here, there] = Port(there)
        for here, there in ((a, b), (b, a)):
            self.nodes[here].broker.forwarding.link_up(self.ports[here, there], self.nodes[there].incarnation)

    def cut(self, a: str, b: str, arrive: tuple[int, int] = (0, 0)) -> None:
        """The session ends. Of what is under way, so many frames still arrive at b and at a."""
        self.carry(a, b, arrive[0])
        self.carry(b, a, arrive[1])
        for here, there in ((a, b), (b, a)):
            self.ports[here, there].is_up = False
            self.ports[here, there].sent = []
            self.nodes[here].broker.forwarding.link_down(there)

    def carry(self, a: str, b: str, limit: int = 1 << 30) -> int:
        """Frames from a arrive at b. Returns how many."""
        port = self.ports[a, b]
        moving, port.sent = port.sent[:limit], port.sent[limit:]
        for kind, payload in moving:
            self.nodes[b].broker.forwarding.received(a, kind, payload)
        return len(moving)

    def gone(self, name: str) -> None:
        """The node is down, and all others know."""
        for other in self.nodes:
            if other != name:
                self.cut(*((name, other) if (name, other) in self.ports else (other, name)))
                self.nodes[other].broker.forwarding.node_gone(name)

    def mirror(self, name: str) -> None:
        """The queue leads where it is, and all other nodes hold it too."""
        home = next(node for node in self.nodes.values() if not node.queue(name).is_away)
        queue = home.queue(name)
        put_before(home.broker, home.broker.vhosts["/"], queue)
        queue.ring = Ring(home.log, queue)
        home.rings.append(queue.ring)
        queue.ring.close()
        for node in self.nodes.values():
            front = node.queue(name)
            assert isinstance(front, AwayQueue)
            front.is_mirrored = True
            front.holders = (home.name, *(other for other in self.nodes if other != home.name))
            node.broker.forwarding.mirrored[front.log_id] = front
        self.rest()

    # --- time

    def turn(self, name: str) -> bool:
        node = self.nodes[name]
        more = node.broker.turn()
        if node.is_disk_fast:
            for ring in node.rings:
                ring.close()
            node.broker.reach(node.log.wanted)
        return more

    def rest(self, *, carry: bool = True) -> None:
        for _ in range(TURNS):
            busy = [self.turn(name) for name in self.nodes]
            self.store.commit()
            if carry:
                busy += [self.carry(a, b) > 0 for a, b in list(self.ports)]
            if not any(busy) and not any(self._is_busy(node) for node in self.nodes.values()):
                self.check_faults()
                return
        raise AssertionError("the cluster does not come to rest")

    def _is_busy(self, node: Node) -> bool:
        broker = node.broker
        if broker.forwarding.has_more() or broker.journal.proposals or (broker.stability.pending and node.is_disk_fast):
            return True
        unsettled = ("awaiting", "parting") if self.store.blind else ()     # they wait for a broker to see again
        return any(getattr(broker, name) for name in UNDER_WAY if name not in unsettled)

    def check_faults(self) -> None:
        for node in self.nodes.values():
            if node.host.faults:
                raise node.host.faults[0]

    def wait(self, milliseconds: int) -> None:
        for node in self.nodes.values():
            node.broker.now = node.broker.now + milliseconds
            node.broker.fire()
            for _ in range(milliseconds // 500):
                node.broker.forwarding.tick()
            agreement.look_after_stranded(node.broker)

    def client(self, name: str, channels: int = 1) -> Client:
        return Client(self, name, channels)


class Heard:
    """What a client heard: a method, and its content if it has one."""

    def __init__(self, channel: int, method: Method) -> None:
        self.channel = channel
        self.method = method
        self.body = b""

    def __repr__(self) -> str:
        return f"{self.channel} {self.method} {self.body!r}"


class Client:
    def __init__(self, cluster: Cluster, name: str, channels: int) -> None:
        self.cluster = cluster
        self.pipe = Pipe()
        peer = Peer("127.0.0.1", 40000, "127.0.0.1", 5672, is_loopback=True)
        self.connection = Connection(cluster.nodes[name].broker, self.pipe, peer)
        self.buffer = b""
        self.held_back: list[bytes] = []
        start = ConnectionStartOk(CAPABLE, "PLAIN", b"\x00guest\x00guest", "en_US")
        self.feed(PROTOCOL_HEADER + frame(1, 0, start.encode()) + frame(1, 0, ConnectionTuneOk(2047, 131072, 0).encode())
                  + frame(1, 0, ConnectionOpen("/").encode()))
        for number in range(1, channels + 1):
            self.say(ChannelOpen(), channel=number)
        self.heard()

    def feed(self, data: bytes) -> None:
        if self.pipe.is_paused:
            self.held_back.append(data)
        else:
            self.connection.receive(data)

    def say(self, *methods: Method, channel: int = 1) -> None:
        self.feed(b"".join(frame(1, channel, method.encode()) for method in methods))

    def publish(self, key: str, *bodies: bytes, exchange: str = "", channel: int = 1, mode: int = 2,
                mandatory: bool = False, properties: Properties | None = None) -> None:
        given = encode_properties(properties or Properties(delivery_mode=mode))
        head = frame(1, channel, BasicPublish(exchange, key, mandatory=mandatory).encode())
        self.feed(b"".join(head + content_frames(channel, given, body, 131072) for body in bodies))

    def ask(self, *methods: Method, channel: int = 1) -> list[Heard]:
        """Say, let everything come to rest, and tell what was heard since the last time."""
        self.say(*methods, channel=channel)
        return self.heard()

    def heard(self, *, rest: bool = True) -> list[Heard]:
        if rest:
            self.cluster.rest()
        data = self.buffer + self.pipe.take()
        heard: list[Heard] = []
        at = 0
        while len(data) - at >= 7:
            size = int.from_bytes(data[at + 3 : at + 7], "big")
            payload = data[at + 7 : at + 7 + size]
            channel = int.from_bytes(data[at + 1 : at + 3], "big")
            if data[at] == 1:
                heard.append(Heard(channel, decode_method(payload)))
            elif data[at] == 3:
                assert isinstance(heard[-1].method, (BasicDeliver, BasicGetOk, BasicReturn))
                heard[-1].body += payload
            at += size + 8
        self.buffer = data[at:]
        return heard

    def lose(self) -> None:
        self.connection.end("the socket is gone")


def methods(heard: list[Heard], *kinds: type[Method]) -> list[Method]:
    return [each.method for each in heard if not kinds or isinstance(each.method, kinds)]


def bodies(heard: list[Heard]) -> list[bytes]:
    return [each.body for each in heard if isinstance(each.method, (BasicDeliver, BasicGetOk))]


def numbered(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last + 1)]
