"""What goes wrong on a channel, with RabbitMQ's code, text and the ids of the failed method.

A soft error closes the channel, a hard one the connection. A closing channel ignores everything but its close-ok.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import RawClient, content_frames, method_frame
from .support import eventually, unique

RawConnect = Callable[..., RawClient]
Declare = Callable[..., str]
Queue, Exchange, Basic = spec.Queue, spec.Exchange, spec.Basic

NO_QUEUE = "NOT_FOUND - no queue 'nope' in vhost '{vhost}'"
NO_EXCHANGE = "NOT_FOUND - no exchange 'nope' in vhost '{vhost}'"
NO_LAST_QUEUE = "NOT_FOUND - no previously declared queue"
DEFAULT_EXCHANGE = "ACCESS_REFUSED - operation not permitted on the default exchange"
SYSTEM_EXCHANGE = "ACCESS_REFUSED - deletion of system exchange '{name}' in vhost '{{vhost}}' not allowed"
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{name}' in vhost '{vhost}'. It could be "
    "originally declared on another connection or the exclusive property value does not match that of the original "
    "declaration."
)

SOFT: list[tuple[Any, int, str]] = [
    (Queue.Declare(queue="nope", passive=True), 404, NO_QUEUE),
    (Queue.Purge(queue="nope"), 404, NO_QUEUE),
    (Queue.Bind(queue="nope", exchange="amq.direct", routing_key=""), 404, NO_QUEUE),
    (Basic.Consume(queue="nope"), 404, NO_QUEUE),
    (Basic.Get(queue="nope"), 404, NO_QUEUE),
    (Queue.Declare(queue="", passive=True), 404, "NOT_FOUND - no queue '' in vhost '{vhost}'"),
    (Queue.Bind(queue="", exchange="amq.direct", routing_key=""), 404, NO_LAST_QUEUE),
    (Queue.Unbind(queue="", exchange="amq.direct", routing_key=""), 404, NO_LAST_QUEUE),
    (Queue.Purge(queue=""), 404, NO_LAST_QUEUE),
    (Queue.Delete(queue=""), 404, NO_LAST_QUEUE),
    (Basic.Consume(queue=""), 404, NO_LAST_QUEUE),
    (Basic.Get(queue=""), 404, NO_LAST_QUEUE),
    (Exchange.Declare(exchange="nope", passive=True), 404, NO_EXCHANGE),
    (Queue.Bind(queue="missing", exchange="nope", routing_key=""), 404, NO_EXCHANGE),
    (Exchange.Bind(destination="amq.direct", source="nope", routing_key=""), 404, NO_EXCHANGE),
    (Exchange.Bind(destination="nope", source="amq.direct", routing_key=""), 404, NO_EXCHANGE),
    (Exchange.Bind(destination="missing", source="nope", routing_key=""), 404, NO_EXCHANGE),
    (Exchange.Declare(exchange="", type="direct"), 403, DEFAULT_EXCHANGE),
    (Exchange.Declare(exchange="", passive=True), 403, DEFAULT_EXCHANGE),
    (Exchange.Delete(exchange=""), 403, DEFAULT_EXCHANGE),
    (Queue.Bind(queue="nope", exchange="", routing_key="k"), 403, DEFAULT_EXCHANGE),
    (Queue.Unbind(queue="nope", exchange="", routing_key="nope"), 403, DEFAULT_EXCHANGE),
    (Exchange.Bind(destination="amq.direct", source="", routing_key=""), 403, DEFAULT_EXCHANGE),
    (Exchange.Bind(destination="", source="amq.direct", routing_key=""), 403, DEFAULT_EXCHANGE),
    (Exchange.Unbind(destination="amq.direct", source="", routing_key=""), 403, DEFAULT_EXCHANGE),
    (Exchange.Delete(exchange="amq.direct"), 403, SYSTEM_EXCHANGE.format(name="amq.direct")),
    (Exchange.Delete(exchange="amq.nope"), 403, SYSTEM_EXCHANGE.format(name="amq.nope")),
    (
        Exchange.Declare(exchange="amq.nope", type="direct"),
        403,
        "ACCESS_REFUSED - exchange name 'amq.nope' contains reserved prefix 'amq.*'",
    ),
    (
        Exchange.Declare(exchange="amq.nope", passive=True),
        404,
        "NOT_FOUND - no exchange 'amq.nope' in vhost '{vhost}'",
    ),
    (
        Queue.Declare(queue="amq.nope"),
        403,
        "ACCESS_REFUSED - queue name 'amq.nope' contains reserved prefix 'amq.*'",
    ),
    (Queue.Declare(queue="amq.nope", passive=True), 404, "NOT_FOUND - no queue 'amq.nope' in vhost '{vhost}'"),
    (Basic.Ack(1), 406, "PRECONDITION_FAILED - unknown delivery tag 1"),
    (Basic.Ack(5, True), 406, "PRECONDITION_FAILED - unknown delivery tag 5"),
    (Basic.Ack(0), 406, "PRECONDITION_FAILED - unknown delivery tag 0"),
    (Basic.Nack(1), 406, "PRECONDITION_FAILED - unknown delivery tag 1"),
    (Basic.Nack(0, False), 406, "PRECONDITION_FAILED - unknown delivery tag 0"),
    (Basic.Reject(1), 406, "PRECONDITION_FAILED - unknown delivery tag 1"),
    (Basic.Reject(0), 406, "PRECONDITION_FAILED - unknown delivery tag 0"),
    (spec.Tx.Commit(), 406, "PRECONDITION_FAILED - channel is not transactional"),
    (spec.Tx.Rollback(), 406, "PRECONDITION_FAILED - channel is not transactional"),
]

HARD: list[tuple[Any, int, str]] = [
    (Exchange.Declare(exchange="nope", type="bogus"), 503, "COMMAND_INVALID - unknown exchange type 'bogus'"),
    (Exchange.Declare(exchange="amq.direct", type="bogus"), 503, "COMMAND_INVALID - unknown exchange type 'bogus'"),
    (Exchange.Declare(exchange="nope", type=""), 503, "COMMAND_INVALID - invalid exchange type ''"),
    (Basic.Qos(prefetch_size=10), 540, "NOT_IMPLEMENTED - prefetch_size!=0 (10)"),
    (Basic.Recover(requeue=False), 540, "NOT_IMPLEMENTED - requeue=false"),
    (Basic.RecoverAsync(requeue=False), 540, "NOT_IMPLEMENTED - requeue=false"),
]

HARMLESS: list[tuple[Any, Any]] = [
    (Queue.Delete(queue="nope"), Queue.DeleteOk),
    (Queue.Delete(queue="nope", if_empty=True, if_unused=True), Queue.DeleteOk),
    (Exchange.Delete(exchange="nope"), Exchange.DeleteOk),
    (Exchange.Delete(exchange="nope", if_unused=True), Exchange.DeleteOk),
    (Queue.Unbind(queue="nope", exchange="amq.direct", routing_key="k"), Queue.UnbindOk),
    (Queue.Unbind(queue="nope", exchange="nope", routing_key="k"), Queue.UnbindOk),
    (Exchange.Unbind(destination="nope", source="amq.direct", routing_key=""), Exchange.UnbindOk),
    (Exchange.Unbind(destination="amq.direct", source="nope", routing_key=""), Exchange.UnbindOk),
    (Basic.Cancel("nope"), Basic.CancelOk),
    (Basic.Recover(requeue=True), Basic.RecoverOk),
    (Exchange.Declare(exchange="amq.direct", type="direct", durable=True), Exchange.DeclareOk),
    (Exchange.Declare(exchange="amq.direct", type="bogus", passive=True), Exchange.DeclareOk),
]


def described(value: Any) -> str | None:
    if not isinstance(value, spec.amqp_object.Method):
        return str(value) if isinstance(value, int) else ""
    names = ("queue", "exchange", "destination", "source", "delivery_tag")
    return " ".join([value.NAME, *(f"{n}={getattr(value, n)}" for n in names if hasattr(value, n))])


def declare(client: RawClient, **options: Any) -> str:
    return str(client.call(1, Queue.Declare(**options), Queue.DeclareOk).queue)


def owned(client: RawClient) -> str:
    """An exclusive queue of this client."""
    return declare(client, queue=unique("q"), exclusive=True)


# the tables


@pytest.mark.parametrize(("method", "code", "text"), SOFT, ids=described)
def test_a_soft_error_closes_the_channel(raw: RawClient, vhost: str, method: Any, code: int, text: str) -> None:
    raw.send_method(1, method)
    raw.expect_channel_close(code, text.format(vhost=vhost), type(method))
    raw.open_channel(1)
    assert raw.alive()


@pytest.mark.parametrize(("method", "code", "text"), HARD, ids=described)
def test_a_hard_error_closes_the_connection(raw: RawClient, method: Any, code: int, text: str) -> None:
    raw.send_method(1, method)
    raw.expect_connection_close(code, text, type(method))


@pytest.mark.parametrize(("method", "reply"), HARMLESS, ids=described)
def test_asking_for_what_is_so_already_is_no_error(raw: RawClient, method: Any, reply: Any) -> None:
    raw.call(1, method, reply)
    assert raw.alive()


@pytest.mark.parametrize("method", [Basic.Ack(0, True), Basic.Nack(0, True)], ids=described)
def test_settling_everything_of_nothing_is_no_error(raw: RawClient, method: Any) -> None:
    raw.send_method(1, method)
    assert raw.alive()


# publishing


def test_publishing_to_a_missing_exchange_closes_the_channel(raw: RawClient, vhost: str) -> None:
    raw.publish(1, "nope", "k", b"x")
    raw.expect_channel_close(404, NO_EXCHANGE.format(vhost=vhost), Basic.Publish)


@pytest.mark.parametrize("exchange", ["", "nope"])
def test_the_immediate_flag_closes_the_connection(raw: RawClient, exchange: str) -> None:
    raw.publish(1, exchange, "k", b"x", immediate=True)
    raw.expect_connection_close(540, "NOT_IMPLEMENTED - immediate=true", Basic.Publish)


def test_pika_is_told_the_same(channel: Any, vhost: str) -> None:
    channel.basic_publish("nope", "k", b"x")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.basic_qos(prefetch_count=1)
    assert (caught.value.reply_code, caught.value.reply_text) == (404, NO_EXCHANGE.format(vhost=vhost))


# consuming


def test_a_delivery_tag_settled_twice_closes_the_channel(raw: RawClient) -> None:
    queue = owned(raw)
    raw.publish(1, "", queue, b"x")
    raw.send_method(1, Basic.Get(queue=queue))
    tag = raw.expect_message(Basic.GetOk).method.delivery_tag
    raw.send_method(1, Basic.Ack(tag), Basic.Ack(tag))
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", Basic.Ack)


def test_a_delivery_tag_belongs_to_its_channel(raw: RawClient) -> None:
    queue = owned(raw)
    raw.open_channel(2)
    raw.publish(1, "", queue, b"x")
    raw.send_method(1, Basic.Get(queue=queue))
    raw.expect_message(Basic.GetOk)
    raw.send_method(2, Basic.Ack(1))
    raw.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", Basic.Ack, channel=2)
    raw.send_method(1, Basic.Ack(1))
    assert raw.alive()


def test_a_consumer_tag_used_twice_closes_the_connection(raw: RawClient) -> None:
    queue = owned(raw)
    consume = Basic.Consume(queue=queue, consumer_tag="mine")
    raw.call(1, consume, Basic.ConsumeOk)
    raw.send_method(1, consume)
    raw.expect_connection_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 'mine'", Basic.Consume)


def test_a_consumer_tag_may_be_used_again_on_another_channel_and_after_cancel(raw: RawClient) -> None:
    queue = owned(raw)
    raw.open_channel(2)
    consume = Basic.Consume(queue=queue, consumer_tag="mine")
    for number in (1, 2):
        raw.call(number, consume, Basic.ConsumeOk)
    raw.call(1, Basic.Cancel("mine"), Basic.CancelOk)
    raw.call(1, consume, Basic.ConsumeOk)


def test_an_exclusive_consumer_shuts_others_out(raw: RawClient, vhost: str) -> None:
    queue = owned(raw)
    raw.call(1, Basic.Consume(queue=queue, exclusive=True), Basic.ConsumeOk)
    raw.open_channel(2)
    raw.send_method(2, Basic.Consume(queue=queue))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
    raw.expect_channel_close(403, text, Basic.Consume, channel=2)


def test_a_consumer_that_wants_to_be_alone_must_be(raw: RawClient, vhost: str) -> None:
    queue = owned(raw)
    raw.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    raw.send_method(1, Basic.Consume(queue=queue, exclusive=True))
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '{vhost}' in exclusive use"
    raw.expect_channel_close(403, text, Basic.Consume)


# exclusive queues

FOREIGN = [
    Queue.Declare(queue="{}"),
    Queue.Declare(queue="{}", exclusive=True),
    Queue.Declare(queue="{}", passive=True),
    Queue.Delete(queue="{}"),
    Queue.Purge(queue="{}"),
    Queue.Bind(queue="{}", exchange="amq.direct", routing_key=""),
    Basic.Consume(queue="{}"),
    Basic.Get(queue="{}"),
]


@pytest.mark.parametrize("method", FOREIGN, ids=described)
def test_an_exclusive_queue_is_locked_for_other_connections(
    raw: RawClient, raw_connect: RawConnect, vhost: str, method: Any
) -> None:
    queue = owned(raw)
    other = raw_connect()
    other.open_channel(1)
    before, method.queue = method.queue, queue
    other.send_method(1, method)
    method.queue = before
    other.expect_channel_close(405, LOCKED.format(name=queue, vhost=vhost), type(method))


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_exclusive_flag_cannot_change(raw: RawClient, vhost: str, cleanup: Any, exclusive: bool) -> None:
    queue = cleanup(queue=declare(raw, queue=unique("q"), exclusive=exclusive))
    raw.send_method(1, Queue.Declare(queue=queue, exclusive=not exclusive))
    raw.expect_channel_close(405, LOCKED.format(name=queue, vhost=vhost), Queue.Declare)


# conditional deletes


def test_a_queue_with_messages_is_not_deleted_if_empty_is_asked(raw: RawClient, vhost: str) -> None:
    queue = owned(raw)
    raw.publish(1, "", queue, b"x")
    raw.send_method(1, Queue.Delete(queue=queue, if_empty=True))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' not empty"
    raw.expect_channel_close(406, text, Queue.Delete)


def test_a_queue_with_consumers_is_not_deleted_if_unused_is_asked(raw: RawClient, vhost: str) -> None:
    queue = owned(raw)
    raw.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    raw.send_method(1, Queue.Delete(queue=queue, if_unused=True))
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{vhost}' in use"
    raw.expect_channel_close(406, text, Queue.Delete)


# the closing channel


def test_a_closing_channel_ignores_all_until_close_ok(raw: RawClient, channel: Any) -> None:
    queue, never = owned(raw), unique("never")
    raw.send(
        method_frame(1, Basic.Ack(99))
        + method_frame(1, Queue.Declare(queue=never))
        + method_frame(1, Basic.Publish(exchange="", routing_key=queue))
        + content_frames(1, b"lost")
        + method_frame(1, Basic.Ack(98))
    )
    raw.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", Basic.Ack)
    raw.open_channel(1)
    assert raw.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk).message_count == 0
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        channel.queue_declare(never, passive=True)


def test_a_closing_channel_answers_the_clients_close(raw: RawClient) -> None:
    raw.send_method(1, Basic.Ack(99))
    raw.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", Basic.Ack, reply=False)
    raw.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    raw.send_method(1, spec.Channel.CloseOk())
    raw.open_channel(1)
    assert raw.alive()


def test_other_channels_go_on(raw: RawClient) -> None:
    raw.open_channel(2)
    raw.send_method(1, Basic.Ack(99))
    raw.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", Basic.Ack)
    assert raw.alive(2)


def test_an_error_requeues_what_was_unsettled_and_cancels_consumers(raw: RawClient) -> None:
    queue = owned(raw)
    raw.publish(1, "", queue, b"x")
    raw.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    assert not raw.expect_message(Basic.Deliver).method.redelivered
    raw.send_method(1, Basic.Ack(99))
    raw.expect_channel_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", Basic.Ack)
    raw.open_channel(1)

    def counts() -> tuple[int, int]:
        ok = raw.call(1, Queue.Declare(queue=queue, passive=True), Queue.DeclareOk)
        return ok.message_count, ok.consumer_count

    eventually(lambda: counts() == (1, 0))
    raw.send_method(1, Basic.Get(queue=queue))
    message = raw.expect_message(Basic.GetOk)
    assert (message.method.redelivered, message.method.delivery_tag) == (True, 1)


def test_a_closed_channel_number_starts_afresh(raw: RawClient) -> None:
    owned(raw)
    raw.call(1, spec.Confirm.Select(), spec.Confirm.SelectOk)
    raw.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    raw.open_channel(1)
    raw.call(1, spec.Tx.Select(), spec.Tx.SelectOk)
    raw.send_method(1, Basic.Get(queue=""))
    raw.expect_channel_close(404, NO_LAST_QUEUE, Basic.Get)


def test_deliveries_stop_once_the_channel_is_closed(raw: RawClient) -> None:
    queue = owned(raw)
    raw.open_channel(2)
    raw.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
    raw.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    raw.publish(2, "", queue, b"x")
    raw.send_method(2, Basic.Get(queue=queue))
    assert raw.expect_message(Basic.GetOk, channel=2).body == b"x"
