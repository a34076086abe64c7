"""What the fuzzer found, each as the least that showed it."""

from __future__ import annotations

import gc

import pytest

from mirrormq.broker.channel import Channel
from mirrormq.broker.connection import Connection
from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import frame
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelClose,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from mirrormq.wire.properties import Properties
from mirrormq.wire.table import Table, Value

from .audit import check_broker, check_released, check_rest
from .client import Client, published
from .runner import Runner

MEBI = 1 << 20


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def client(runner: Runner) -> Client:
    return Client(runner, channels=3)


def declared(client: Client, name: str = "q0", arguments: Table | None = None) -> None:
    client.say(QueueDeclare(name, durable=True, arguments=arguments))
    client.heard()


def is_read(client: Client) -> bool:
    return not client.session.pipe.is_paused


def refusal(heard: list[Method]) -> tuple[int, str]:
    last = heard[-1]
    assert isinstance(last, (ChannelClose, ConnectionClose)), heard
    return last.reply_code, last.reply_text


# Nothing is lost


def test_messages_that_are_gathered_and_not_yet_logged_are_delivered(client: Client) -> None:
    """They are more than the queue keeps in memory, so it reads them back from the log within the same turn."""
    declared(client)
    for number in range(12):
        client.publish("q0", bytes([number]) * MEBI)
    client.say(BasicConsume("q0", "t", no_ack=True))
    client.rest()
    assert [body[0] for body in client.judge.bodies] == list(range(12))


def test_messages_behind_a_backlog_are_delivered_in_the_turn_they_arrive_in(client: Client) -> None:
    declared(client)
    for number in range(12):
        client.publish("q0", bytes([number]) * MEBI)
    client.rest()
    for number in range(12, 15):
        client.publish("q0", bytes([number]) * MEBI)
    client.say(BasicConsume("q0", "t", no_ack=True))
    client.rest()
    assert [body[0] for body in client.judge.bodies] == list(range(15))


def test_a_window_of_large_messages_is_bounded_by_their_size(runner: Runner, client: Client) -> None:
    declared(client)
    for _ in range(40):
        client.publish("q0", b"x" * MEBI)
    client.rest()
    client.say(BasicQos(0, 1), BasicConsume("q0", "t"))
    for tag in range(1, 20):
        client.rest()
        client.say(BasicAck(tag))
    client.rest()
    assert runner.world.broker.budget.used < 16 * MEBI


@pytest.mark.parametrize("mode", [1, 2])
def test_messages_with_priority_beyond_the_window_are_delivered(client: Client, mode: int) -> None:
    declared(client, arguments={"x-max-priority": 3})
    client.feed(published("q0", properties=Properties(delivery_mode=mode)) * 4000)
    client.say(BasicConsume("q0", "t", no_ack=True))
    client.rest()
    assert len(client.judge.bodies) == 4000


# Nothing hangs


def test_a_get_between_the_write_and_the_sync_of_what_it_waits_for_is_answered(runner: Runner, client: Client) -> None:
    declared(client)
    client.publish("q0")
    runner.world.turn()
    client.say(BasicGet("q0"))
    assert isinstance(client.heard()[-1], BasicGetOk)


def test_a_transaction_that_acknowledges_from_a_deleted_queue_commits(client: Client) -> None:
    declared(client)
    client.publish("q0")
    client.say(TxSelect(), BasicGet("q0"))
    client.rest()
    client.say(BasicAck(1), QueueDelete("q0"))
    client.rest()
    client.say(TxCommit())
    assert isinstance(client.heard()[-1], TxCommitOk)
    check_rest(client.session.connection)


def test_a_get_that_waits_when_its_queue_is_deleted_fails_on_its_own_channel(runner: Runner, client: Client) -> None:
    """It goes on only after the frame that deleted the queue, whose answer belongs to the other channel."""
    declared(client)
    client.publish("q0")
    runner.world.turn()
    client.say(BasicGet("q0"))
    client.say(QueueDelete("q0"), channel=2)
    client.say(BasicGet("missing"), channel=2)
    client.rest()
    heard = client.judge.methods
    closed = [number for number, method in heard if isinstance(method, ChannelClose)]
    assert sorted(closed) == [1, 2]
    assert [number for number, method in heard if isinstance(method, QueueDeleteOk)] == [2]


def test_an_error_that_lets_another_channel_go_on_leaves_the_stream_in_step(runner: Runner, client: Client) -> None:
    """The auto-delete queue goes with the failing channel's consumer, and the get that waits for it is answered; what
    follows in the same bytes is still understood."""
    client.say(QueueDeclare("q0", durable=True, auto_delete=True))
    client.say(BasicQos(0, 1), BasicConsume("q0", "t"), channel=2)
    client.heard()
    for _ in range(3):
        client.publish("q0")
    runner.world.turn()
    wrong = frame(1, 2, BasicAck(99).encode())
    client.feed(frame(1, 1, BasicGet("q0").encode()) + wrong + frame(1, 3, QueueDeclare("after").encode()))
    client.heard()
    assert "after" in runner.world.broker.vhosts["/"].queues
    assert client.session.connection.state == 4


# Nothing breaks the broker


@pytest.mark.parametrize("expiration", ["++5", "--5", "+-5", "+", "-", "", "5x"])
def test_an_expiration_that_is_no_number_is_refused(client: Client, expiration: str) -> None:
    client.publish("q0", properties=Properties(expiration=expiration))
    code, text = refusal(client.heard())
    assert code == 406
    assert f"invalid expiration '{expiration}'" in text


def test_a_forged_count_of_deaths_does_not_overflow(client: Client) -> None:
    declared(client, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q1"})
    declared(client, "q1")
    death: Table = {"queue": "q0", "reason": "rejected", "count": 2**63 - 1}
    client.publish("q0", properties=Properties(headers={"x-death": [death]}))
    client.say(BasicGet("q0"))
    client.rest()
    client.say(BasicReject(1, requeue=False))
    client.rest()
    client.say(BasicGet("q1"))
    assert isinstance(client.heard()[-1], BasicGetOk)


def test_a_delay_of_thousands_of_digits_is_a_long_delay(client: Client) -> None:
    client.say(ExchangeDeclare("d", "x-delayed-message", arguments={"x-delayed-type": "fanout"}))
    client.heard()
    client.publish("", properties=Properties(headers={"x-delay": "9" * 5000}), exchange="d")
    client.say(BasicGet("missing"))
    assert refusal(client.heard())[0] == 404


def test_a_dead_letter_routing_key_that_no_message_could_carry_is_refused(client: Client) -> None:
    client.say(QueueDeclare("q0", arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "k" * 256}))
    assert refusal(client.heard())[0] == 406


def test_blind_copies_that_no_address_can_hold_are_left_out(client: Client) -> None:
    declared(client)
    for copies in (["k" * 256], ["k" * 255] * 400):
        client.publish("q0", properties=Properties(delivery_mode=2, headers={"BCC": list[Value](copies)}))
    client.say(BasicGet("q0"), BasicGet("q0"))
    assert isinstance(client.heard()[-1], BasicGetOk)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish-dlx"])
def test_a_message_falls_through_any_number_of_full_queues(client: Client, overflow: str) -> None:
    """Each hands it to the next; that must not go deeper on the stack each time."""
    for number in range(160):
        arguments: Table = {"x-max-length": 0, "x-overflow": overflow, "x-dead-letter-exchange": ""}
        client.say(QueueDeclare(f"c{number}", arguments=arguments | {"x-dead-letter-routing-key": f"c{number + 1}"}))
    client.say(QueueDeclare("c160"))
    client.publish("c0")
    client.rest()
    client.say(BasicGet("c160"))
    assert isinstance(client.heard()[-1], BasicGetOk)


def test_a_chain_of_auto_delete_exchanges_goes_with_its_last_link(runner: Runner, client: Client) -> None:
    for number in range(1100):
        client.say(ExchangeDeclare(f"c{number}", "fanout", auto_delete=True, no_wait=True))
        if number:
            client.say(ExchangeBind(f"c{number}", f"c{number - 1}", no_wait=True))
    client.say(ExchangeDelete("c1099"))
    client.rest()
    assert [name for name in runner.world.broker.vhosts["/"].exchanges if name.startswith("c")] == []


def test_a_method_of_three_octets_on_a_closing_channel_is_ignored(client: Client) -> None:
    client.say(BasicGet("missing"))
    client.rest()
    client.feed(frame(1, 1, b"\x00\x14\x00"))
    assert isinstance(client.heard()[-1], ChannelClose)


# What arrives whole is checked like what arrives in pieces


@pytest.mark.parametrize("head", [b"\x01\x3c\x00\x00", b"\x00\x3c\x00\x01", b"\x00\x3c\x01\x00"])
def test_a_content_header_of_another_class_or_weight_is_refused(client: Client, head: bytes) -> None:
    header = frame(2, 1, head + (1).to_bytes(8, "big") + b"\x00\x00")
    client.feed(frame(1, 1, BasicPublish("", "q0").encode()) + header + frame(3, 1, b"x"))
    assert refusal(client.heard())[0] == 505


def test_a_body_frame_beyond_the_agreed_size_is_refused(runner: Runner) -> None:
    client = Client(runner, frame_max=4096)
    header = frame(2, 1, b"\x00\x3c\x00\x00" + (9000).to_bytes(8, "big") + b"\x00\x00")
    client.feed(frame(1, 1, BasicPublish("", "q0").encode()) + header + frame(3, 1, b"x" * 9000))
    assert refusal(client.heard())[0] == 501


def test_a_message_beyond_the_largest_allowed_is_refused(runner: Runner, client: Client) -> None:
    runner.world.broker.limits.max_message_size = 100
    client.publish("q0", b"x" * 101)
    assert refusal(client.heard())[0] == 406


def test_a_body_frame_with_the_tolerated_eight_octets_too_many_is_not_passed_on_so(runner: Runner) -> None:
    """The judge refuses a delivery in frames larger than was agreed."""
    runner.world.broker.limits.frame_max = 4096
    client = Client(runner, frame_max=4096)
    declared(client)
    header = frame(2, 1, b"\x00\x3c\x00\x00" + (4096).to_bytes(8, "big") + b"\x00\x00")
    client.feed(frame(1, 1, BasicPublish("", "q0").encode()) + header + frame(3, 1, b"x" * 4096))
    client.say(BasicGet("q0", no_ack=True))
    client.rest()
    assert client.judge.bodies == [b"x" * 4096]


# Closing


def test_a_closing_connection_is_not_told_of_alarms_and_is_read(runner: Runner, client: Client) -> None:
    broker = runner.world.broker
    broker.set_alarms({"memory": "low on memory"}, is_busy=False)
    client.publish("q0")
    assert isinstance(client.heard()[-1], ConnectionBlocked)
    client.session.connection.close_with(320, "CONNECTION_FORCED - test", 0, 0)
    assert is_read(client)
    broker.set_alarms({}, is_busy=False)
    broker.set_alarms({"disk": "low on disk"}, is_busy=False)
    assert isinstance(client.heard()[-1], ConnectionClose)
    assert is_read(client)


# Nothing is kept


def test_a_publisher_that_is_gone_leaves_no_routes(runner: Runner, client: Client) -> None:
    client.publish("q0")
    client.rest()
    client.session.connection.end("gone")
    client.rest()
    check_released(runner.world.broker, client.session.connection)


def test_timers_of_deleted_queues_do_not_pile_up(runner: Runner, client: Client) -> None:
    for _ in range(500):
        client.say(QueueDeclare("q0", arguments={"x-expires": 86_400_000}), QueueDelete("q0"))
        client.rest()
    assert len(runner.world.broker.timers) < 100


def test_large_property_lists_are_not_remembered(runner: Runner, client: Client) -> None:
    for number in range(50):
        client.publish("q0", properties=Properties(headers={"a": f"{number}" * 50_000}))
    client.rest()
    assert sum(len(key) for key in runner.world.broker.infos.known) < 10_000


def test_frames_that_wait_for_a_suspended_channel_are_bounded_by_their_size(client: Client) -> None:
    client.say(QueueDeclare("q0", durable=True))
    client.feed(b"".join(published("q0", b"x" * 100_000) for _ in range(20)))
    assert not is_read(client)
    client.rest()
    assert is_read(client)
    client.say(QueueDeclare("q0", passive=True))
    last = client.heard()[-1]
    assert isinstance(last, QueueDeclareOk)
    assert last.message_count == 20


def test_a_client_that_does_not_read_is_not_read_either(client: Client) -> None:
    connection = client.session.connection
    connection.choke()
    asked = 0
    while is_read(client):
        client.session.connection.receive(published("nowhere", b"x" * 100_000).replace(b"nowhere\x00", b"nowhere\x01"))
        client.runner.world.turn()
        asked += 1
        assert asked < 100
    connection.relax()
    client.rest()
    assert is_read(client)
    assert len(client.judge.bodies) == asked


def test_answers_that_are_too_many_for_one_turn_wait_for_the_next(runner: Runner, client: Client) -> None:
    """A handful of octets can ask for a thousand times as many."""
    declared(client)
    for _ in range(100):
        client.publish("q0", b"x" * 100_000)
    client.rest()
    client.feed(frame(1, 1, BasicGet("q0", no_ack=True).encode()) * 150)
    assert client.session.connection.out_size < 8 * MEBI
    heard = client.heard()
    assert sum(isinstance(method, BasicGetOk) for method in heard) == 100
    assert sum(isinstance(method, BasicGetEmpty) for method in heard) == 50
    check_broker(runner.world)


def test_a_connection_with_a_transaction_is_freed_when_it_ends(runner: Runner) -> None:
    gc.collect()
    gc.disable()
    try:
        connection, _ = runner.world.connect()
        connection.receive(PROTOCOL_HEADER)
        connection.end("gone")
        client = Client(runner)
        client.say(TxSelect())
        client.rest()
        runner._lost(1)
        del client, connection
        alive = [thing for thing in gc.get_objects() if isinstance(thing, (Connection, Channel))]
        assert alive == []
    finally:
        gc.enable()


def test_a_close_is_answered_once_when_what_ends_with_the_connection_is_gone(runner: Runner, client: Client) -> None:
    """Seed 20261117, scenario 34407."""
    client.say(QueueDeclare("q1", durable=True, auto_delete=True), BasicConsume("q1", "t", no_ack=True))
    client.heard()
    client.feed(frame(1, 0, ConnectionClose(200, "bye", 0, 0).encode()) * 2)
    assert [type(method) for method in client.heard()] == [ConnectionCloseOk]
    check_broker(runner.world)
