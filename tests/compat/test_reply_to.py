"""Direct reply-to: answers that need no queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .queue_support import (
    REPLY_TO,
    Inbox,
    bodies,
    confirmed,
    confirming,
    fetch,
    numbered,
    publish,
    refused,
)
from .support import unique

Declare = Callable[..., str]
Connect = Callable[..., Any]


@pytest.fixture
def asker(connection: Any) -> Inbox:
    """An inbox that consumes answers, on a channel of its own."""
    inbox = Inbox(connection.channel())
    inbox.consume(REPLY_TO, auto_ack=True)
    return inbox


def ask(asker: Inbox, queue: str, body: bytes = b"question") -> None:
    publish(asker.channel, queue, body, reply_to=REPLY_TO, correlation_id="42")


def address(channel: Any, asker: Inbox, queue: str) -> str:
    """The reply address that the server side sees after a question."""
    ask(asker, queue)
    return str(fetch(channel, queue).properties.reply_to)


def test_a_question_is_answered_without_a_queue(channel: Any, queue: Declare, asker: Inbox) -> None:
    name = queue()
    ask(asker, name)
    question = fetch(channel, name)
    assert question.properties.reply_to.startswith(f"{REPLY_TO}.")
    publish(channel, question.properties.reply_to, b"answer", correlation_id=question.properties.correlation_id)
    answer = asker.one()
    assert (answer.body, answer.properties.correlation_id, answer.redelivered) == (b"answer", "42", False)
    assert (answer.exchange, answer.key) == ("", question.properties.reply_to)


def test_the_answer_may_come_over_another_connection(queue: Declare, asker: Inbox, connect: Connect) -> None:
    name = queue()
    server = connect().channel()
    publish(server, address(server, asker, name), b"from elsewhere")
    assert asker.one().body == b"from elsewhere"


def test_one_question_may_have_many_answers(channel: Any, queue: Declare, asker: Inbox) -> None:
    publish(channel, address(channel, asker, queue()), *numbered(20))
    assert bodies(asker.take(20)) == numbered(20)


def test_each_asker_has_its_own_address(channel: Any, queue: Declare, asker: Inbox, connection: Any) -> None:
    other = Inbox(connection.channel())
    other.consume(REPLY_TO, auto_ack=True)
    name = queue()
    first, second = address(channel, asker, name), address(channel, other, name)
    assert first != second
    publish(channel, second, b"second")
    publish(channel, first, b"first")
    assert asker.one().body == b"first"
    assert other.one().body == b"second"


def test_the_address_is_the_same_for_every_question(channel: Any, queue: Declare, asker: Inbox) -> None:
    name = queue()
    assert address(channel, asker, name) == address(channel, asker, name)


def test_a_question_may_go_through_any_exchange(channel: Any, queue: Declare, asker: Inbox) -> None:
    name, key = queue(), unique("key")
    channel.queue_bind(name, "amq.topic", key)
    publish(asker.channel, key, exchange="amq.topic", reply_to=REPLY_TO)
    assert fetch(channel, name).properties.reply_to.startswith(f"{REPLY_TO}.")


def test_an_answer_goes_through_the_default_exchange_only(channel: Any, queue: Declare, asker: Inbox) -> None:
    back = address(channel, asker, queue())
    publish(channel, back, b"astray", exchange="amq.direct")
    publish(channel, back, b"answer")
    assert asker.one().body == b"answer"


def test_an_ordinary_reply_to_is_left_alone(channel: Any, queue: Declare, asker: Inbox) -> None:
    name = queue()
    publish(asker.channel, name, reply_to="my.queue")
    assert fetch(channel, name).properties.reply_to == "my.queue"


def test_an_answer_is_confirmed(channel: Any, queue: Declare, asker: Inbox, connection: Any) -> None:
    back = address(channel, asker, queue())
    assert confirmed(confirming(connection), back, b"answer")
    assert asker.one().body == b"answer"


def test_answers_know_no_prefetch(channel: Any, queue: Declare, connection: Any) -> None:
    asker = Inbox(connection.channel())
    asker.channel.basic_qos(prefetch_count=1)
    asker.consume(REPLY_TO, auto_ack=True)
    publish(channel, address(channel, asker, queue()), *numbered(10))
    assert bodies(asker.take(10)) == numbered(10)


@pytest.mark.parametrize("options", [{"passive": True}, {}, {"durable": True, "arguments": {"x-max-length": -1}}])
def test_a_server_may_check_the_address_by_a_declare(
    channel: Any, queue: Declare, asker: Inbox, options: dict[str, Any]
) -> None:
    back = address(channel, asker, queue())
    answer = channel.queue_declare(back, **options).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (back, 0, 1)


@pytest.mark.parametrize("passive", [True, False])
def test_the_address_of_an_asker_that_left_is_not_found(
    channel: Any, queue: Declare, asker: Inbox, vhost: str, *, passive: bool
) -> None:
    back = address(channel, asker, queue())
    asker.channel.close()
    with refused(channel, 404, f"NOT_FOUND - no queue '{back}' in vhost '{vhost}'"):
        channel.queue_declare(back, passive=passive)


def test_an_answer_to_an_asker_that_left_is_dropped(channel: Any, queue: Declare, asker: Inbox) -> None:
    back = address(channel, asker, queue())
    asker.channel.close()
    publish(channel, back, b"too late")
    channel.basic_qos(prefetch_count=0)
    assert channel.is_open


def test_an_answer_to_an_asker_that_left_is_confirmed(channel: Any, queue: Declare, asker: Inbox, connection: Any) -> None:
    back = address(channel, asker, queue())
    asker.channel.close()
    assert confirmed(confirming(connection), back, b"too late")


def test_a_mandatory_answer_to_an_asker_that_left_is_returned(
    channel: Any, queue: Declare, asker: Inbox, connection: Any
) -> None:
    back = address(channel, asker, queue())
    asker.channel.close()
    with pytest.raises(pika.exceptions.UnroutableError):
        confirming(connection).basic_publish("", back, b"too late", mandatory=True)


def test_a_mandatory_answer_is_delivered_and_returned_too(
    channel: Any, queue: Declare, asker: Inbox, connect: Connect
) -> None:
    """An address is no queue."""
    back = address(channel, asker, queue())
    with pytest.raises(pika.exceptions.UnroutableError):
        confirming(connect()).basic_publish("", back, b"answer", mandatory=True)
    assert asker.one().body == b"answer"


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_an_answer_may_have_copies_and_be_one(channel: Any, queue: Declare, asker: Inbox, header: str) -> None:
    name = queue()
    back = address(channel, asker, name)
    publish(channel, back, b"answer", headers={header: [name]})
    assert asker.one().body == fetch(channel, name).body == b"answer"
    publish(channel, name, b"copied", headers={header: [back, back]})
    assert asker.one().body == fetch(channel, name).body == b"copied"


def test_a_dead_letter_may_be_an_answer(channel: Any, queue: Declare, asker: Inbox) -> None:
    back = address(channel, asker, queue())
    to_asker = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": back}
    publish(channel, queue(arguments=to_asker | {"x-max-length": 0}), b"too late")
    letter = asker.one()
    assert (letter.body, letter.headers["x-first-death-reason"]) == (b"too late", "maxlen")


@pytest.mark.parametrize("passive", [True, False])
def test_the_pseudo_queue_can_be_declared(channel: Any, passive: bool) -> None:
    answer = channel.queue_declare(REPLY_TO, passive=passive).method
    assert (answer.queue, answer.message_count, answer.consumer_count) == (REPLY_TO, 0, 1)


def test_the_pseudo_queue_can_be_deleted_without_effect(channel: Any, queue: Declare, asker: Inbox) -> None:
    assert channel.queue_delete(REPLY_TO).method.message_count == 0
    publish(channel, address(channel, asker, queue()), b"answer")
    assert asker.one().body == b"answer"


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda ch: ch.basic_get(REPLY_TO), id="get"),
        pytest.param(lambda ch: ch.basic_get(REPLY_TO, auto_ack=True), id="get without ack"),
        pytest.param(lambda ch: ch.queue_purge(REPLY_TO), id="purge"),
        pytest.param(lambda ch: ch.queue_bind(REPLY_TO, "amq.direct", "k"), id="bind"),
    ],
)
def test_the_pseudo_queue_is_otherwise_not_found(channel: Any, vhost: str, act: Callable[[Any], Any]) -> None:
    with refused(channel, 404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '{vhost}'"):
        act(channel)


def test_answers_cannot_be_acknowledged(channel: Any) -> None:
    with refused(channel, 406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        channel.basic_consume(REPLY_TO, print)


def test_a_channel_has_one_reply_consumer(asker: Inbox) -> None:
    with refused(asker.channel, 406, "PRECONDITION_FAILED - reply consumer already set"):
        asker.channel.basic_consume(REPLY_TO, print, auto_ack=True)


def test_two_channels_of_one_connection_may_both_ask(queue: Declare, connection: Any, asker: Inbox) -> None:
    other = Inbox(connection.channel())
    assert other.consume(REPLY_TO, auto_ack=True)


def test_a_question_needs_a_reply_consumer(channel: Any, queue: Declare) -> None:
    name = queue()
    with refused(channel, 406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        publish(channel, name, reply_to=REPLY_TO)


def test_a_cancelled_reply_consumer_ends_the_questions(queue: Declare, connection: Any) -> None:
    inbox, name = Inbox(connection.channel()), queue()
    tag = inbox.consume(REPLY_TO, auto_ack=True)
    inbox.channel.basic_cancel(tag)
    with refused(inbox.channel, 406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        publish(inbox.channel, name, reply_to=REPLY_TO)


def test_a_reply_consumer_may_come_back_after_a_cancel(channel: Any, queue: Declare, connection: Any) -> None:
    inbox, name = Inbox(connection.channel()), queue()
    inbox.channel.basic_cancel(inbox.consume(REPLY_TO, auto_ack=True))
    inbox.consume(REPLY_TO, auto_ack=True)
    publish(channel, address(channel, inbox, name), b"answer")
    assert inbox.one().body == b"answer"


def test_a_cancelled_reply_consumer_receives_nothing(channel: Any, queue: Declare, connection: Any) -> None:
    inbox, name = Inbox(connection.channel()), queue()
    tag = inbox.consume(REPLY_TO, auto_ack=True)
    back = address(channel, inbox, name)
    inbox.channel.basic_cancel(tag)
    publish(channel, back, b"too late")
    assert inbox.quiet()


def test_a_reply_consumer_gets_a_tag_from_the_server(raw: Any) -> None:
    answer = raw.call(1, spec.Basic.Consume(queue=REPLY_TO, no_ack=True, arguments={}), spec.Basic.ConsumeOk)
    assert answer.consumer_tag.startswith("amq.ctag-")


def test_an_rpc_within_one_channel_works(connection: Any, queue: Declare) -> None:
    inbox, name = Inbox(connection.channel()), queue()
    inbox.consume(REPLY_TO, auto_ack=True)
    inbox.channel.basic_consume(
        name,
        lambda ch, method, properties, body: ch.basic_publish("", properties.reply_to, body.upper()),
        auto_ack=True,
    )
    ask(inbox, name, b"shout")
    assert inbox.one().body == b"SHOUT"
