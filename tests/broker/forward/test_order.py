"""What comes first: consumers before those who ask, deliveries before confirms, limits before both."""

from __future__ import annotations

import pytest

from broker.forward.cluster import Client, Cluster, Heard, bodies, methods, numbered
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    ChannelClose,
    ConfirmSelect,
    ConnectionClose,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)

PLACES = {"here": "a", "elsewhere": "b", "mirrored here": "A", "mirrored elsewhere": "B"}
plain = pytest.mark.parametrize("place", ["a", "b"], ids=["here", "elsewhere"])
"""Before a mirrored queue may deliver a message it goes round, and until then it is counted."""
everywhere = pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))


def one(place: str, **arguments: object) -> Cluster:
    """A queue `q` on that node, mirrored if it is a capital letter. Clients are at node a."""
    cluster = Cluster("a", "b")
    given = {"x-" + name.replace("_", "-"): value for name, value in arguments.items()}
    cluster.client(place.lower()).ask(QueueDeclare("q", durable=True, arguments=given))
    if place.isupper():
        cluster.mirror("q")
    return cluster


# whoever asks comes behind an idle consumer


def with_idle_consumer(place: str, mode: int) -> tuple[Client, Client]:
    cluster = one(place)
    consumer, client = cluster.client("a"), cluster.client("a")
    consumer.ask(BasicConsume("q", "t"))
    client.publish("q", b"1", mode=mode)
    return consumer, client


@everywhere
@pytest.mark.parametrize("mode", [1, 2])
def test_an_idle_consumer_comes_before_a_get(place: str, mode: int) -> None:
    consumer, client = with_idle_consumer(place, mode)
    assert methods(client.ask(BasicGet("q")), BasicGetOk, BasicGetEmpty) == [BasicGetEmpty()]
    assert bodies(consumer.heard()) == [b"1"]


@plain
def test_an_idle_consumer_comes_before_a_count(place: str) -> None:
    consumer, client = with_idle_consumer(place, 1)
    (answer,) = methods(client.ask(QueueDeclare("q", passive=True)), QueueDeclareOk)
    assert isinstance(answer, QueueDeclareOk)
    assert (answer.message_count, answer.consumer_count) == (0, 1)
    assert bodies(consumer.heard()) == [b"1"]


@plain
def test_an_idle_consumer_comes_before_a_purge(place: str) -> None:
    consumer, client = with_idle_consumer(place, 1)
    (answer,) = methods(client.ask(QueuePurge("q")), QueuePurgeOk)
    assert isinstance(answer, QueuePurgeOk)
    assert answer.message_count == 0
    assert bodies(consumer.heard()) == [b"1"]


@plain
def test_what_an_idle_consumer_takes_is_not_in_the_way_of_a_delete(place: str) -> None:
    consumer, client = with_idle_consumer(place, 1)
    assert methods(client.ask(QueueDelete("q", if_empty=True)), QueueDeleteOk)
    assert bodies(consumer.heard()) == [b"1"]


@everywhere
def test_a_get_takes_what_consumers_have_no_room_for(place: str) -> None:
    cluster = one(place)
    consumer, client = cluster.client("a"), cluster.client("a")
    consumer.ask(BasicQos(0, 2), BasicConsume("q", "t"))
    client.publish("q", *numbered(1, 3))
    assert bodies(client.ask(BasicGet("q"))) == [b"3"]
    assert bodies(consumer.heard()) == numbered(1, 2)


# limits


@everywhere
def test_what_is_requeued_beyond_the_limit_is_dropped_before_a_get(place: str) -> None:
    cluster = one(place, max_length=3)
    holder, client = cluster.client("a"), cluster.client("a")
    client.publish("q", *numbered(1, 2))
    holder.ask(BasicGet("q"), BasicGet("q"))
    client.publish("q", *numbered(3, 5))
    client.heard()
    heard = holder.ask(BasicNack(0, multiple=True, requeue=True), QueueDeclare("q", passive=True), BasicGet("q"))
    counts = [each.message_count for each in methods(heard) if isinstance(each, (QueueDeclareOk, BasicGetOk))]
    assert (counts, bodies(heard)) == ([3, 2], [b"3"])


# a delivery is there at the latest with the confirm


def kinds(heard: list[Heard]) -> list[str]:
    return [type(each.method).__name__ for each in heard if isinstance(each.method, (BasicDeliver, BasicAck))]


@everywhere
@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("is_disk_fast", [True, False])
def test_a_message_is_delivered_before_it_is_confirmed(place: str, mode: int, *, is_disk_fast: bool) -> None:
    """From the first on, for which nothing is reserved yet."""
    cluster = one(place)
    client = cluster.client("a", 2)
    client.ask(ConfirmSelect())
    client.ask(BasicConsume("q", "t", no_ack=True), channel=2)
    node = cluster.nodes[place.lower()]
    for _ in range(3):
        node.is_disk_fast = is_disk_fast
        client.publish("q", b"1", mode=mode)
        heard = client.heard()
        node.is_disk_fast = True
        assert kinds(heard + client.heard()) == ["BasicDeliver", "BasicAck"]


@everywhere
def test_what_an_acknowledgement_makes_room_for_is_delivered_before_it_is_confirmed(place: str) -> None:
    cluster = one(place)
    client = cluster.client("a", 2)
    client.ask(ConfirmSelect())
    client.ask(BasicQos(0, 1, global_=True), BasicConsume("q", "t"), BasicConsume("q", "u"), channel=2)
    client.publish("q", b"1")
    client.heard()
    for tag in range(1, 4):
        client.say(BasicAck(tag), channel=2)
        client.publish("q", b"1")
        assert kinds(client.heard()) == ["BasicDeliver", "BasicAck"]


# the single active consumer


def handed_over(place: str) -> tuple[Client, Client]:
    """Four messages; the active consumer holds two of them and is cancelled, and another waits."""
    cluster = one(place, single_active_consumer=True)
    first, second = cluster.client("a"), cluster.client("b")
    first.ask(BasicQos(0, 2), BasicConsume("q", "first"))
    second.ask(BasicConsume("q", "second"))
    first.publish("q", *numbered(0, 3))
    assert bodies(first.heard()) == numbered(0, 1)
    assert methods(first.ask(BasicCancel("first")), BasicCancelOk)
    return first, second


@everywhere
@pytest.mark.parametrize("leave", [
    ChannelClose(200, "bye", 0, 0), ConnectionClose(200, "bye", 0, 0), BasicNack(0, multiple=True, requeue=True),
])
def test_the_next_single_active_consumer_gets_what_the_first_held_before_the_rest(
    place: str, leave: ChannelClose | ConnectionClose | BasicNack
) -> None:
    first, second = handed_over(place)
    assert bodies(second.heard()) == []
    first.ask(leave, channel=0 if isinstance(leave, ConnectionClose) else 1)
    assert bodies(second.heard()) == numbered(0, 3)


@everywhere
def test_the_next_single_active_consumer_goes_on_when_all_is_acknowledged(place: str) -> None:
    first, second = handed_over(place)
    first.ask(BasicAck(1))
    assert bodies(second.heard()) == []
    first.ask(BasicAck(2))
    assert bodies(second.heard()) == numbered(2, 3)


@everywhere
def test_the_order_outlives_a_second_consumer_that_leaves(place: str) -> None:
    first, second = handed_over(place)
    third = second.cluster.client("a")
    third.ask(BasicConsume("q", "third"))
    second.ask(BasicCancel("second"))
    assert bodies(third.heard()) == []
    first.lose()
    assert bodies(third.heard()) == numbered(0, 3)


@everywhere
def test_the_next_single_active_consumer_gets_at_once_what_comes_when_nothing_was_ready(place: str) -> None:
    cluster = one(place, single_active_consumer=True)
    first, second = cluster.client("a"), cluster.client("b")
    first.ask(BasicConsume("q", "first"))
    second.ask(BasicConsume("q", "second"))
    first.publish("q", b"0")
    assert bodies(first.heard()) == [b"0"]
    first.ask(BasicCancel("first"))
    first.publish("q", b"1")
    assert bodies(second.heard()) == [b"1"]
