"""tx.select, commit and rollback. Publishes and settlements of a channel happen at commit, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import RawClient
from .support import Broker, eventually, unique

Declare = Callable[..., str]
Basic, Queue, Tx = spec.Basic, spec.Queue, spec.Tx


@pytest.fixture
def tx(raw: RawClient) -> RawClient:
    """Channel 1 is transactional, channel 2 is not."""
    raw.call(1, Tx.Select(), Tx.SelectOk)
    raw.open_channel(2)
    return raw


def owned(client: RawClient, name: str = "", **arguments: Any) -> str:
    options = {key.replace("_", "-"): value for key, value in arguments.items()}
    declare = Queue.Declare(queue=name, exclusive=True, arguments=options)
    return str(client.call(2, declare, Queue.DeclareOk).queue)


def commit(client: RawClient) -> None:
    client.call(1, Tx.Commit(), Tx.CommitOk)


def rollback(client: RawClient) -> None:
    client.call(1, Tx.Rollback(), Tx.RollbackOk)


def body_of_next(client: RawClient, queue: str) -> bytes | None:
    """Get on channel 2 without acknowledging."""
    client.send_method(2, Basic.Get(queue=queue, no_ack=True))
    _, method = client.read()
    return client.read_content(2)[1] if isinstance(method, Basic.GetOk) else None


def filled(client: RawClient, count: int, **arguments: Any) -> str:
    """A queue with messages b"1", b"2", …, all delivered to channel 1 and unsettled."""
    queue = owned(client, **arguments)
    for number in range(1, count + 1):
        client.publish(2, "", queue, str(number).encode())
    client.alive(2)
    for number in range(1, count + 1):
        client.send_method(1, Basic.Get(queue=queue))
        message = client.expect_message(Basic.GetOk)
        assert (message.body, message.method.delivery_tag) == (str(number).encode(), number)
    return queue


def left(client: RawClient, queue: str) -> list[bytes]:
    """Close channel 1, so that what it held goes back, and take everything."""
    client.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    got: list[bytes] = []

    def drained() -> bool:
        while (body := body_of_next(client, queue)) is not None:
            got.append(body)
        ready = client.call(2, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk).message_count
        return int(ready) == 0

    eventually(drained)
    return got


# publishing


def test_a_publish_is_seen_after_commit(tx: RawClient) -> None:
    queue = owned(tx)
    tx.publish(1, "", queue, b"one")
    tx.publish(1, "", queue, b"two")
    assert tx.alive(1)
    assert body_of_next(tx, queue) is None
    commit(tx)
    assert [body_of_next(tx, queue) for _ in range(3)] == [b"one", b"two", None]


def test_a_rolled_back_publish_is_never_seen(tx: RawClient) -> None:
    queue = owned(tx)
    tx.publish(1, "", queue, b"no")
    rollback(tx)
    commit(tx)
    tx.publish(1, "", queue, b"yes")
    commit(tx)
    assert [body_of_next(tx, queue) for _ in range(2)] == [b"yes", None]


def test_a_commit_of_nothing_is_fine(tx: RawClient) -> None:
    commit(tx)
    rollback(tx)
    commit(tx)


def test_select_may_be_repeated(tx: RawClient) -> None:
    queue = owned(tx)
    tx.publish(1, "", queue, b"x")
    tx.call(1, Tx.Select(), Tx.SelectOk)
    commit(tx)
    assert body_of_next(tx, queue) == b"x"


def test_closing_the_channel_rolls_back(tx: RawClient) -> None:
    queue = owned(tx)
    tx.publish(1, "", queue, b"x")
    tx.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    assert body_of_next(tx, queue) is None


def test_a_consumer_sees_all_of_a_commit_or_nothing(tx: RawClient) -> None:
    queue = owned(tx)
    tx.call(2, Basic.Consume(queue=queue, no_ack=True), Basic.ConsumeOk)
    for number in range(10):
        tx.publish(1, "", queue, str(number).encode())
    assert tx.silent()
    tx.send_method(1, Tx.Commit())
    got: list[bytes] = []
    committed = False
    while not committed or len(got) < 10:
        _, method = tx.read()
        if isinstance(method, Basic.Deliver):
            got.append(tx.read_content(2)[1])
        else:
            committed = isinstance(method, Tx.CommitOk)
    assert got == [str(number).encode() for number in range(10)]


def test_a_commit_reaches_several_queues(tx: RawClient) -> None:
    queues = [owned(tx) for _ in range(3)]
    for queue in queues:
        tx.publish(1, "", queue, queue.encode())
    commit(tx)
    assert [body_of_next(tx, queue) for queue in queues] == [queue.encode() for queue in queues]


def test_routing_happens_at_publish(tx: RawClient) -> None:
    """A binding that is made between publish and commit comes too late."""
    queue, key = owned(tx), unique("key")
    tx.publish(1, "amq.direct", key, b"early")
    tx.alive(1)
    tx.call(2, Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key), Queue.BindOk)
    tx.publish(1, "amq.direct", key, b"late")
    commit(tx)
    assert [body_of_next(tx, queue) for _ in range(2)] == [b"late", None]


@pytest.mark.parametrize("existed", [True, False])
def test_a_queue_that_is_declared_before_the_commit_gets_what_was_sent_to_its_name(tx: RawClient, existed: bool) -> None:
    name = unique("q")
    if existed:
        owned(tx, name)
    tx.publish(1, "", name, b"x", mandatory=True)
    tx.alive(1)
    tx.call(2, Queue.Delete(queue=name), Queue.DeleteOk)
    owned(tx, name)
    commit(tx)
    assert [body_of_next(tx, name) for _ in range(2)] == [b"x", None]


def test_what_was_for_a_queue_that_is_gone_comes_back_at_commit(tx: RawClient) -> None:
    name = owned(tx)
    tx.publish(1, "", name, b"x", mandatory=True)
    tx.alive(1)
    tx.call(2, Queue.Delete(queue=name), Queue.DeleteOk)
    tx.send_method(1, Tx.Commit())
    assert tx.expect_message(Basic.Return).method.routing_key == name
    tx.expect(Tx.CommitOk, 1)


def test_the_unroutable_come_back_before_commit_ok(tx: RawClient) -> None:
    tx.publish(1, "amq.direct", "nowhere", b"x", mandatory=True)
    assert tx.alive(1)
    tx.send_method(1, Tx.Commit())
    assert tx.expect_message(Basic.Return).method.reply_text == "NO_ROUTE"
    tx.expect(Tx.CommitOk, 1)


def test_a_rolled_back_publish_is_not_returned(tx: RawClient) -> None:
    tx.publish(1, "amq.direct", "nowhere", b"x", mandatory=True)
    rollback(tx)
    assert tx.alive(1)


# settling


def test_an_ack_counts_after_commit(tx: RawClient) -> None:
    queue = filled(tx, 2)
    tx.send_method(1, Basic.Ack(1))
    commit(tx)
    assert left(tx, queue) == [b"2"]


def test_an_ack_without_commit_does_not_count(tx: RawClient) -> None:
    queue = filled(tx, 2)
    tx.send_method(1, Basic.Ack(2, True))
    assert left(tx, queue) == [b"1", b"2"]


def test_a_rolled_back_ack_can_be_given_again(tx: RawClient) -> None:
    queue = filled(tx, 3)
    tx.send_method(1, Basic.Ack(2, True))
    rollback(tx)
    tx.send_method(1, Basic.Ack(1))
    commit(tx)
    assert left(tx, queue) == [b"2", b"3"]


@pytest.mark.parametrize("shared", [True, False])
def test_an_ack_makes_room_at_commit(tx: RawClient, shared: bool) -> None:
    queue = owned(tx)
    tx.call(1, Basic.Qos(prefetch_count=1, global_qos=shared), Basic.QosOk)
    tx.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    tx.publish(2, "", queue, b"1")
    assert tx.expect_message(Basic.Deliver).method.delivery_tag == 1
    tx.send_method(1, Basic.Ack(1))
    tx.publish(2, "", queue, b"2")
    assert tx.silent()
    rollback(tx)
    tx.publish(2, "", queue, b"3")
    assert tx.silent()
    tx.send_method(1, Basic.Ack(1))
    commit(tx)
    assert tx.expect_message(Basic.Deliver).body == b"2"
    assert tx.silent()


def test_rollback_does_not_redeliver(tx: RawClient) -> None:
    queue = filled(tx, 1)
    tx.send_method(1, Basic.Ack(1))
    rollback(tx)
    assert body_of_next(tx, queue) is None
    assert left(tx, queue) == [b"1"]


@pytest.mark.parametrize("method", [Basic.Nack(1, False, True), Basic.Reject(1, True)], ids=["nack", "reject"])
def test_a_requeue_happens_at_commit(tx: RawClient, method: Any) -> None:
    queue = filled(tx, 1)
    tx.send_method(1, method)
    assert tx.alive(1)
    assert body_of_next(tx, queue) is None
    commit(tx)
    assert eventually(lambda: body_of_next(tx, queue)) == b"1"


def test_a_reject_dead_letters_at_commit(tx: RawClient) -> None:
    graveyard = owned(tx)
    filled(tx, 2, x_dead_letter_exchange="", x_dead_letter_routing_key=graveyard)
    tx.send_method(1, Basic.Reject(1, False), Basic.Nack(2, False, False))
    assert tx.alive(1)
    assert body_of_next(tx, graveyard) is None
    commit(tx)
    assert [eventually(lambda: body_of_next(tx, graveyard)) for _ in range(2)] == [b"1", b"2"]


def test_publishes_and_acks_commit_together(tx: RawClient) -> None:
    source = filled(tx, 2)
    target = owned(tx)
    tx.send_method(1, Basic.Ack(2, True))
    tx.publish(1, "", target, b"result")
    rollback(tx)
    assert body_of_next(tx, target) is None
    tx.send_method(1, Basic.Ack(1))
    tx.publish(1, "", target, b"result")
    commit(tx)
    assert body_of_next(tx, target) == b"result"
    assert left(tx, source) == [b"2"]


def test_a_tag_acked_twice_in_a_transaction_is_unknown(tx: RawClient) -> None:
    filled(tx, 1)
    tx.send_method(1, Basic.Ack(1), Basic.Ack(1))
    tx.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", Basic.Ack)


# errors


def test_without_select_there_is_nothing_to_commit(raw: RawClient) -> None:
    for method in (Tx.Commit(), Tx.Rollback()):
        raw.send_method(1, method)
        raw.expect_channel_close(406, "PRECONDITION_FAILED - channel is not transactional", type(method))
        raw.open_channel(1)


def test_an_error_in_a_transaction_rolls_it_back(tx: RawClient, vhost: str) -> None:
    queue = owned(tx)
    tx.publish(1, "", queue, b"x")
    tx.publish(1, "nope", "k", b"x")
    tx.expect_channel_close(404, f"NOT_FOUND - no exchange 'nope' in vhost '{vhost}'", Basic.Publish)
    tx.open_channel(1)
    tx.send_method(1, Tx.Commit())
    tx.expect_channel_close(406, "PRECONDITION_FAILED - channel is not transactional", Tx.Commit)
    assert body_of_next(tx, queue) is None


def test_a_full_queue_fails_the_commit(tx: RawClient) -> None:
    queue = owned(tx, x_max_length=1, x_overflow="reject-publish")
    tx.publish(1, "", queue, b"1")
    commit(tx)
    tx.publish(1, "", queue, b"2")
    tx.send_method(1, Tx.Commit())
    tx.expect_channel_close(406, "PRECONDITION_FAILED - partial tx completion", Tx.Commit)


# pika


def test_pika_uses_transactions(channel: Any, queue: Declare) -> None:
    name = queue(durable=True)
    channel.tx_select()
    channel.basic_publish("", name, b"no", pika.BasicProperties(delivery_mode=2))
    channel.tx_rollback()
    channel.basic_publish("", name, b"yes", pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    assert channel.basic_get(name, auto_ack=True)[2] == b"yes"
    assert channel.basic_get(name, auto_ack=True)[0] is None


def test_a_committed_transaction_outlives_kill_9(broker: Broker, connect: Callable[..., Any]) -> None:
    channel = connect().channel()
    name = unique("q")
    channel.queue_declare(name, durable=True)
    channel.tx_select()
    for number in range(20):
        channel.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2))
    channel.tx_commit()
    broker.kill()
    broker.start()
    channel = connect().channel()
    assert [int(channel.basic_get(name, auto_ack=True)[2]) for _ in range(20)] == list(range(20))
    channel.queue_delete(name)
