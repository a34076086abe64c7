"""Consumers and other clients of mirrored queues across a failover: they are connected to nodes that survive.

Every test has a queue of its own that the third node leads; clients are on the first. `lose` takes the lead from it: by cutting
the node off, which heals quickly, and in the long form by killing it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker, NackError

from cluster.live.nodes import Nodes, running
from compat.rawclient import RawClient

from .inbox import Inbox
from .rings import PERSISTENT, clear, connect, count, declare, eventually, leader_of, mirror, publish, until_in_sync

pytestmark = pytest.mark.timeout(300)
Lose = Callable[[str], None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with running(tmp_path_factory.mktemp("consumers")) as nodes:
        mirror(nodes[0], "ha")
        yield nodes


@pytest.fixture
def nodes(cluster: Nodes) -> Iterator[Nodes]:
    """All are up again afterwards; clients and queues of the test are gone."""
    yield cluster
    while OPEN:
        with suppress(AMQPError, OSError):
            OPEN.pop().close()
    cluster[2].line.heal()
    if cluster[2].process is None:
        cluster[2].start()
    cluster.until_whole()
    clear(cluster[0])


@pytest.fixture(params=["cut", pytest.param("kill", marks=pytest.mark.chaos)])
def lose(nodes: Nodes, request: pytest.FixtureRequest) -> Lose:
    def act(queue: str) -> None:
        assert leader_of(nodes[0], queue) == nodes[2].name, "the clients' node must survive"
        if request.param == "kill":
            nodes[2].kill()
        else:
            nodes[2].line.cut()
        eventually(lambda: leader_of(nodes[0], queue) not in ("", nodes[2].name))

    return act


OPEN: list[pika.BlockingConnection] = []


def channel_on(nodes: Nodes, number: int = 0) -> BlockingChannel:
    OPEN.append(connect(nodes[number]))
    channel = OPEN[-1].channel()
    channel.confirm_delivery()
    return channel


def made(nodes: Nodes, queue: str, *bodies: bytes, arguments: dict[str, Any] | None = None, **options: Any) -> BlockingChannel:
    """A mirrored queue, led by the third node, with these messages; a channel on the first node."""
    declare(nodes[2], queue, arguments, **options)
    until_in_sync(nodes, queue)
    publish(nodes[0], queue, *bodies)
    return channel_on(nodes)


def test_a_consumer_goes_on_under_its_tag_and_unacked_messages_come_back_in_place_redelivered(nodes: Nodes, lose: Lose) -> None:
    inbox = Inbox(made(nodes, "ha.consume", b"1", b"2", b"3", b"4"), "ha.consume", prefetch=2)
    inbox.until_bodies(b"1", b"2")
    inbox.channel.basic_ack(inbox.got[0][2])
    inbox.until_bodies(b"1", b"2", b"3")
    inbox.got.clear()
    lose("ha.consume")
    inbox.until(lambda: len(inbox.got) == 2)
    assert [(body, redelivered) for body, redelivered, _ in inbox.got] == [(b"2", True), (b"3", True)]
    inbox.channel.basic_ack(inbox.got[-1][2], multiple=True)
    inbox.until(lambda: len(inbox.got) == 3)
    assert inbox.got[-1][0] == b"4"
    assert (inbox.tags, inbox.cancelled) == ({inbox.tag}, [])
    inbox.channel.basic_ack(inbox.got[-1][2])
    publish(nodes[1], "ha.consume", b"5")
    inbox.until(lambda: inbox.bodies == [b"2", b"3", b"4", b"5"])
    assert not inbox.got[-1][1]


def test_what_was_never_delivered_does_not_say_redelivered_far_beyond_the_reserved_window(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.fresh", *[b"%d" % number for number in range(50)])
    lose("ha.fresh")
    got = [channel.basic_get("ha.fresh", auto_ack=True) for _ in range(50)]
    assert [body for _, _, body in got] == [b"%d" % number for number in range(50)]
    assert not any(method.redelivered for method, _, _ in got)


def test_a_consumer_that_asked_for_it_is_cancelled_at_a_failover(nodes: Nodes, lose: Lose) -> None:
    asked = {"x-cancel-on-ha-failover": True}
    inbox = Inbox(made(nodes, "ha.cancel", b"1"), "ha.cancel", arguments=asked)
    inbox.until_bodies(b"1")
    other = Inbox(inbox.channel, "ha.cancel")
    lose("ha.cancel")
    inbox.until(lambda: inbox.cancelled == [inbox.tag])
    other.until_bodies(b"1")
    assert other.got[0][1]


def test_a_client_that_knows_no_cancels_keeps_its_consumers_and_hears_of_nothing_else(nodes: Nodes, lose: Lose) -> None:
    made(nodes, "ha.silent", b"1")
    client = RawClient("127.0.0.1", nodes[0].port)
    try:
        client.handshake(properties={"product": "old", "capabilities": {}})
        client.open_channel()
        for tag, arguments in (("plain", {}), ("asked", {"x-cancel-on-ha-failover": True})):
            client.call(1, spec.Basic.Consume(queue="ha.silent", consumer_tag=tag, arguments=arguments), spec.Basic.ConsumeOk)
            if tag == "plain":
                assert client.expect_message(spec.Basic.Deliver).body == b"1"
        lose("ha.silent")
        again = client.expect_message(spec.Basic.Deliver)
        assert (again.method.consumer_tag, again.method.redelivered, again.body) == ("plain", True, b"1")
        publish(nodes[1], "ha.silent", b"2", b"3")
        got = [client.expect_message(spec.Basic.Deliver) for _ in range(2)]
        assert [(each.method.consumer_tag, each.body) for each in got] == [("plain", b"2"), ("plain", b"3")]
        assert client.alive()
    finally:
        client.close()


def test_transient_messages_outlive_the_leader(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.light", b"1")
    channel.basic_publish("", "ha.light", b"2", pika.BasicProperties(delivery_mode=1))
    declare(nodes[2], "ha.lighter", durable=False)
    publish(nodes[0], "ha.lighter", b"3")
    lose("ha.light")
    assert [channel.basic_get("ha.light", auto_ack=True)[2] for _ in range(2)] == [b"1", b"2"]
    assert channel.basic_get("ha.lighter", auto_ack=True)[2] == b"3"


def test_acks_of_an_older_leadership_acknowledge_nothing(nodes: Nodes, lose: Lose) -> None:
    bodies = [b"%d" % number for number in range(10)]
    inbox = Inbox(made(nodes, "ha.stale", *bodies), "ha.stale", prefetch=5)
    inbox.until(lambda: len(inbox.got) == 5)
    old = [tag for _, _, tag in inbox.got]
    inbox.got.clear()
    lose("ha.stale")
    inbox.until(lambda: len(inbox.got) == 5)
    for tag in old:
        inbox.channel.basic_ack(tag)
    inbox.rest()
    assert inbox.bodies == bodies[:5], "the prefetch was full: nothing was acknowledged"
    inbox.channel.close()
    eventually(lambda: count(nodes[1], "ha.stale") == 10)


def test_prefetch_holds_across_a_failover(nodes: Nodes, lose: Lose) -> None:
    inbox = Inbox(made(nodes, "ha.prefetch", *[b"%d" % number for number in range(20)]), "ha.prefetch", prefetch=3)
    inbox.until(lambda: len(inbox.got) == 3)
    inbox.got.clear()
    lose("ha.prefetch")
    inbox.until(lambda: len(inbox.got) == 3)
    inbox.rest()
    assert inbox.bodies == [b"0", b"1", b"2"]
    inbox.channel.basic_ack(inbox.got[-1][2], multiple=True)
    inbox.until(lambda: inbox.bodies == [b"0", b"1", b"2", b"3", b"4", b"5"])


def test_a_message_that_was_got_and_not_acked_comes_back_in_its_place(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.get", b"1", b"2")
    assert channel.basic_get("ha.get")[2] == b"1"
    lose("ha.get")
    method, _, body = channel.basic_get("ha.get")
    assert (body, method.redelivered) == (b"1", True)
    channel.basic_ack(method.delivery_tag)
    method, _, body = channel.basic_get("ha.get", auto_ack=True)
    assert body == b"2"
    assert channel.basic_get("ha.get")[0] is None


def test_what_was_acked_purged_or_rejected_before_a_failover_stays_away(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.gone", b"1", b"2", b"3", b"4")
    for settle in (channel.basic_ack, lambda tag: channel.basic_reject(tag, requeue=False)):
        settle(channel.basic_get("ha.gone")[0].delivery_tag)
    assert channel.queue_declare("ha.gone", passive=True).method.message_count == 2
    declare(nodes[2], "ha.purged")
    publish(nodes[0], "ha.purged", b"1", b"2")
    assert channel.queue_purge("ha.purged").method.message_count == 2
    lose("ha.gone")
    assert channel.basic_get("ha.gone", auto_ack=True)[2] == b"3"
    assert channel.queue_declare("ha.gone", passive=True).method.message_count == 1
    assert channel.queue_declare("ha.purged", passive=True).method.message_count == 0


def test_a_deleted_queue_is_gone_everywhere_and_its_name_is_free(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.deleted", b"1")
    declare(nodes[2], "ha.kept")
    assert channel.queue_delete("ha.deleted").method.message_count == 1
    lose("ha.kept")
    with pytest.raises(ChannelClosedByBroker, match="NOT_FOUND"):
        channel_on(nodes, 1).queue_declare("ha.deleted", passive=True)
    declare(nodes[1], "ha.deleted")
    assert count(nodes[0], "ha.deleted") == 0


def test_a_commit_goes_on_after_a_failover(nodes: Nodes, lose: Lose) -> None:
    made(nodes, "ha.tx", b"1")
    OPEN.append(connect(nodes[0]))
    channel = OPEN[-1].channel()
    channel.tx_select()
    channel.basic_publish("", "ha.tx", b"2", PERSISTENT)
    channel.tx_commit()
    method, _, _ = channel.basic_get("ha.tx")
    channel.basic_publish("", "ha.tx", b"3", PERSISTENT)
    lose("ha.tx")
    channel.tx_commit()
    assert count(nodes[1], "ha.tx") == 3
    got = channel.basic_get("ha.tx")
    assert (got[2], got[0].redelivered) == (b"1", True)
    assert got[0].delivery_tag != method.delivery_tag


def test_priorities_survive(nodes: Nodes, lose: Lose) -> None:
    channel = made(nodes, "ha.priority", arguments={"x-max-priority": 5})
    for priority, body in ((1, b"low"), (5, b"high"), (3, b"middle"), (5, b"high too")):
        channel.basic_publish("", "ha.priority", body, pika.BasicProperties(delivery_mode=2, priority=priority))
    lose("ha.priority")
    assert [channel.basic_get("ha.priority", auto_ack=True)[2] for _ in range(4)] == [b"high", b"high too", b"middle", b"low"]


def test_messages_expire_at_their_time_and_are_dead_lettered_by_the_new_leader(nodes: Nodes, lose: Lose) -> None:
    declare(nodes[0], "ha.dead")
    arguments = {"x-message-ttl": 4000, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ha.dead"}
    channel = made(nodes, "ha.ttl", b"1", b"2", arguments=arguments)
    lose("ha.ttl")
    eventually(lambda: count(nodes[1], "ha.ttl") == 0)
    eventually(lambda: count(nodes[1], "ha.dead") == 2)
    _, properties, body = channel.basic_get("ha.dead", auto_ack=True)
    assert (body, properties.headers["x-death"][0]["reason"]) == (b"1", "expired")


def test_dead_letters_of_rejects_reach_a_mirrored_queue_across_failovers(nodes: Nodes, lose: Lose) -> None:
    declare(nodes[2], "ha.morgue")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ha.morgue"}
    channel = made(nodes, "ha.rejecting", b"1", b"2", arguments=arguments)
    channel.basic_reject(channel.basic_get("ha.rejecting")[0].delivery_tag, requeue=False)
    eventually(lambda: count(nodes[0], "ha.morgue") == 1)
    lose("ha.rejecting")

    def is_buried() -> bool:
        """A reject that comes while the lead moves once more hits nothing, and the message comes again."""
        method, _, _ = channel.basic_get("ha.rejecting")
        if method is not None:
            channel.basic_reject(method.delivery_tag, requeue=False)
        return count(nodes[0], "ha.morgue") >= 2

    eventually(is_buried)


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
def test_a_length_limit_holds_across_a_failover(nodes: Nodes, lose: Lose, overflow: str) -> None:
    queue = f"ha.limit.{overflow}"
    declare(nodes[0], "ha.refused")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "ha.refused"} if overflow.endswith("dlx") else {}
    channel = made(nodes, queue, b"1", b"2", b"3", arguments={"x-max-length": 3, "x-overflow": overflow, **letters})
    lose(queue)
    if overflow == "drop-head":
        channel.basic_publish("", queue, b"4", PERSISTENT)
    else:
        with pytest.raises(NackError):
            channel.basic_publish("", queue, b"4", PERSISTENT)
    left = [b"2", b"3", b"4"] if overflow == "drop-head" else [b"1", b"2", b"3"]
    assert [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)] == left
    if letters:
        eventually(lambda: channel.basic_get("ha.refused", auto_ack=True)[2] == b"4")


def test_an_exclusive_consumer_stays_the_only_one(nodes: Nodes, lose: Lose) -> None:
    inbox = Inbox(made(nodes, "ha.exclusive", b"1"), "ha.exclusive", exclusive=True)
    inbox.until_bodies(b"1")
    lose("ha.exclusive")
    inbox.until(lambda: len(inbox.got) == 2)
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel_on(nodes, 1).basic_consume("ha.exclusive", lambda *_: None)


def test_of_single_active_consumers_one_is_active_after_a_failover(nodes: Nodes, lose: Lose) -> None:
    one = Inbox(made(nodes, "ha.single", b"1", arguments={"x-single-active-consumer": True}), "ha.single")
    two = Inbox(channel_on(nodes, 1), "ha.single")
    one.until_bodies(b"1")
    lose("ha.single")
    publish(nodes[1], "ha.single", b"2")

    def both() -> list[bytes]:
        two.rest(0.02)
        return one.bodies[1:] + two.bodies

    one.until(lambda: sorted(both()) == [b"1", b"2"])
    assert not one.bodies[1:] or not two.bodies, "both were active"


def test_direct_consumers_of_a_plain_queue_keep_working_when_it_becomes_mirrored_and_after_a_failover(nodes: Nodes,
                                                                                                     lose: Lose) -> None:
    declare(nodes[2], "plain.direct")
    home, guest = Inbox(channel_on(nodes, 2), "plain.direct", prefetch=1), Inbox(channel_on(nodes), "plain.direct", prefetch=1)
    publish(nodes[1], "plain.direct", b"1", b"2", b"3")
    home.until(lambda: len(home.got) == 1)
    guest.until(lambda: len(guest.got) == 1)
    mirror(nodes[0], "plain.direct", ha_sync_mode="automatic")
    until_in_sync(nodes, "plain.direct")
    for inbox in (home, guest):
        inbox.channel.basic_ack(inbox.got[-1][2])
    home.until(lambda: guest.rest(0.02) or len(home.got) + len(guest.got) == 3)
    last = home if len(home.got) == 2 else guest
    last.channel.basic_ack(last.got[-1][2])
    eventually(lambda: count(nodes[1], "plain.direct") == 0)
    guest.got.clear()
    OPEN.remove(home.channel.connection)
    home.channel.connection.close()
    lose("plain.direct")
    publish(nodes[1], "plain.direct", b"4")
    guest.until_bodies(b"4")
    nodes[0].clear_policy("/", "plain.direct")
