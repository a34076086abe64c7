"""Who gets what there is room for: the queues of one channel share it, wherever they are."""

from __future__ import annotations

from collections import Counter

import pytest

from broker.forward.cluster import Client, Cluster, methods, numbered
from mirrormq.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicNack, BasicQos, QueueDeclare

PLACES = {
    "here": "aaa", "elsewhere": "bbb", "everywhere": "abc", "mirrored here": "AAA", "mirrored elsewhere": "BBB", "mixed": "aAB",
}
"""The homes of three queues; a capital letter says that it is mirrored."""
QUEUES = ("q0", "q1", "q2")


def three(places: str, count: int, size: int = 0) -> tuple[Cluster, Client]:
    """A client of node a, and so many messages in each queue."""
    cluster = Cluster("a", "b", "c")
    publisher = cluster.client("a")
    for name, place in zip(QUEUES, places, strict=True):
        cluster.client(place.lower()).ask(QueueDeclare(name, durable=True))
        if place.isupper():
            cluster.mirror(name)
        publisher.publish(name, *[body.ljust(size) for body in numbered(1, count)])
    cluster.rest()
    return cluster, cluster.client("a")


def consume(client: Client, *before: BasicQos) -> list[BasicDeliver]:
    return delivered(client, *before, *(BasicConsume(name, name) for name in QUEUES))


def delivered(client: Client, *methods_: BasicQos | BasicConsume | BasicAck | BasicNack) -> list[BasicDeliver]:
    heard = client.ask(*methods_)
    return [each for each in methods(heard, BasicDeliver) if isinstance(each, BasicDeliver)]


@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize("places", PLACES.values(), ids=list(PLACES))
def test_the_prefetch_of_a_channel_is_shared_by_its_queues(places: str, limit: int) -> None:
    _, client = three(places, 100)
    waiting = consume(client, BasicQos(0, limit, global_=True))
    done: Counter[str] = Counter()
    while done.total() < 99:
        assert len(waiting) <= limit
        delivery = waiting.pop(0)
        done[delivery.consumer_tag] += 1
        waiting += delivered(client, BasicAck(delivery.delivery_tag))
    assert min(done[name] for name in QUEUES) >= 25


@pytest.mark.parametrize("settle", [BasicAck(0, multiple=True), BasicNack(0, multiple=True, requeue=False)])
@pytest.mark.parametrize("places", PLACES.values(), ids=list(PLACES))
def test_what_comes_free_at_once_is_shared_too(places: str, settle: BasicAck | BasicNack) -> None:
    _, client = three(places, 100)
    taken = consume(client, BasicQos(0, 12, global_=True))
    done: Counter[str] = Counter()
    while done.total() < 96:
        assert len(taken) == 12
        done.update(delivery.consumer_tag for delivery in taken)
        taken = delivered(client, settle)
    assert min(done[name] for name in QUEUES) >= 25


@pytest.mark.parametrize("places", PLACES.values(), ids=list(PLACES))
def test_the_last_queue_with_messages_gets_all_the_room(places: str) -> None:
    cluster, client = three(places, 3)
    publisher = cluster.client("b")
    publisher.publish("q1", *numbered(4, 30))
    cluster.rest()
    taken = consume(client, BasicQos(0, 5, global_=True))
    done: Counter[str] = Counter()
    while taken:
        done.update(delivery.consumer_tag for delivery in taken)
        taken = delivered(client, BasicAck(0, multiple=True))
    assert done == {"q0": 3, "q1": 30, "q2": 3}


@pytest.mark.parametrize("places", PLACES.values(), ids=list(PLACES))
def test_a_queue_that_is_published_to_all_the_time_has_no_advantage(places: str) -> None:
    _, client = three(places, 60)
    waiting = consume(client, BasicQos(0, 1, global_=True))
    done: Counter[str] = Counter()
    while done.total() < 60:
        delivery = waiting.pop(0)
        done[delivery.consumer_tag] += 1
        client.publish("q0", b"more")
        waiting += delivered(client, BasicAck(delivery.delivery_tag))
    assert min(done[name] for name in QUEUES) >= 15


@pytest.mark.parametrize("places", PLACES.values(), ids=list(PLACES))
def test_a_socket_that_is_full_is_shared_too(places: str) -> None:
    """Without any prefetch the first queue does not keep the others waiting until it is empty."""
    cluster, client = three(places, 100, size=15_000)
    consume_all = [BasicConsume(name, name, no_ack=True) for name in QUEUES]
    client.connection.choke()
    client.say(*consume_all)
    cluster.rest()
    client.connection.relax()
    first = [str(each.consumer_tag) for each in methods(client.heard(), BasicDeliver) if isinstance(each, BasicDeliver)]
    assert len(first) == 300
    assert len(set(first[:150])) == 3
