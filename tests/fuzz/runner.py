"""Running scenarios and holding the broker to its promises.

After every session the broker must come to rest, with nothing left to say or to wait for, and what a lost connection
had must be gone. After every scenario an ordinary client must find the broker in order; and when everything is removed,
it must be as new.
"""

from __future__ import annotations

from collections import Counter

from mirrormq.broker.connection import CLOSING, RUNNING, Connection
from mirrormq.wire.constants import FRAME_END, PROTOCOL_HEADER
from mirrormq.wire.frames import frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDelete,
)
from mirrormq.wire.properties import Properties, encode_properties

from .audit import check, check_broker, check_clean, check_released, check_rest
from .handshake import CLOSE, CLOSE_OK, LOGINS, open_vhost, tune_ok
from .judge import Judge
from .scenario import FOREIGN_ADDRESS, Scenario, Step
from .world import Pipe, Violation, World

CONNECTION_CLOSE = b"\x00\x0a\x00\x32"
POLICIES: tuple[dict[str, object] | None, ...] = (
    None, {"max-length": 1}, {"message-ttl": 3, "dead-letter-exchange": "", "dead-letter-routing-key": "q1"},
    {"alternate-exchange": "e1"}, {"expires": 20},
)  # fmt: skip


class Session:
    def __init__(self, connection: Connection, pipe: Pipe, judge: Judge) -> None:
        self.connection = connection
        self.pipe = pipe
        self.judge = judge
        self.held_back: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """What arrives while the broker does not read waits in the network."""
        if self.pipe.is_paused or self.held_back:
            self.held_back.append(data)
        else:
            self.connection.receive(data)

    def drain(self) -> bool:
        """Whether something could be delivered that had been held back."""
        if not self.held_back or self.pipe.is_paused:
            return False
        while self.held_back and not self.pipe.is_paused:
            self.connection.receive(self.held_back.pop(0))
        return True

    def listen(self) -> None:
        if self.connection.state >= RUNNING and not self.judge.frame_max:
            self.judge.frame_max = self.connection.frame_max
        self.judge.hear(self.pipe.take())


class Runner:
    def __init__(self) -> None:
        self.world = World()
        self.seen: Counter[str] = Counter()
        self.sessions: dict[int, Session] = {}
        self.count = 0

    def prepare(self, scenario: Scenario) -> None:
        broker = self.world.broker
        broker.limits.frame_max = scenario.frame_max
        broker.limits.max_message_size = scenario.max_message_size
        broker.budget.limit = scenario.budget

    def run(self, scenario: Scenario) -> None:
        self.prepare(scenario)
        for step in scenario.steps:
            self.step(step)
            self._check_faults()
        for who in list(self.sessions):
            self._lost(who)
        self._end_alarms()
        self._settle()
        check_broker(self.world)
        self._ordinary_client()
        self.world.clean()
        self._check_faults()
        check_clean(self.world)

    def step(self, step: Step) -> None:
        what = step.what
        if what == "open":
            self._open(step.who, step.number)
        elif what == "turn":
            self.world.turn()
        elif what == "stable":
            self.world.stable()
        elif what == "wait":
            self.world.wait(step.number)
        elif what in ("alarm", "busy", "policy", "overdue", "empty"):
            self._operate(what, step.number)
        elif step.who in self.sessions:
            self._on_session(what, step)

    def _on_session(self, what: str, step: Step) -> None:
        session = self.sessions[step.who]
        connection = session.connection
        if what == "feed":
            session.feed(step.data)
        elif what == "choke":
            connection.choke()
        elif what == "relax":
            connection.relax()
        elif what == "force":
            if connection.state == RUNNING:
                connection.close_with(320, "CONNECTION_FORCED - by the operator", 0, 0)
        elif what == "lost":
            self._lost(step.who)
        else:
            self._finish(step.who, what)

    # --- what happens to the broker ---------------------------------------------------------------------------------

    def _operate(self, what: str, number: int) -> None:
        broker = self.world.broker
        if what == "alarm":
            broker.set_alarms({"memory": "low on memory"} if number else {}, is_busy=False)
        elif what == "busy":
            broker.set_alarms({}, is_busy=True)
        elif what == "overdue":
            broker.check_overdue(number)
        elif what == "empty":
            for queue in list(broker.vhosts["/"].queues.values())[number : number + 1]:
                queue.purge()
        else:
            definition = POLICIES[number]
            if definition is not None:
                self.world.put_policy("fuzz", "^[pqe]", definition)

    def _end_alarms(self) -> None:
        self.world.broker.set_alarms({}, is_busy=False)

    def _check_faults(self) -> None:
        faults = self.world.host.faults
        if faults:
            raise Violation(f"the broker met a fault of its own: {faults[0]!r}") from faults[0]

    def _settle(self) -> None:
        self.world.settle()
        while self._drain_all():
            self.world.settle()
        for session in self.sessions.values():
            session.listen()
        self._check_faults()

    def _drain_all(self) -> int:
        return sum(session.drain() for session in self.sessions.values())

    # --- sessions -----------------------------------------------------------------------------------------------------

    def _open(self, who: int, number: int) -> None:
        self.count += 1
        connection, pipe = self.world.connect(FOREIGN_ADDRESS if number else "127.0.0.1")
        self.sessions[who] = Session(connection, pipe, Judge(self.seen))

    def _come_to_rest(self, session: Session) -> None:
        """All that the client sent has been handled; nothing is to happen any more."""
        self._end_alarms()
        session.connection.relax()
        self._settle()
        check(
            session.pipe.is_closed or not session.pipe.is_paused,
            "nothing is read from a client although no alarm is on",
        )
        check_rest(session.connection)
        if session.connection.is_over:
            check(session.pipe.is_closed, "the connection is over and its socket open")
        elif session.judge.close is not None:
            check(session.connection.state == CLOSING, "connection.close was sent and the connection lives on")

    def _finish(self, who: int, what: str) -> None:
        """The client says a last word, if it still can; then its socket goes."""
        session = self.sessions[who]
        self._come_to_rest(session)
        connection = session.connection
        in_step = not connection.parts
        if what == "close" and connection.state == RUNNING and in_step:
            self._say(session, CLOSE)
            check(session.judge.has_said_close_ok, "connection.close was not answered")
            check(session.pipe.is_closed, "the socket stays open after close-ok")
        elif what == "answer" and connection.state == CLOSING and in_step:
            self._say(session, CLOSE_OK)
            check(session.pipe.is_closed, "the socket stays open after the client's close-ok")
        self._lost(who)

    def _say(self, session: Session, data: bytes) -> None:
        session.connection.receive(data)
        self._settle()

    def _lost(self, who: int) -> None:
        session = self.sessions[who]
        self._come_to_rest(session)
        self._count_outcome(session)
        session.connection.end("the client closed its socket")
        self._settle()
        session.judge.finish()
        del self.sessions[who]
        check_released(self.world.broker, session.connection)

    def _count_outcome(self, session: Session) -> None:
        states = ("no header", "before login", "tuning", "opening", "open", "closed with an error", "ended")
        self.seen[f"outcome: {states[session.connection.state]}"] += 1

    # --- the ordinary client ------------------------------------------------------------------------------------------

    def _ordinary_client(self) -> None:
        connection, pipe = self.world.connect()
        judge = Judge(self.seen)
        judge.keeps_methods = True
        session = Session(connection, pipe, judge)
        self.sessions[-1] = session
        frame_max = self.world.broker.limits.frame_max
        self._say(session, PROTOCOL_HEADER + LOGINS[0] + tune_ok(2047, frame_max) + open_vhost())
        self._say(session, _frames(ChannelOpen(), ConfirmSelect(), QueueDeclare("ordinary", durable=True)))
        properties = encode_properties(Properties(delivery_mode=2))
        header = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + properties
        publish = _frames(BasicPublish("", "ordinary")) + frame(2, 1, header) + frame(3, 1, b"hello")
        self._say(session, publish + _frames(BasicGet("ordinary")))
        self._say(session, _frames(BasicAck(1), QueueDelete("ordinary", if_empty=True)) + CLOSE)
        _check_ordinary(judge)
        connection.end("done")
        self._settle()
        del self.sessions[-1]


def hear_all(scenario: Scenario) -> bytes:
    """All that a broker of its own says to the only session of a scenario."""
    runner = Runner()
    runner.prepare(scenario)
    for step in scenario.steps:
        runner.step(step)
    runner.world.settle()
    runner._check_faults()
    session = runner.sessions[0]
    said = session.pipe.take()
    sent = b"".join(step.data for step in scenario.steps if step.what == "feed" and step.who == 0)
    return said if _is_readable(sent[8:], session.connection.frame_limit) else _up_to_its_close(said)


def _is_readable(sent: bytes, limit: int) -> bool:
    """Whether all of it is frames, or the beginning of one."""
    at = 0
    while len(sent) - at >= 7:
        size = int.from_bytes(sent[at + 3 : at + 7], "big")
        end = at + 7 + size
        if size > limit or (end < len(sent) and sent[end] != FRAME_END):
            return False
        at = end + 1
    return True


def _up_to_its_close(said: bytes) -> bytes:
    """After bytes that are no frame the next portion is read as a new beginning, so that a client's close-ok is found.
    Whether more than that is understood depends on the portions, and may: it changes nothing but the last word."""
    at = 8 if said.startswith(PROTOCOL_HEADER) else 0
    while at < len(said):
        end = at + int.from_bytes(said[at + 3 : at + 7], "big") + 8
        if said[at : at + 3] == b"\x01\x00\x00" and said[at + 7 : at + 11] == CONNECTION_CLOSE:
            return said[:end]
        at = end
    return said


def check_twins(first: Scenario, second: Scenario) -> None:
    """How bytes are cut into portions must not matter."""
    one, other = hear_all(first), hear_all(second)
    if one != other:
        at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
        raise Violation(f"portions matter from octet {at} on: {one[at : at + 120]!r} and {other[at : at + 120]!r}")


def _frames(*methods: Method) -> bytes:
    return b"".join(frame(1, 1, method.encode()) for method in methods)


def _check_ordinary(judge: Judge) -> None:
    said = [method for _, method in judge.methods]
    got = [method for method in said if isinstance(method, BasicGetOk)]
    check(len(got) == 1 and judge.bodies == [b"hello"], f"an ordinary client was not served: {said!r}")
    check(any(isinstance(method, BasicAck) and method.delivery_tag == 1 for method in said), "a publish was not confirmed")
    check(isinstance(said[-1], ConnectionCloseOk), f"an ordinary client's close was not answered: {said!r}")
