"""Copy queues and mirrored exchanges: what enters one queue enters its copies. Not in RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest

from .queue_support import Inbox, contents, fetch, numbered, publish, ready, reject, wait_ready
from .support import Broker, own_server_only, quote, unique

pytestmark = own_server_only

Declare = Callable[..., str]


def of(source: str, key: str | None = None) -> dict[str, Any]:
    return {"x-copy-from": source} | ({} if key is None else {"x-copy-routing-key": key})


def refused(attempt: Callable[[], Any]) -> tuple[int, str]:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        attempt()
    return closed.value.reply_code, closed.value.reply_text


def exists(channel: Any, name: str) -> bool:
    other = channel.connection.channel()
    try:
        other.queue_declare(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    other.close()
    return True


def test_a_copy_gets_what_enters_the_other_queue(channel: Any, queue: Declare) -> None:
    source = queue()
    copy = queue(arguments=of(source))
    publish(channel, source, *numbered(3))
    wait_ready(channel, copy, 3)
    assert contents(channel, copy) == numbered(3)
    assert contents(channel, source) == numbered(3)


def test_both_have_consumers_of_their_own(channel: Any, queue: Declare) -> None:
    source = queue()
    copy = queue(arguments=of(source))
    inbox, other = Inbox(channel), Inbox(channel.connection.channel())
    inbox.consume(source, auto_ack=True)
    other.consume(copy, auto_ack=True)
    publish(channel, source, b"once each")
    assert (inbox.one().body, other.one().body) == (b"once each", b"once each")


def test_a_copy_begins_when_the_other_queue_does(channel: Any, queue: Declare) -> None:
    source = unique("later")
    copy = queue(arguments=of(source))
    publish(channel, source, b"nobody")
    queue(source)
    publish(channel, source, b"both")
    assert fetch(channel, copy).body == b"both"
    assert contents(channel, copy) == []


def test_what_came_before_the_copy_is_not_in_it(channel: Any, filled: str, queue: Declare) -> None:
    copy = queue(arguments=of(filled))
    publish(channel, filled, b"7")
    assert fetch(channel, copy).body == b"7"


def test_routing_keys_are_filtered_by_pattern(channel: Any, queue: Declare, exchange: Declare) -> None:
    source, name = queue(), exchange("topic")
    copy = queue(arguments=of(source, "eu.*"))
    channel.queue_bind(source, name, "#")
    for key in ("eu.orders", "us.orders", "eu.orders.late"):
        publish(channel, key, key.encode(), exchange=name)
    wait_ready(channel, source, 3)
    assert contents(channel, copy) == [b"eu.orders"]


def test_a_queue_that_is_bound_too_gets_a_message_once(channel: Any, queue: Declare, exchange: Declare) -> None:
    source, name = queue(), exchange("fanout")
    copy = queue(arguments=of(source))
    channel.queue_bind(source, name)
    channel.queue_bind(copy, name)
    publish(channel, "", b"m", exchange=name)
    wait_ready(channel, source, 1)
    assert contents(channel, copy) == [b"m"]


def test_circles_end(channel: Any, queue: Declare) -> None:
    first, second, third = unique("a"), unique("b"), unique("c")
    for name, source in ((first, third), (second, first), (third, second)):
        queue(name, arguments=of(source))
    publish(channel, second, b"round")
    for name in (first, second, third):
        assert fetch(channel, name).body == b"round"
        assert contents(channel, name) == []


def test_dead_letters_are_copied_too(channel: Any, queue: Declare) -> None:
    sink = queue()
    copy = queue(arguments=of(sink))
    name = queue(arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    publish(channel, name, b"bad")
    reject(channel, name)
    assert (fetch(channel, sink).body, fetch(channel, copy).body) == (b"bad", b"bad")


def test_transactions_are_copied_when_they_are_committed(channel: Any, queue: Declare, connection: Any) -> None:
    source = queue()
    copy = queue(arguments=of(source))
    other = connection.channel()
    other.tx_select()
    publish(other, source, b"m")
    assert ready(channel, copy) == 0
    other.tx_commit()
    assert fetch(channel, copy).body == b"m"


def test_what_the_api_publishes_is_copied(channel: Any, queue: Declare, broker: Broker, vhost: str) -> None:
    source = queue()
    copy = queue(arguments=of(source))
    body = {"properties": {}, "routing_key": source, "payload": "m", "payload_encoding": "string"}
    broker.api("POST", f"/api/exchanges/{quote(vhost)}/amq.default/publish", body)
    assert fetch(channel, copy).body == b"m"


def test_a_copy_that_refuses_is_told_to_the_publisher(channel: Any, queue: Declare) -> None:
    source = queue()
    queue(arguments=of(source) | {"x-max-length": 0, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", source, b"m")


def test_a_deleted_copy_gets_nothing_more(channel: Any, queue: Declare) -> None:
    source = queue()
    copy = queue(arguments=of(source))
    channel.queue_delete(copy)
    queue(copy)
    publish(channel, source, b"m")
    wait_ready(channel, source, 1)
    assert ready(channel, copy) == 0


def test_durable_copies_are_there_after_a_restart(broker: Broker, connect: Any) -> None:
    source, copy = unique("source"), unique("copy")
    channel = connect().channel()
    channel.queue_declare(source, durable=True)
    channel.queue_declare(copy, durable=True, arguments=of(source))
    broker.restart()
    channel = connect().channel()
    publish(channel, source, b"m")
    assert fetch(channel, copy).body == b"m"


@pytest.mark.parametrize(("arguments", "words"), [
    ({"x-copy-from": 1}, "unacceptable_type"),
    ({"x-copy-from": ""}, "it names no queue"),
    ({"x-copy-routing-key": "a"}, "there is no 'x-copy-from'"),
    ({"x-copy-from": "self"}, "a queue cannot copy itself"),
])  # fmt: skip
def test_wrong_arguments_are_refused(channel: Any, arguments: dict[str, Any], words: str) -> None:
    code, text = refused(lambda: channel.queue_declare("self", arguments=arguments))
    assert code == 406
    assert words in text


def test_another_source_is_another_queue(channel: Any, queue: Declare) -> None:
    copy = queue(arguments=of("one"))
    assert refused(lambda: channel.queue_declare(copy, arguments=of("two")))[0] == 406


def test_who_may_not_read_a_queue_may_not_copy_it(broker: Broker, vhost: str, connect: Any, queue: Declare) -> None:
    source, user = queue(), unique("user")
    broker.add_user(user)
    broker.grant(vhost, user, read="mine.*")
    other = connect(user=user, password="secret").channel()
    assert refused(lambda: other.queue_declare("mine", arguments=of(source)))[0] == 403


def test_an_exclusive_queue_is_not_copied(channel: Any, connect: Any) -> None:
    mine = channel.queue_declare("", exclusive=True).method.queue
    other = connect().channel()
    assert refused(lambda: other.queue_declare(unique(), arguments=of(mine)))[0] == 405


# mirrored exchanges


def mirrored(exchange: Declare, *groups: str) -> str:
    return exchange("direct", arguments={"x-mirrored": True} | ({"x-mirrored-groups": list(groups)} if groups else {}))


def test_each_group_has_a_copy_of_a_bound_queue(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange, "audit", "billing"), queue()
    channel.queue_bind(source, name, "k")
    publish(channel, "k", b"m", exchange=name)
    for each in (source, f"{source}.audit", f"{source}.billing"):
        assert fetch(channel, each).body == b"m"


def test_without_groups_there_is_one_copy(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange), queue()
    channel.queue_bind(source, name, "k")
    publish(channel, source, b"m")
    assert fetch(channel, f"{source}.mirror").body == b"m"


def test_copies_go_with_the_last_binding(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange), queue()
    channel.queue_bind(source, name, "k")
    channel.queue_bind(source, name, "l")
    channel.queue_unbind(source, name, "k")
    assert exists(channel, f"{source}.mirror")
    channel.queue_unbind(source, name, "l")
    assert not exists(channel, f"{source}.mirror")


def test_copies_stay_while_another_exchange_wants_them(channel: Any, queue: Declare, exchange: Declare) -> None:
    one, other, source = mirrored(exchange, "a", "b"), mirrored(exchange, "b"), queue()
    channel.queue_bind(source, one, "k")
    channel.queue_bind(source, other, "k")
    channel.exchange_delete(one)
    assert not exists(channel, f"{source}.a")
    assert exists(channel, f"{source}.b")


def test_copies_go_with_their_queue(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange, "a"), queue()
    channel.queue_bind(source, name, "k")
    channel.queue_delete(source)
    assert not exists(channel, f"{source}.a")


def test_a_lost_copy_comes_back_when_the_queue_is_bound_again(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange, "a"), queue()
    channel.queue_bind(source, name, "k")
    channel.queue_delete(f"{source}.a")
    channel.queue_bind(source, name, "k")
    assert exists(channel, f"{source}.a")


def test_a_queue_that_has_the_name_of_a_copy_is_left_alone(channel: Any, queue: Declare, exchange: Declare) -> None:
    name, source = mirrored(exchange, "a"), queue()
    queue(f"{source}.a")
    code, text = refused(lambda: channel.queue_bind(source, name, "k"))
    assert code == 406
    assert "is not its copy" in text


@pytest.mark.parametrize("arguments", [
    {"x-mirrored": "yes"}, {"x-mirrored-groups": "a"}, {"x-mirrored-groups": []}, {"x-mirrored-groups": ["a", "a"]},
    {"x-mirrored-groups": [1]}, {"x-mirrored": False, "x-mirrored-groups": ["a"]},
    {"x-mirrored-groups": [str(number) for number in range(33)]},
])  # fmt: skip
def test_wrong_groups_are_refused(channel: Any, arguments: dict[str, Any]) -> None:
    assert refused(lambda: channel.exchange_declare(unique(), "direct", arguments=arguments))[0] == 406


def test_other_groups_are_another_exchange(channel: Any, exchange: Declare) -> None:
    name = mirrored(exchange, "a")
    other = {"x-mirrored": True, "x-mirrored-groups": ["b"]}
    assert refused(lambda: channel.exchange_declare(name, "direct", arguments=other))[0] == 406
