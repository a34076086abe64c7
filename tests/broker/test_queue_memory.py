"""A queue with more messages than its window holds: what is in the log only comes back whole and in order."""
from __future__ import annotations

import pytest

from fuzz.world import World
from mirrormq.broker import registry
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.message import Message, address_of, build_content
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
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
