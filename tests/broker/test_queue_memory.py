"""A queue with more messages than its window holds: what is in the log only comes back whole and in order."""
from __future__ import annotations

import pytest

from fuzz.client import Client
from fuzz.runner import Runner
from fuzz.world import World
from mirrormq.broker import registry
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.backlog import WINDOW_BYTES, PlainBacklog
from mirrormq.broker.message import Message, address_of, build_content
from mirrormq.broker.priority import PriorityBacklog
from mirrormq.broker.queue import Queue
from mirrormq.broker.queue_log import HELD_BY_ALL, HELD_BYTES
from mirrormq.broker.recovery import restore_queue
from mirrormq.broker.stability import Barrier
from mirrormq.log.fold import RecoveredQueue
from mirrormq.wire.methods import BasicAck, BasicConsume, BasicQos, QueueDeclare
from mirrormq.wire.properties import Properties, encode_properties

MORE_THAN_A_WINDOW = 20_000


class Patience(Barrier):
    """A get that has to wait for a reservation."""

    def passed(self) -> None:
        pass


def new_queue(world: World, **arguments: int) -> Queue:
    table = {name.replace("_", "-"): value for name, value in arguments.items()}
    vhost = world.broker.vhosts["/"]
    registry.create_queue(world.broker, vhost, "q", QueueArguments(table), durable=True, auto_delete=False, owner=None)
    world.store.commit()
    return vhost.queues["q"]


def message(world: World, number: int, mode: int, priority: int = 0) -> Message:
    properties = encode_properties(Properties(delivery_mode=mode, priority=priority))
    body = b"%d" % number
    content = build_content(1, properties, body, 131072)
    return Message(content, address_of("", "q"), world.broker.infos.get(properties), len(body))


def take(world: World, queue: Queue) -> int | None:
    """The next message, settled."""
    while True:
        patience = Patience()
        got = queue.get(patience)
        if got is not None:
            queue.settle(got)
            return int(got.body())
        if not patience.outstanding:
            return None
        world.settle()


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("turns", [1, 100])
def test_what_is_published_in_few_turns_can_be_taken_at_once(mode: int, turns: int) -> None:
    world = World()
    queue = new_queue(world)
    for number in range(MORE_THAN_A_WINDOW):
        queue.publish(message(world, number, mode), None)
        if number % (MORE_THAN_A_WINDOW // turns) == 1 and turns > 1:
            world.settle()
    assert [take(world, queue) for _ in range(MORE_THAN_A_WINDOW)] == list(range(MORE_THAN_A_WINDOW))
    assert take(world, queue) is None
    assert (queue.backlog.count, queue.backlog.bytes, queue.kept) == (0, 0, 0) or queue.acked.ranges
    assert not world.host.faults


def test_a_backlog_beyond_the_window_holds_no_content() -> None:
    world = World()
    queue = new_queue(world)
    for number in range(MORE_THAN_A_WINDOW):
        queue.publish(message(world, number, 2), None)
    world.settle()
    assert queue.backlog.count == MORE_THAN_A_WINDOW
    assert world.broker.budget.used < MORE_THAN_A_WINDOW * 320 // 2
    assert queue.purge() == MORE_THAN_A_WINDOW
    world.settle()
    assert (world.broker.budget.used, queue.kept, queue.backlog.bytes) == (0, 0, 0)


def test_priorities_hold_beyond_the_window() -> None:
    world = World()
    queue = new_queue(world, x_max_priority=2)
    for number in range(9000):
        queue.publish(message(world, number, 2, number % 3), None)
    world.settle()
    expected = [number for priority in (2, 1, 0) for number in range(9000) if number % 3 == priority]
    assert [take(world, queue) for _ in range(9000)] == expected


def test_requeued_messages_come_back_in_their_place_though_only_the_log_has_them() -> None:
    world = World()
    queue = new_queue(world)
    for number in range(MORE_THAN_A_WINDOW):
        queue.publish(message(world, number, 2), None)
    world.settle()
    held = []
    while len(held) < 100:
        got = queue.get(Patience())
        if got is None:
            world.settle()
            continue
        queue.hold(got)
        got.content = b""           # as for messages beyond what is kept of unacknowledged ones
        held.append(got)
    for each in reversed(held):
        queue.requeue(each)
    assert [take(world, queue) for _ in range(200)] == list(range(200))

LARGE = 64 << 10


def large(world: World, number: int, mode: int = 2, priority: int = 0) -> Message:
    properties = encode_properties(Properties(delivery_mode=mode, priority=priority))
    body = b"%d" % number + bytes(LARGE)
    content = build_content(1, properties, body, 131072)
    return Message(content, address_of("", "q"), world.broker.infos.get(properties), len(body))


def number_of(message: Message) -> int:
    return int(message.body()[:-LARGE])


def hold_all(world: World, queue: Queue, count: int) -> list[Message]:
    held: list[Message] = []
    while len(held) < count:
        got = queue.get(Patience())
        if got is None:
            world.settle()
            continue
        queue.hold(got)
        held.append(got)
    return held


def restarted(world: World, queue: Queue, *, is_clean: bool = False) -> Queue:
    """The same queue as recovery would give it back, after a clean stop or another."""
    world.settle()
    found = RecoveredQueue(queue.log_id)
    found.start_from(queue.snapshot(final=is_clean))
    found.settle()
    again = Queue(world.broker, "/", "q", queue.log_id, durable=True, auto_delete=False, owner=None,
                  arguments=queue.arguments, settings=queue.settings)
    queue.backlog.clear()
    restore_queue(again, found)
    return again


def in_memory(queue: Queue) -> int:
    backlog = queue.backlog
    if isinstance(backlog, PlainBacklog):
        found = [*backlog.window, *[message for _, message in backlog.returned]]
    else:
        assert isinstance(backlog, PriorityBacklog)
        found = backlog._in_memory()
    return sum([len(message.content) for message in found])


def test_large_messages_of_a_priority_queue_cost_no_more_memory_than_a_plain_ones() -> None:
    world = World()
    queue = new_queue(world, x_max_priority=2)
    for number in range(600):
        queue.publish(large(world, number, 2, number % 3), None)
    world.settle()
    assert in_memory(queue) < 2 * WINDOW_BYTES
    expected = [number for priority in (2, 1, 0) for number in range(600) if number % 3 == priority]
    assert [number_of(message) for message in hold_all(world, queue, 600)] == expected
    assert world.broker.budget.used == 0


def test_a_transient_message_does_not_overtake_what_only_the_log_has_of_its_priority() -> None:
    world = World()
    queue = new_queue(world, x_max_priority=2)
    for number in range(4000):
        queue.publish(message(world, number, 2), None)
    assert [take(world, queue) for _ in range(2500)] == list(range(2500))
    queue.publish(message(world, 4000, 1), None)
    assert [take(world, queue) for _ in range(1501)] == list(range(2500, 4001))


def test_a_purge_of_a_priority_queue_reads_nothing() -> None:
    world = World()
    queue = new_queue(world, x_max_priority=2)
    for number in range(9000):
        queue.publish(message(world, number, 1 + number % 2, number % 3), None)
    world.settle()
    world.log.read = None           # type: ignore[method-assign, assignment]
    assert queue.purge() == 9000
    world.settle()
    assert (queue.kept, queue.kept_bytes, world.broker.budget.used) == (0, 0, 0)


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 2}])
def test_large_messages_that_come_back_to_the_queue_stay_in_the_log(arguments: dict[str, int]) -> None:
    world = World()
    queue = new_queue(world, **arguments)
    for number in range(600):
        queue.publish(large(world, number), None)
    held = hold_all(world, queue, 600)
    for each in held[100:]:
        each.content = b""          # as `pump` does beyond what is kept of unacknowledged ones
    for each in held:
        queue.requeue(each)
    assert in_memory(queue) < 2 * WINDOW_BYTES
    assert [number_of(each) for each in hold_all(world, queue, 600)] == list(range(600))
    assert all(each.redelivered for each in held)


@pytest.mark.parametrize("arguments", [{}, {"x_max_priority": 2}])
@pytest.mark.parametrize("is_held", [False, True])
def test_a_restart_brings_no_more_than_a_window_of_content_into_memory(arguments: dict[str, int], *, is_held: bool) -> None:
    world = World()
    queue = new_queue(world, **arguments)
    for number in range(600):
        queue.publish(large(world, number), None)
    if is_held:
        hold_all(world, queue, 600)
    again = restarted(world, queue)
    assert (again.backlog.count, again.kept) == (600, 600)
    assert in_memory(again) < 2 * WINDOW_BYTES
    assert [number_of(each) for each in hold_all(world, again, 600)] == list(range(600))


def test_what_is_published_after_a_crash_was_never_delivered_though_its_index_was_reserved() -> None:
    world = World()
    queue = new_queue(world)
    queue.publish(large(world, 0), None)
    queue.reserve(1, 100)
    hold_all(world, queue, 1)
    again = restarted(world, queue)
    assert again.reserved > again.next_index + 3
    for number in (1, 2, 3):
        again.publish(large(world, number), None)
    after = restarted(world, again, is_clean=True)
    assert [(number_of(each), each.redelivered) for each in hold_all(world, after, 4)] == [
        (0, True), (1, False), (2, False), (3, False)]


def test_of_many_large_deliveries_the_log_alone_keeps_the_content() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True))
    for _ in range(400):
        client.publish("q", bytes(LARGE))
    client.rest()
    client.say(BasicConsume("q", "t"))
    for _ in range(400):
        client.rest()
        client.heard()
    (channel,) = [channel for connection in client.runner.world.broker.connections for channel in connection.channels.values()]
    assert len(channel.unacked) == 400
    assert sum([len(each.message.content) for each in channel.unacked.values()]) < HELD_BYTES + 8 * (1 << 20)


def test_of_many_deliveries_of_many_queues_the_log_alone_keeps_the_content() -> None:
    client = Client(Runner())
    names = [f"q{number}" for number in range(20)]
    for name in names:
        client.say(QueueDeclare(name, durable=True))
        for _ in range(25):
            client.publish(name, bytes(LARGE))
    client.rest()
    client.runner.world.broker.budget.held = HELD_BY_ALL - HELD_BYTES // 2     # as much as others hold already
    for name in names:
        client.say(BasicConsume(name, name))
    for _ in range(100):
        client.rest()
        client.heard()
    (channel,) = [channel for connection in client.runner.world.broker.connections for channel in connection.channels.values()]
    assert len(channel.unacked) == 500
    assert sum([len(each.message.content) for each in channel.unacked.values()]) < HELD_BYTES


def test_what_clients_hold_of_a_queue_that_led_here_does_not_count_any_more() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True))
    client.publish("q", bytes(LARGE))
    client.publish("q", bytes(LARGE))
    client.say(BasicConsume("q", "c"))
    client.rest()
    broker = client.runner.world.broker
    assert broker.budget.held == 2 * LARGE
    broker.vhosts["/"].queues["q"].close()
    assert broker.budget.held == 0
    client.say(BasicAck(2, multiple=True))
    client.rest()
    assert broker.budget.held == 0


def test_a_full_queue_does_not_come_into_memory_while_its_new_consumer_waits_for_the_disk() -> None:
    client = Client(Runner())
    client.say(QueueDeclare("q", durable=True, arguments={"x-max-length-bytes": 400 * LARGE}))
    client.rest()
    for _ in range(400):
        client.publish("q", bytes(LARGE))
    client.rest()
    queue = client.runner.world.broker.vhosts["/"].queues["q"]
    client.say(BasicQos(0, 300), BasicConsume("q", "t"))
    client.runner.world.turn()
    for _ in range(10):
        client.publish("q", bytes(LARGE))
    assert (queue.promised, queue.backlog.count) == (300, 410)
    assert in_memory(queue) < 2 * WINDOW_BYTES


def test_a_queue_keeps_little_when_all_queues_together_hold_too_much() -> None:
    world = World()
    queue = new_queue(world)
    world.broker.budget.limit = -1
    for number in range(100):
        queue.publish(large(world, number), None)
    assert in_memory(queue) < 4 * LARGE
    held: list[int] = []
    for _ in range(100):
        held += [number_of(message) for message in hold_all(world, queue, 1)]
        assert in_memory(queue) < 4 * LARGE
    assert held == list(range(100))
    assert world.broker.budget.used == 0
