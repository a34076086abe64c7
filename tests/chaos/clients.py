"""Clients of a run. Each is a thread with one connection that waits for answers, and never asks again because time has passed.

Rules
 1. A client that loses its connection opens one to another node. Everything it waited for is void then: what was published and
    not confirmed is not published again, so that a message that comes twice is the cluster's doing.
 2. `waits_for` says what a client waits for. A client that still waits long after the last fault is a finding.
 3. Deliveries of an earlier connection that were not read are never read.
"""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from chaos.ledger import Ledger, Number
from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import FrameReader, content_frames, method_frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    TxCommit,
    TxSelect,
    decode_method,
)
from mirrormq.wire.properties import Properties, encode_properties

PERSISTENT = encode_properties(Properties(delivery_mode=2))
FRAME_MAX = 131072
CONNECTS = 2.0          # seconds for the kernel of a node's machine to accept a connection
TICK = 0.1
AGAIN = 0.2             # seconds until a client that lost its connection opens the next one
PREFETCH = 40


class Gone(Exception):
    """The connection or its channel is no more."""


class Connection:
    """One connection with one channel. `content` is the body that came with a method."""

    def __init__(self, client: Client, host: str, vhost: str) -> None:
        self._client = client
        self._reader = FrameReader(FRAME_MAX)
        self._events: list[tuple[Method, bytes]] = []
        self._head: Method | None = None
        self._socket = socket.create_connection((host, 5672), timeout=CONNECTS)
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.send(PROTOCOL_HEADER)
            self.expect("connection.start")
            able = {"capabilities": {"consumer_cancel_notify": True, "publisher_confirms": True, "basic.nack": True}}
            self.send(method_frame(0, ConnectionStartOk(able, "PLAIN", b"\0guest\0guest", "en_US")))
            self.expect("connection.tune")
            self.send(method_frame(0, ConnectionTuneOk(2047, FRAME_MAX, 0)) + method_frame(0, ConnectionOpen(vhost)))
            self.expect("connection.open-ok")
            self.call(ChannelOpen(), "channel.open-ok")
        except BaseException:
            self.close()
            raise

    def send(self, data: bytes) -> None:
        """In pieces: a node that does not read must not keep the client from ending."""
        view = memoryview(data)
        while view:
            if self._client.is_ending():
                raise Gone("ended")
            try:
                if select.select([], [self._socket], [], TICK)[1]:
                    view = view[self._socket.send(view, socket.MSG_DONTWAIT):]
            except BlockingIOError:
                continue
            except OSError as error:
                raise Gone(str(error)) from None

    def call(self, method: Method, answer: str) -> Method:
        self.send(method_frame(1, method))
        return self.expect(answer)[0]

    def expect(self, *names: str) -> tuple[Method, bytes]:
        """The next method, which is one of these."""
        self._client.waits(" or ".join(names))
        while not self._events:
            self._read(TICK)
        method, body = self._events.pop(0)
        self._client.waits("")
        if method.name not in names:
            raise Gone(f"{method.name} came instead of {' or '.join(names)}")
        return method, body

    def events(self, within: float) -> Iterator[tuple[Method, bytes]]:
        """What has come, waiting for the first for that long."""
        if not self._events:
            self._read(within)
        while self._events:
            yield self._events.pop(0)

    def _read(self, within: float) -> None:
        if self._client.is_ending():
            raise Gone("ended")
        try:
            if not select.select([self._socket], [], [], within)[0]:
                return
            data = self._socket.recv(1 << 18)
        except OSError as error:
            raise Gone(str(error)) from None
        if not data:
            raise Gone("the server closed the socket")
        for frame in self._reader.feed(data):
            if frame.kind == 1:
                self._take(decode_method(frame.payload))
            elif frame.kind == 3 and self._head is not None:        # all bodies of a run are one frame
                self._events.append((self._head, bytes(frame.payload)))
                self._head = None

    def _take(self, method: Method) -> None:
        if isinstance(method, ChannelClose | ConnectionClose):
            self._client.ledger.reasons[f"{method.reply_code} {method.reply_text}"] += 1
            raise Gone(method.reply_text)
        if method.name in ("basic.deliver", "basic.get-ok", "basic.return"):
            self._head = method
        elif method.name == "basic.cancel":
            self._client.ledger.reasons["a consumer was cancelled"] += 1
            raise Gone("cancelled")
        else:
            self._events.append((method, b""))

    def close(self) -> None:
        self._socket.close()


class Client(threading.Thread):
    """`hosts` are the nodes' addresses; `number` says where it begins."""

    def __init__(self, name: str, ledger: Ledger, hosts: list[str], vhost: str, number: int) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.vhost = vhost
        self.waits_for = ""
        self.since = 0.0
        self.host = ""
        self.random = random.Random(number)
        self._hosts = hosts
        self._next = number
        self._dropped = 0
        self._drop = 0
        self.ending = threading.Event()

    def run(self) -> None:
        while not self.ending.is_set():
            self.host = self._hosts[self._next % len(self._hosts)]
            self._next += 1
            self._dropped = self._drop
            try:
                self.waits("a connection")
                connection = Connection(self, self.host, self.vhost)
            except (Gone, OSError):
                self.ending.wait(AGAIN)
                continue
            try:
                self.session(connection)
            except Gone:
                self.ledger.totals["connections lost"] += 1
            finally:
                self.waits("")
                connection.close()
            self.ending.wait(AGAIN)
        self.waits("")

    def session(self, connection: Connection) -> None:
        raise NotImplementedError

    def waits(self, what: str) -> None:
        """What it waits for from now on; the time stays while it tries one node after the other in vain."""
        if what == self.waits_for:
            return
        if not (what and self.waits_for):
            self.since = time.monotonic()
        self.waits_for = what

    def waited(self, since: float) -> float:
        """For how many seconds it has waited, counted from `since` at the earliest."""
        return time.monotonic() - max(self.since, since) if self.waits_for else 0.0

    def is_ending(self) -> bool:
        return self.ending.is_set() or self._drop != self._dropped

    def drop(self) -> None:
        """Give up the connection that it has."""
        self._drop += 1


class Publisher(Client):
    """Publishes to its queues in turn, `rate` messages a second, at most `window` of them unconfirmed."""

    def __init__(self, ledger: Ledger, hosts: list[str], vhost: str, number: int, queues: list[str], rate: float) -> None:
        super().__init__(f"publisher {number}", ledger, hosts, vhost, number)
        self.number = number
        self.queues = queues
        self.rate = rate
        self.window = 100
        self.paused = threading.Event()
        self.is_idle = False            # paused, and everything is confirmed
        self._serial = 0
        self._session = 0

    def session(self, connection: Connection) -> None:
        connection.call(ConfirmSelect(), "confirm.select-ok")
        self._session += 1
        pending: dict[int, tuple[str, Number]] = {}
        returned: set[Number] = set()
        tag, begin = 0, time.monotonic()
        while True:
            due = int((time.monotonic() - begin) * self.rate) - tag
            self.is_idle = self.paused.is_set() and not pending
            if self.paused.is_set():
                begin = time.monotonic() - tag / self.rate
            elif due > 0 and len(pending) < self.window:
                data = b""
                for _ in range(min(due, self.window - len(pending))):
                    tag, self._serial = tag + 1, self._serial + 1
                    queue = self.queues[tag % len(self.queues)]
                    number = Number(self.number, self._session, self._serial)
                    pending[tag] = (queue, number)
                    data += method_frame(1, BasicPublish("", queue, mandatory=True))
                    data += content_frames(1, PERSISTENT, number.body, FRAME_MAX)
                connection.send(data)
            self.waits("confirms" if pending else "")
            for method, body in connection.events(0.02):
                if isinstance(method, BasicReturn):
                    returned.add(Number.of(body))
                elif isinstance(method, BasicAck | BasicNack):
                    self.since = time.monotonic()
                    self._settle(method, pending, returned)

    def _settle(self, method: BasicAck | BasicNack, pending: dict[int, tuple[str, Number]], returned: set[Number]) -> None:
        last = method.delivery_tag
        tags = [tag for tag in pending if tag <= last] if method.multiple else [last]
        confirmed: dict[str, list[Number]] = {}
        for tag in tags:
            queue, number = pending.pop(tag)
            if number in returned:
                returned.discard(number)
                self.ledger.totals["returned"] += 1
            elif isinstance(method, BasicNack):
                self.ledger.totals["refused"] += 1
            else:
                confirmed.setdefault(queue, []).append(number)
        for queue, numbers in confirmed.items():
            self.ledger.confirm(queue, numbers)


class Consumer(Client):
    """Consumes a queue while it is `open`. Acknowledges in groups, one by one, or in transactions; puts some back."""

    def __init__(self, ledger: Ledger, hosts: list[str], vhost: str, number: int, queue: str, *, transactions: bool = False,
                 puts_back: bool = False, whole_order: bool = False) -> None:
        super().__init__(f"consumer {number} of {queue}", ledger, hosts, vhost, number)
        self.queue = queue
        self.open = threading.Event()
        self.last = 0.0                         # when it received something
        self._transactions = transactions
        self._puts_back = puts_back
        self._whole_order = whole_order         # the queue has a single active consumer, so order holds across connections
        self._order: dict[tuple[int, int], int] = {}

    def session(self, connection: Connection) -> None:
        while not self.open.is_set():
            for _ in connection.events(TICK):
                pass
        if self._transactions:
            connection.call(TxSelect(), "tx.select-ok")
        connection.call(BasicQos(0, PREFETCH), "basic.qos-ok")
        connection.call(BasicConsume(self.queue), "basic.consume-ok")
        order: dict[tuple[int, int], int] = {}
        while self.open.is_set():
            got: list[tuple[int, Number]] = []
            for method, body in connection.events(TICK):
                if isinstance(method, BasicDeliver):
                    number = Number.of(body)
                    got.append((method.delivery_tag, number))
                    self._note(method, number, order)
            if got:
                self.last = time.monotonic()
                self._answer(connection, got, order)

    def _note(self, method: BasicDeliver, number: Number, order: dict[tuple[int, int], int]) -> None:
        is_first = number not in self.ledger.queues[self.queue].received
        self.ledger.receive(self.queue, number, redelivered=method.redelivered)
        key = number[:2]
        if not method.redelivered:
            if number.serial < order.get(key, 0):
                self.ledger.find("out of order", f"{number} came from {self.queue} after {order[key]}, on one channel")
            order[key] = max(order.get(key, 0), number.serial)
        if self._whole_order and is_first:
            if number.serial < self._order.get(key, 0):
                self.ledger.find("out of order", f"{number} came first from {self.queue} after {self._order[key]}")
            self._order[key] = number.serial

    def _answer(self, connection: Connection, got: list[tuple[int, Number]], order: dict[tuple[int, int], int]) -> None:
        last = got[-1][0]
        if self._transactions:
            self._commit(connection, got, order)
        elif self._puts_back and self.random.random() < 0.05:
            connection.send(method_frame(1, BasicNack(last, multiple=True, requeue=True)))
        elif self.random.random() < 0.5:
            connection.send(method_frame(1, BasicAck(last, multiple=True)))
        else:
            tags = [tag for tag, _ in got]
            self.random.shuffle(tags)
            connection.send(b"".join(method_frame(1, BasicAck(tag)) for tag in tags))

    def _commit(self, connection: Connection, got: list[tuple[int, Number]], order: dict[tuple[int, int], int]) -> None:
        """Also what arrives before the answer."""
        while got:
            connection.send(method_frame(1, BasicAck(got[-1][0], multiple=True)) + method_frame(1, TxCommit()))
            self.waits("tx.commit-ok")
            more: list[tuple[int, Number]] = []
            is_done = False
            while not is_done:
                for method, body in connection.events(TICK):
                    if isinstance(method, BasicDeliver):
                        number = Number.of(body)
                        more.append((method.delivery_tag, number))
                        self._note(method, number, order)
                    elif method.name == "tx.commit-ok":
                        self.ledger.commit(self.queue, [number for _, number in got])
                        is_done = True
            self.waits("")
            got = more


class Caller(Client):
    """Declares a queue of its own, publishes, gets and deletes: each must be answered, and the message must be there."""

    def session(self, connection: Connection) -> None:
        connection.call(ConfirmSelect(), "confirm.select-ok")
        for turn in range(20):
            name = f"{self.random.choice('mp')}.call.{self.name}.{turn}".replace(" ", "-")
            connection.call(QueueDeclare(name, auto_delete=True, exclusive=self.random.random() < 0.5), "queue.declare-ok")
            connection.send(method_frame(1, BasicPublish("", name)) + content_frames(1, PERSISTENT, b"0 0 0", FRAME_MAX))
            connection.expect("basic.ack", "basic.nack")
            connection.send(method_frame(1, BasicGet(name, no_ack=True)))
            connection.expect("basic.get-ok", "basic.get-empty")
            connection.call(QueueDelete(name), "queue.delete-ok")
            self.ledger.totals["calls"] += 6
            self.ending.wait(0.1)


def ask_once(ledger: Ledger, host: str, vhost: str, question: Callable[[Connection], int], within: float) -> int | None:
    """The answer of a conversation of its own; None where there was none in time."""
    told: list[int] = []

    class Asker(Client):
        def session(self, connection: Connection) -> None:
            told.append(question(connection))
            self.ending.set()

    asker = Asker("asker", ledger, [host], vhost, 0)
    asker.start()
    asker.join(within)
    asker.ending.set()
    return told[0] if told else None


def count(ledger: Ledger, host: str, vhost: str, queue: str, within: float) -> int | None:
    """The messages that are ready, by passive declaration."""

    def question(connection: Connection) -> int:
        answer = connection.call(QueueDeclare(queue, passive=True), "queue.declare-ok")
        assert isinstance(answer, QueueDeclareOk)
        return answer.message_count

    with suppress(OSError):
        return ask_once(ledger, host, vhost, question, within)
    return None
