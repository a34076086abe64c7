"""Publisher confirms. Every publish after confirm.select is acked or nacked exactly once, by number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import RawClient, content_frames, method_frame
from .support import Broker, unique

Declare = Callable[..., str]
Basic, Queue, Confirm = spec.Basic, spec.Queue, spec.Confirm


@pytest.fixture
def confirming(raw: RawClient) -> RawClient:
    raw.call(1, Confirm.Select(), Confirm.SelectOk)
    return raw


def owned(client: RawClient, **arguments: Any) -> str:
    options = {key.replace("_", "-"): value for key, value in arguments.items()}
    declare = Queue.Declare(queue="", exclusive=True, arguments=options)
    return str(client.call(1, declare, Queue.DeclareOk).queue)


def settled(client: RawClient, last: int, first: int = 1) -> dict[int, str]:
    """Read acks and nacks until every number is settled: exactly once, which is checked."""
    done: dict[int, str] = {}
    while len(done) < last - first + 1:
        method = client.expect((Basic.Ack, Basic.Nack), 1)
        known = [number for number in range(first, last + 1) if number not in done]
        covered = [n for n in known if n <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        assert set(covered) <= set(known), f"{method} settles what is settled or was never sent"
        done.update(dict.fromkeys(covered, "ack" if isinstance(method, Basic.Ack) else "nack"))
    return done


def test_a_publish_is_acked(confirming: RawClient) -> None:
    queue = owned(confirming)
    for number in (1, 2, 3):
        confirming.publish(1, "", queue, b"x")
        assert settled(confirming, number, number) == {number: "ack"}


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("durable", [False, True])
def test_every_publish_of_a_burst_is_acked_once(confirming: RawClient, cleanup: Any, mode: int, durable: bool) -> None:
    queue = cleanup(queue=unique("q"))
    confirming.call(1, Queue.Declare(queue=queue, durable=durable), Queue.DeclareOk)
    publish = method_frame(1, Basic.Publish(exchange="", routing_key=queue))
    content = content_frames(1, b"x", spec.BasicProperties(delivery_mode=mode))
    confirming.send((publish + content) * 1000)
    assert set(settled(confirming, 1000).values()) == {"ack"}


def test_an_unroutable_message_is_acked(confirming: RawClient) -> None:
    confirming.publish(1, "amq.direct", "nowhere", b"x")
    assert settled(confirming, 1) == {1: "ack"}


def test_a_return_comes_before_its_ack(confirming: RawClient) -> None:
    queue = owned(confirming)
    for number in range(1, 21, 2):
        confirming.publish(1, "", queue, b"x")
        confirming.publish(1, "amq.direct", "nowhere", str(number + 1).encode(), mandatory=True)
    returned: list[int] = []
    acked: set[int] = set()
    while len(acked) < 20:
        _, method = confirming.read()
        if isinstance(method, Basic.Return):
            returned.append(int(confirming.read_content(1)[1]))
            continue
        assert isinstance(method, Basic.Ack)
        acked.update(range(1, method.delivery_tag + 1) if method.multiple else [method.delivery_tag])
        assert {number for number in acked if number % 2 == 0} <= set(returned)
    assert returned == list(range(2, 21, 2))


def test_numbers_begin_at_select(raw: RawClient) -> None:
    queue = owned(raw)
    raw.publish(1, "", queue, b"before")
    raw.call(1, Confirm.Select(), Confirm.SelectOk)
    raw.publish(1, "", queue, b"after")
    assert settled(raw, 1) == {1: "ack"}
    assert raw.alive()


def test_select_may_be_repeated_and_keeps_the_numbers(confirming: RawClient) -> None:
    queue = owned(confirming)
    confirming.publish(1, "", queue, b"x")
    settled(confirming, 1)
    confirming.call(1, Confirm.Select(), Confirm.SelectOk)
    confirming.send_method(1, Confirm.Select(nowait=True))
    confirming.publish(1, "", queue, b"x")
    assert settled(confirming, 2, 2) == {2: "ack"}


def test_channels_count_for_themselves(confirming: RawClient) -> None:
    queue = owned(confirming)
    confirming.publish(1, "", queue, b"x")
    settled(confirming, 1)
    confirming.open_channel(2)
    confirming.call(2, Confirm.Select(), Confirm.SelectOk)
    confirming.publish(2, "", queue, b"x")
    assert confirming.expect(Basic.Ack, 2).delivery_tag == 1


def test_a_full_queue_that_rejects_publishes_nacks(confirming: RawClient) -> None:
    queue = owned(confirming, x_max_length=2, x_overflow="reject-publish")
    for number in (1, 2, 3, 4):
        confirming.publish(1, "", queue, str(number).encode())
    assert settled(confirming, 4) == {1: "ack", 2: "ack", 3: "nack", 4: "nack"}
    confirming.send_method(1, Basic.Get(queue=queue, no_ack=True))
    assert confirming.expect_message(Basic.GetOk).body == b"1"
    confirming.publish(1, "", queue, b"5")
    assert settled(confirming, 5, 5) == {5: "ack"}


def test_one_full_queue_of_several_nacks_the_message(confirming: RawClient) -> None:
    """The other queue has it all the same."""
    full, free = owned(confirming, x_max_length=1, x_overflow="reject-publish"), owned(confirming)
    key = unique("key")
    for queue in (full, free):
        confirming.call(1, Queue.Bind(queue=queue, exchange="amq.direct", routing_key=key), Queue.BindOk)
    confirming.publish(1, "amq.direct", key, b"1")
    assert settled(confirming, 1) == {1: "ack"}
    confirming.publish(1, "amq.direct", key, b"2")
    assert settled(confirming, 2, 2) == {2: "nack"}
    for body in (b"1", b"2"):
        confirming.send_method(1, Basic.Get(queue=free, no_ack=True))
        assert confirming.expect_message(Basic.GetOk).body == body


def test_a_queue_that_drops_its_head_acks(confirming: RawClient) -> None:
    queue = owned(confirming, x_max_length=1)
    for _ in range(5):
        confirming.publish(1, "", queue, b"x")
    assert set(settled(confirming, 5).values()) == {"ack"}


def test_a_message_that_expires_at_once_is_acked(confirming: RawClient) -> None:
    queue = owned(confirming)
    confirming.publish(1, "", queue, b"x", spec.BasicProperties(expiration="0"))
    assert settled(confirming, 1) == {1: "ack"}


def test_a_message_for_a_waiting_consumer_is_acked_too(confirming: RawClient) -> None:
    queue = owned(confirming)
    confirming.open_channel(2)
    confirming.call(2, Basic.Consume(queue=queue), Basic.ConsumeOk)
    confirming.publish(1, "", queue, b"x")
    got = {type(confirming.read()[1]).__name__ for _ in range(4)}
    assert {"Deliver", "Ack"} <= got


def test_messages_to_several_queues_are_acked_once(confirming: RawClient) -> None:
    key = unique("key")
    for _ in range(3):
        bind = Queue.Bind(queue=owned(confirming), exchange="amq.direct", routing_key=key)
        confirming.call(1, bind, Queue.BindOk)
    for _ in range(50):
        confirming.publish(1, "amq.direct", key, b"x")
    assert set(settled(confirming, 50).values()) == {"ack"}
    assert confirming.alive()


def test_messages_of_a_deleted_queue_are_settled(confirming: RawClient, cleanup: Any) -> None:
    queue = cleanup(queue=unique("q"))
    confirming.open_channel(2)
    confirming.call(2, Queue.Declare(queue=queue, durable=True), Queue.DeclareOk)
    publish = method_frame(1, Basic.Publish(exchange="", routing_key=queue))
    persistent = content_frames(1, b"x", spec.BasicProperties(delivery_mode=2))
    confirming.send((publish + persistent) * 100 + method_frame(2, Queue.Delete(queue=queue, nowait=True)))
    assert set(settled(confirming, 100).values()) == {"ack"}


# errors


def test_a_tx_channel_cannot_confirm(raw: RawClient) -> None:
    raw.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    raw.send_method(1, Confirm.Select())
    raw.expect_channel_close(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", Confirm.Select)


def test_a_confirming_channel_cannot_use_tx(confirming: RawClient) -> None:
    confirming.send_method(1, spec.Tx.Select())
    confirming.expect_channel_close(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", spec.Tx.Select)


@pytest.mark.parametrize("method", [spec.Tx.Commit(), spec.Tx.Rollback()])
def test_a_confirming_channel_is_not_transactional(confirming: RawClient, method: Any) -> None:
    confirming.send_method(1, method)
    confirming.expect_channel_close(406, "PRECONDITION_FAILED - channel is not transactional", type(method))


def test_an_error_ends_confirming(confirming: RawClient, vhost: str) -> None:
    confirming.publish(1, "nope", "k", b"x")
    text = f"NOT_FOUND - no exchange 'nope' in vhost '{vhost}'"
    confirming.expect_channel_close(404, text, Basic.Publish)
    confirming.open_channel(1)
    confirming.publish(1, "", "nowhere", b"x")
    assert confirming.alive()


# pika


def test_pika_publishes_with_confirms(channel: Any, queue: Declare) -> None:
    name = queue(durable=True)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
    assert channel.queue_declare(name, passive=True).method.message_count == 20


def test_pika_raises_for_the_unroutable(channel: Any) -> None:
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("amq.direct", "nowhere", b"x", mandatory=True)
    assert caught.value.messages[0].method.reply_text == "NO_ROUTE"


def test_pika_raises_for_a_nack(channel: Any, queue: Declare) -> None:
    name = queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish("", name, b"1")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", name, b"2")


def test_confirmed_persistent_messages_outlive_kill_9(broker: Broker, connect: Callable[..., Any]) -> None:
    channel = connect().channel()
    name = unique("q")
    channel.queue_declare(name, durable=True)
    channel.confirm_delivery()
    for number in range(100):
        channel.basic_publish("", name, str(number).encode(), pika.BasicProperties(delivery_mode=2))
    broker.kill()
    broker.start()
    channel = connect().channel()
    got = [int(channel.basic_get(name, auto_ack=True)[2]) for _ in range(100)]
    assert got == list(range(100))
    channel.queue_delete(name)
