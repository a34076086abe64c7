"""A backlog that becomes dead letters at one stroke does so in portions: what is on its way is in memory."""

from __future__ import annotations

import pytest

from fuzz.client import Client
from fuzz.runner import Runner
from mirrormq.broker import rules
from mirrormq.broker.arguments import QueueArguments, effective_settings
from mirrormq.broker.expiry import PORTION
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.moving import put_before
from mirrormq.broker.overflow import CHUNK_BYTES
from mirrormq.broker.policy import Policy
from mirrormq.broker.queue import Queue
from mirrormq.broker.throttling import set_alarms
from mirrormq.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from mirrormq.wire.properties import Properties

LARGE = 128 << 10
MANY = 2 * PORTION // LARGE + 20
TTL = 1000
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}


def full(arguments: dict[str, object]) -> Client:
    client = Client(Runner())
    client.say(QueueDeclare("dead", durable=True), QueueDeclare("q", durable=True, arguments={**DEAD, **arguments}))
    client.rest()
    for number in range(MANY):
        client.publish("q", b"%d" % number + bytes(LARGE))
    client.rest()
    assert sizes(client) == (MANY, 0)
    return client


def sizes(client: Client) -> tuple[int, int]:
    queues = client.runner.world.broker.vhosts["/"].queues
    return int(queues["q"].backlog.count), int(queues["dead"].backlog.count)


def pass_time(client: Client, milliseconds: int) -> None:
    broker = client.runner.world.broker
    broker.now += milliseconds
    broker.fire()
    client.rest()


def check(client: Client) -> None:
    """In the end all are dead letters, in their order, and no more came at once than may."""
    for _ in range(10):
        pass_time(client, 10)
    assert sizes(client) == (0, MANY)
    world = client.runner.world
    chunks = world.log.chunks[world.broker.vhosts["/"].queues["dead"].log_id]
    assert max(map(len, chunks)) < PORTION + 2 * LARGE
    client.say(BasicConsume("dead", "d", no_ack=True))
    while len(client.judge.bodies) < MANY:
        client.heard()
    assert [int(body[:-LARGE]) for body in client.judge.bodies] == list(range(MANY))
    assert not world.host.faults


@pytest.mark.parametrize("is_consumed", [False, True])
def test_a_backlog_whose_time_is_over_leaves_in_portions(*, is_consumed: bool) -> None:
    client = full({"x-message-ttl": TTL})
    client.runner.world.broker.now += TTL + 1
    if is_consumed:
        client.say(BasicConsume("q", "t", no_ack=True))
    check(client)


def test_what_a_new_limit_makes_too_many_leaves_in_portions() -> None:
    client = full({})
    broker = client.runner.world.broker
    rules.put_policy(broker, Policy("/", "short", "^q$", "queues", {"max-length": 0}), operator=False)
    client.runner.world.store.commit()
    client.rest()
    check(client)


def test_a_get_behind_a_backlog_whose_time_is_over_finds_the_queue_empty_in_the_end() -> None:
    client = full({"x-message-ttl": TTL})
    client.runner.world.broker.now += TTL + 1
    client.say(BasicGet("q"))
    assert any(isinstance(method, BasicGetEmpty) for method in client.heard())
    check(client)


def test_nothing_leaves_while_the_disk_is_behind() -> None:
    client = full({"x-message-ttl": TTL})
    broker = client.runner.world.broker
    set_alarms(broker, {}, is_busy=True)
    pass_time(client, TTL + 1)
    pass_time(client, 100)
    assert sizes(client) == (MANY, 0)
    set_alarms(broker, {}, is_busy=False)
    check(client)


def reject_all(client: Client) -> Queue:
    client.say(BasicConsume("q", "t"))
    for _ in range(MANY):
        client.heard()
        client.rest()
    (channel,) = [channel for connection in client.runner.world.broker.connections for channel in connection.channels.values()]
    assert len(channel.unacked) == MANY
    client.say(BasicNack(0, multiple=True, requeue=False))
    client.rest()
    return client.runner.world.broker.vhosts["/"].queues["q"]


def test_what_is_rejected_at_one_stroke_leaves_in_portions() -> None:
    client = full({})
    queue = reject_all(client)
    assert queue.held == len(queue.postponed) > 0
    assert sum(len(message.content) for message, _ in queue.postponed) == 0
    assert set(queue.snapshot(final=False).live) == {message.index for message, _ in queue.postponed}
    client.judge.bodies.clear()
    check(client)
    assert (queue.held, queue.held_bytes, queue.kept) == (0, 0, 0)


def mirrored(client: Client) -> AwayQueue:
    """Dead letters go to a queue that another node leads, and a third can."""
    broker = client.runner.world.broker
    arguments = QueueArguments({})
    target = AwayQueue(broker, "/", "dead", 1000, home="n2", durable=True, auto_delete=False, owner=None, arguments=arguments,
                       settings=effective_settings(arguments, {}))
    target.is_mirrored = True
    target.holders = ("n2", "n3")
    broker.vhosts["/"].queues["dead"] = target
    broker.forwarding.mirrored[1000] = target
    broker.forwarding.embassy("n3")
    return target


def on_their_way(target: AwayQueue) -> int:
    return sum(run.count for run in target.unconfirmed.values())


def behind(client: Client, queue: Queue) -> AwayQueue:
    """The node that gets its dead letters has too many of them already."""
    target = queue.letters_to = mirrored(client)
    target.embassy.load = PORTION + 1
    return target


def test_what_is_rejected_waits_for_the_node_that_gets_it() -> None:
    client = full({})
    queue = client.runner.world.broker.vhosts["/"].queues["q"]
    target = behind(client, queue)
    reject_all(client)
    assert (queue.held, len(queue.postponed), on_their_way(target)) == (MANY, MANY, 0)
    target.embassy.load = 0
    pass_time(client, 10)
    assert on_their_way(target) == MANY - len(queue.postponed) > 0


def test_what_was_rejected_leaves_before_its_queue_is_deleted() -> None:
    client = full({})
    queue = reject_all(client)
    assert queue.postponed
    client.say(QueueDelete("q"))
    client.rest()
    assert client.runner.world.broker.vhosts["/"].queues["dead"].backlog.count == MANY
    assert not client.runner.world.host.faults


def test_what_waits_already_is_not_forgotten_when_more_expires_on_the_way() -> None:
    """A dead letter that comes back to its own queue makes room there, so others expire while those that wait are sent."""
    runner = Runner()
    client = Client(runner)
    worker = Client(runner, 2)
    broker = runner.world.broker
    client.say(QueueDeclare("q", durable=True, arguments={
        "x-max-length": 3, "x-message-ttl": TTL, "x-dead-letter-exchange": ""}))
    for body in (b"first", b"second"):
        client.publish("q", body)
        client.rest()
        worker.say(BasicGet("q"))
        worker.rest()
    for _ in range(3):
        client.publish("q", b"old")
    client.rest()
    set_alarms(broker, {}, is_busy=True)
    worker.say(BasicNack(0, multiple=True, requeue=False))
    pass_time(worker, TTL + 1)
    queue = broker.vhosts["/"].queues["q"]
    assert (queue.backlog.count, len(queue.postponed)) == (3, 2)
    set_alarms(broker, {}, is_busy=False)
    broker.letter_bytes = PORTION - 1       # other queues have dead letters too
    worker.judge.bodies.clear()
    worker.say(BasicConsume("q", "t", no_ack=True))
    for _ in range(3):
        pass_time(worker, 10)
    assert (queue.held, queue.kept, worker.judge.bodies) == (0, 0, [b"first", b"second"])


def test_what_was_rejected_leaves_before_its_queue_is_deleted_though_it_is_mirrored() -> None:
    client = full({})
    queue = reject_all(client)
    assert queue.postponed
    broker = client.runner.world.broker
    vhost = broker.vhosts["/"]
    front = put_before(broker, vhost, queue)
    broker.forwarding.mirrored[front.log_id] = front
    client.say(QueueDelete("q"))
    client.rest()
    assert "q" not in vhost.queues
    assert vhost.queues["dead"].backlog.count == MANY


def test_nothing_expires_while_the_node_that_gets_it_is_behind() -> None:
    client = full({"x-message-ttl": TTL})
    queue = client.runner.world.broker.vhosts["/"].queues["q"]
    target = behind(client, queue)
    pass_time(client, TTL + 1)
    pass_time(client, 100)
    assert (queue.backlog.count, on_their_way(target)) == (MANY, 0)
    target.embassy.load = 0
    pass_time(client, 10)
    assert on_their_way(target) == MANY - queue.backlog.count > 0


def test_a_node_that_gets_none_of_them_holds_up_nothing() -> None:
    client = full({"x-message-ttl": TTL})
    forwarding = client.runner.world.broker.forwarding
    forwarding.embassy("other").load = PORTION + 1
    pass_time(client, TTL + 1)
    check(client)


@pytest.mark.parametrize("is_consumed", [False, True])
def test_what_is_behind_an_expired_message_does_not_wait_with_it(*, is_consumed: bool) -> None:
    client = full({"x-message-ttl": TTL})
    queue = client.runner.world.broker.vhosts["/"].queues["q"]
    behind(client, queue)
    pass_time(client, TTL + 1)
    client.publish("q", b"alive")
    client.rest()
    client.say(BasicConsume("q", "t", no_ack=True) if is_consumed else BasicGet("q", no_ack=True))
    client.heard()
    assert client.judge.bodies == [b"alive"]
    assert (queue.backlog.count, queue.held, len(queue.postponed)) == (0, MANY, MANY)
    assert len(queue.snapshot(final=False).live) == MANY


def test_no_letter_is_dropped_between_two_leaders_of_its_queue() -> None:
    client = full({"x-message-ttl": TTL})
    broker = client.runner.world.broker
    queue, target = broker.vhosts["/"].queues["q"], mirrored(client)
    broker.forwarding.node_gone("n2")
    assert not target.is_hopeless()
    for _ in range(10):
        pass_time(client, TTL)
    assert on_their_way(target) > 0
    assert queue.backlog.count + on_their_way(target) == MANY


def test_headers_count_too() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("dead", durable=True), QueueDeclare("q", durable=True, arguments={**DEAD, "x-message-ttl": TTL}))
    client.rest()
    for _ in range(MANY):
        client.publish("q", b"", Properties(delivery_mode=2, headers={"h": "x" * 100_000}))
    client.rest()
    pass_time(client, TTL + 1)
    ready, dead = sizes(client)
    assert ready > 0
    assert dead > 0


def test_a_large_transaction_is_more_than_one_chunk() -> None:
    """A chunk has a largest size, a transaction has none."""
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True), TxSelect())
    count = CHUNK_BYTES // LARGE + 20
    for number in range(count):
        client.publish("q", b"%d" % number + bytes(LARGE))
    client.say(TxCommit())
    assert any(isinstance(method, TxCommitOk) for method in client.heard())
    world = client.runner.world
    assert len(world.log.chunks[world.broker.vhosts["/"].queues["q"].log_id]) == 2
    client.say(BasicConsume("q", "t", no_ack=True))
    while len(client.judge.bodies) < count:
        client.heard()
    assert [int(body[:-LARGE]) for body in client.judge.bodies] == list(range(count))


def test_a_new_policy_sets_free_what_waits_for_a_node_that_gets_none_of_it_any_more() -> None:
    client = full({"x-message-ttl": TTL})
    broker = client.runner.world.broker
    queues = broker.vhosts["/"].queues
    dead = queues["dead"]
    behind(client, queues["q"])
    pass_time(client, TTL + 1)
    assert queues["q"].backlog.count == MANY
    queues["dead"] = dead       # as if it were another queue
    rules.put_policy(broker, Policy("/", "other", "^q$", "queues", {"max-length": MANY}), operator=False)
    client.runner.world.store.commit()
    client.rest()
    check(client)
