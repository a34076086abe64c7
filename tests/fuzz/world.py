"""A broker with memory behind its ports: a log that checks what it is given, a host and sockets that only take notes.

Nothing here waits or draws random numbers, so a scenario that is run again does exactly the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from memorystore import MemoryStore
from mirrormq.broker import registry, rules
from mirrormq.broker.auth import Permission, TopicPermission, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import Connection
from mirrormq.broker.host import Host
from mirrormq.broker.passwords import hash_password
from mirrormq.broker.peer import Peer, Transport
from mirrormq.broker.policy import Policy
from mirrormq.broker.ports import LogPort
from mirrormq.log.entries import Entry, messages_in
from mirrormq.log.errors import QueueDamaged

START = 1_700_000_000_000
QUIET_TURNS = 200
UNDER_WAY = ("active", "dirty", "awaiting", "parting", "confirming", "eased", "resumed", "drained", "letters")
"""What a broker at rest has none of."""

PASSWORDS = {name: hash_password(name, b"salt") for name in ("guest", "clerk")}


class Violation(AssertionError):
    """The broker broke one of the promises that the fuzzer holds it to."""


class MemoryLog(LogPort):
    """Chunks by log. Entries of one log must follow each other without a gap, and a dropped log takes no more."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 0         # what is synced at the end of a turn
        self.chunks: dict[int, list[bytes]] = {}
        self.starts: dict[int, list[int]] = {}
        self.next_index: dict[int, int] = {}
        self.decoded: tuple[bytes, list[Entry]] = (b"", [])  # the chunk that was read last
        self.dropped: set[int] = set()
        self.damaged: set[int] = set()

    def append(self, log_id: int, first_index: int, count: int, chunk: bytes, *, sync: bool) -> None:
        if log_id in self.dropped:
            raise Violation(f"log {log_id} was dropped and is written all the same")
        self._check_sound(log_id)
        expected = self.next_index.get(log_id, 1)
        if first_index != expected:
            raise Violation(f"log {log_id} goes on at index {first_index} instead of {expected}")
        self.chunks.setdefault(log_id, []).append(chunk)
        self.starts.setdefault(log_id, []).append(first_index)
        self.next_index[log_id] = first_index + count
        self.position += len(chunk)
        if sync:
            self.wanted = self.position

    def sync(self) -> None:
        self.wanted = self.position

    def read(self, log_id: int, index: int, max_bytes: int) -> list[Entry]:
        self._check_sound(log_id)
        found: list[Entry] = []
        size = 0
        first = max(0, bisect_right(self.starts.get(log_id, []), index) - 1)
        for chunk in self.chunks.get(log_id, [])[first:]:
            entries = self._messages(chunk)
            for entry in entries[bisect_left(entries, index, key=lambda entry: entry.index) :]:
                found.append(entry)
                size += len(entry.content)
                if size >= max_bytes:
                    return found
        return found

    def _check_sound(self, log_id: int) -> None:
        if log_id in self.damaged:
            raise QueueDamaged(f"log {log_id} is damaged")

    def _messages(self, chunk: bytes) -> list[Entry]:
        if self.decoded[0] is not chunk:
            self.decoded = (chunk, messages_in(chunk, 0, 0))
        return self.decoded[1]

    def drop(self, log_id: int) -> None:
        self.chunks.pop(log_id, None)
        self.starts.pop(log_id, None)
        self.next_index.pop(log_id, None)
        self.dropped.add(log_id)


class Notes(Host):
    """What the broker asked of its host."""

    def __init__(self) -> None:
        self.tokens = 0
        self.reports = 0
        self.looks = 0          # at what policies want of mirrors
        self.faults: list[BaseException] = []
        self.wakes: list[int] = []

    def schedule(self) -> None:
        pass

    def wake_at(self, when: int) -> None:
        if not self.wakes or when < self.wakes[0]:
            self.wakes = [when]

    def token(self) -> str:
        self.tokens += 1
        return f"token{self.tokens:017d}"

    def fresh_id(self) -> int:
        self.tokens += 1
        return self.tokens << 1

    def policies_changed(self) -> None:
        self.looks += 1

    def report(self, level: str, text: str) -> None:
        self.reports += 1

    def fault(self, error: BaseException) -> None:
        self.faults.append(error)

    def watch_closing(self, connection: Connection) -> None:
        pass


class Pipe(Transport):
    """A socket whose other end is the judge."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.is_closed = False
        self.is_paused = False

    def write(self, data: bytes) -> None:
        if self.is_closed:
            raise Violation("bytes were written after the transport was closed")
        self.written.append(data)

    def close(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def take(self) -> bytes:
        data = b"".join(self.written)
        self.written = []
        return data


class World:
    """One broker with two virtual hosts and two users: guest may do everything, clerk little."""

    def __init__(self) -> None:
        self.host = Notes()
        self.log = MemoryLog()
        self.broker = Broker(self.host, self.log, "rabbit@fuzz", START)
        self.store = MemoryStore(self.broker)
        for vhost in ("/", "other"):
            rules.put_vhost(self.broker, vhost)
            rules.set_permission(self.broker, "guest", vhost, Permission(".*", ".*", ".*"))
        for name, secret in PASSWORDS.items():
            rules.put_user(self.broker, User(name, secret))
        rules.set_permission(self.broker, "clerk", "/", Permission("^q", "^(q|e|amq\\.)", "^(q|e)"))
        rules.set_topic_permission(self.broker, "clerk", "/", "e2", TopicPermission("^a", "^a"))
        self.stable()

    def connect(self, host: str = "127.0.0.1") -> tuple[Connection, Pipe]:
        pipe = Pipe()
        peer = Peer(host, 40000, "127.0.0.1", 5672, is_loopback=host == "127.0.0.1")
        return Connection(self.broker, pipe, peer), pipe

    def turn(self) -> bool:
        return self.broker.turn()

    def stable(self) -> None:
        """The log and the records are on disk."""
        self.store.commit()
        self.broker.reach(self.log.wanted)

    def wait(self, milliseconds: int) -> None:
        self.broker.now = self.broker.now + milliseconds
        self.host.wakes = []
        self.broker.fire()

    def settle(self) -> None:
        """Let everything that is under way come to its end. What does not end is a hang."""
        broker = self.broker
        for _ in range(QUIET_TURNS):
            more = broker.turn()
            self.stable()
            if not more and not broker.stability.pending and not any(getattr(broker, name) for name in UNDER_WAY):
                return
        raise Violation("the broker does not come to rest")

    def put_policy(self, name: str, pattern: str, definition: dict[str, object]) -> None:
        rules.put_policy(self.broker, Policy("/", name, pattern, "all", definition, 0), operator=False)

    def clean(self) -> None:
        """Remove everything that clients or operators made."""
        broker = self.broker
        broker.set_alarms({}, is_busy=False)
        for connection in list(broker.connections):
            connection.end("the round is over")
        for _, name in list(broker.policies):
            rules.delete_policy(broker, "/", name, operator=False)
        for vhost in broker.vhosts.values():
            for queue in list(vhost.queues.values()):
                broker.delete_queue(queue, is_stubborn=True)
            self.store.commit()
            for exchange in list(vhost.exchanges.values()):
                if exchange.name and not exchange.name.startswith("amq.") and exchange.name in vhost.exchanges:
                    registry.delete_exchange(broker, vhost, exchange)
                    self.store.commit()
        self.settle()
        self.log.dropped.clear()  # no number is given twice
