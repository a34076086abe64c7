"""Exchanges, bindings between them, alternates, and how they come and go.

How topic and headers exchanges match is in test_exchange_matching, the plugin types are in test_exchange_plugins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import RawClient
from .support import Broker, eventually, own_queue, taken, unique

Declare = Callable[..., str]
Exchange, Queue, Basic = spec.Exchange, spec.Queue, spec.Basic


def publish(channel: Any, exchange: str, key: str = "", body: bytes = b"x", **properties: Any) -> None:
    channel.basic_publish(exchange, key, body, pika.BasicProperties(**properties))


def exists(connection: Any, exchange: str) -> bool:
    channel = connection.channel()
    try:
        channel.exchange_declare(exchange, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    channel.close()
    return True


# the ones that are always there


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amq.direct", "direct"),
        ("amq.fanout", "fanout"),
        ("amq.topic", "topic"),
        ("amq.headers", "headers"),
        ("amq.match", "headers"),
    ],
)
def test_a_new_vhost_has_the_standard_exchanges(channel: Any, name: str, kind: str) -> None:
    channel.exchange_declare(name, kind, durable=True)


def test_the_exchange_for_logs_is_internal(raw: RawClient) -> None:
    declare = Exchange.Declare(exchange="amq.rabbitmq.trace", type="topic", durable=True, internal=True)
    raw.call(1, declare, Exchange.DeclareOk)


def test_every_queue_is_reached_through_the_default_exchange(channel: Any, queue: Declare) -> None:
    name = queue()
    publish(channel, "", name)
    publish(channel, "", "no such queue")
    assert taken(channel, name) == [b"x"]


# direct and fanout


def test_a_direct_exchange_wants_the_exact_key(channel: Any, exchange: Declare) -> None:
    name = exchange("direct")
    queue = own_queue(channel, name, "a.b")
    for key in ("a.b", "a.B", "a.*", "a", ""):
        publish(channel, name, key, key.encode())
    assert taken(channel, queue) == [b"a.b"]


def test_a_direct_exchange_feeds_every_queue_of_a_key_once(channel: Any, exchange: Declare) -> None:
    name = exchange("direct")
    queues = [own_queue(channel, name, "k", "k", "other") for _ in range(3)]
    publish(channel, name, "k")
    assert [taken(channel, queue) for queue in queues] == [[b"x"]] * 3


def test_a_fanout_exchange_looks_at_no_key(channel: Any, exchange: Declare) -> None:
    name = exchange("fanout")
    queues = [own_queue(channel, name, "a", "b"), own_queue(channel, name, "")]
    publish(channel, name, "whatever")
    assert [taken(channel, queue) for queue in queues] == [[b"x"]] * 2


def test_an_unbound_key_no_longer_counts(channel: Any, exchange: Declare) -> None:
    name = exchange("direct")
    queue = own_queue(channel, name, "a", "b")
    channel.queue_unbind(queue, name, "a")
    publish(channel, name, "a", b"a")
    publish(channel, name, "b", b"b")
    assert taken(channel, queue) == [b"b"]


def test_the_queue_name_stands_in_for_an_empty_key_when_both_are_empty(raw: RawClient) -> None:
    """AMQP: with neither queue name nor key given, the last declared queue and its name are meant."""
    queue = raw.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    raw.call(1, Queue.Bind(queue="", exchange="amq.direct", routing_key=""), Queue.BindOk)
    raw.publish(1, "amq.direct", queue, b"x")
    raw.send_method(1, Basic.Get(queue=queue))
    raw.expect_message(Basic.GetOk)


# exchange to exchange


def test_exchanges_can_be_chained(channel: Any, exchange: Declare) -> None:
    first, second, third = exchange("direct"), exchange("topic"), exchange("fanout")
    channel.exchange_bind(second, first, "a.b")
    channel.exchange_bind(third, second, "a.*")
    queue = own_queue(channel, third, "")
    for key in ("a.b", "a.c"):
        publish(channel, first, key, key.encode())
    assert taken(channel, queue) == [b"a.b"]
    channel.exchange_unbind(third, second, "a.*")
    publish(channel, first, "a.b")
    assert taken(channel, queue) == []


def test_a_ring_of_exchanges_delivers_once(channel: Any, exchange: Declare) -> None:
    first, second = exchange("fanout"), exchange("fanout")
    for source, target in ((first, second), (second, first), (first, first)):
        channel.exchange_bind(target, source)
    queue = own_queue(channel, first, "")
    channel.queue_bind(queue, second)
    publish(channel, second)
    assert taken(channel, queue) == [b"x"]


def test_an_internal_exchange_takes_messages_only_from_exchanges(
    channel: Any, exchange: Declare, raw: RawClient, vhost: str
) -> None:
    outer, inner = exchange("fanout"), exchange("fanout", internal=True)
    channel.exchange_bind(inner, outer)
    queue = own_queue(channel, inner, "")
    publish(channel, outer)
    assert taken(channel, queue) == [b"x"]
    raw.publish(1, inner, "", b"x")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '{vhost}'"
    raw.expect_channel_close(403, text, Basic.Publish)


def test_deleting_an_exchange_takes_its_bindings_along(channel: Any, exchange: Declare) -> None:
    source, target = exchange("fanout"), exchange("fanout")
    channel.exchange_bind(target, source)
    queue = own_queue(channel, target, "")
    channel.exchange_delete(target)
    channel.exchange_declare(target, "fanout")
    publish(channel, source)
    publish(channel, target)
    assert taken(channel, queue) == []


# alternate exchange


def alternate(name: str) -> dict[str, str]:
    return {"alternate-exchange": name}


def test_what_an_exchange_cannot_route_goes_to_its_alternate(channel: Any, exchange: Declare) -> None:
    spare = exchange("fanout")
    name = exchange("direct", arguments=alternate(spare))
    queue, rest = own_queue(channel, name, "k"), own_queue(channel, spare, "")
    publish(channel, name, "k", b"routed")
    publish(channel, name, "other", b"spare")
    assert (taken(channel, queue), taken(channel, rest)) == ([b"routed"], [b"spare"])


def test_an_alternate_sees_the_same_key_and_has_alternates_itself(channel: Any, exchange: Declare) -> None:
    last = exchange("topic")
    middle = exchange("direct", arguments=alternate(last))
    first = exchange("direct", arguments=alternate(middle))
    queue = own_queue(channel, last, "a.*")
    publish(channel, first, "a.b")
    publish(channel, first, "b.a")
    assert taken(channel, queue) == [b"x"]


def test_alternates_in_a_ring_end(channel: Any, exchange: Declare) -> None:
    first, second = unique("x"), unique("x")
    exchange("direct", first, arguments=alternate(second))
    exchange("direct", second, arguments=alternate(first))
    publish(channel, first, "nowhere")
    queue = own_queue(channel, second, "k")
    publish(channel, first, "k")
    assert taken(channel, queue) == [b"x"]


def test_a_missing_alternate_is_as_none(raw: RawClient, exchange: Declare) -> None:
    name = exchange("direct", arguments=alternate("not there"))
    raw.publish(1, name, "k", b"x", mandatory=True)
    assert raw.expect_message(Basic.Return).method.reply_text == "NO_ROUTE"


def test_what_the_alternate_takes_is_not_returned(raw: RawClient, channel: Any, exchange: Declare) -> None:
    spare = exchange("fanout")
    own_queue(channel, spare, "")
    name = exchange("direct", arguments=alternate(spare))
    raw.publish(1, name, "k", b"x", mandatory=True)
    assert raw.alive()


def test_an_alternate_may_be_given_by_policy(broker: Broker, vhost: str, channel: Any, exchange: Declare) -> None:
    spare, name = exchange("fanout"), exchange("direct")
    queue = own_queue(channel, spare, "")
    broker.set_policy(vhost, name, f"^{name}$", alternate(spare), apply_to="exchanges")

    def routed() -> list[bytes]:
        publish(channel, name, "k")
        return taken(channel, queue)

    eventually(routed)
    broker.clear_policy(vhost, name)
    eventually(lambda: not routed())


def test_the_argument_goes_before_the_policy(broker: Broker, vhost: str, channel: Any, exchange: Declare) -> None:
    by_argument, by_policy, name = exchange("fanout"), exchange("fanout"), unique("x")
    broker.set_policy(vhost, name, f"^{name}$", alternate(by_policy), apply_to="exchanges")
    exchange("direct", name, arguments=alternate(by_argument))
    queues = [own_queue(channel, by_argument, ""), own_queue(channel, by_policy, "")]
    publish(channel, name, "k")
    assert [taken(channel, queue) for queue in queues] == [[b"x"], []]
    broker.clear_policy(vhost, name)


def test_an_alternate_must_be_named_by_a_string(raw: RawClient, vhost: str) -> None:
    name = unique("x")
    raw.send_method(1, Exchange.Declare(exchange=name, type="direct", arguments={"alternate-exchange": 5}))
    text = f"invalid type 'signedint' for arg 'alternate-exchange' in exchange '{name}' in vhost '{vhost}'"
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {text}", Exchange.Declare)


# declaring and deleting


@pytest.mark.parametrize(
    ("key", "value", "received", "current"),
    [
        ("type", "fanout", "'fanout'", "'direct'"),
        ("durable", True, "'true'", "'false'"),
        ("auto_delete", True, "'true'", "'false'"),
        ("internal", True, "'true'", "'false'"),
        ("alternate-exchange", "b", "'b'", "'a'"),
        ("alternate-exchange", None, "none", "the value 'a' of type 'longstr'"),
    ],
)
def test_an_exchange_declared_again_must_be_the_same(
    raw: RawClient, exchange: Declare, vhost: str, key: str, value: Any, received: str, current: str
) -> None:
    name = exchange("direct", arguments=alternate("a"))
    options: dict[str, Any] = {"exchange": name, "type": "direct", "arguments": alternate("a")}
    if key != "alternate-exchange":
        options[key] = value
    else:
        options["arguments"] = alternate(value) if value else {}
    raw.send_method(1, Exchange.Declare(**options))
    text = f"inequivalent arg '{key}' for exchange '{name}' in vhost '{vhost}': "
    text += f"received {received} but current is {current}"
    raw.expect_channel_close(406, f"PRECONDITION_FAILED - {text}", Exchange.Declare)


def test_unknown_exchange_arguments_are_kept_and_not_compared(channel: Any, exchange: Declare) -> None:
    name = exchange("direct", arguments={"mine": 1})
    channel.exchange_declare(name, "direct", arguments={"mine": 2})


def test_line_breaks_are_dropped_from_a_declared_name(channel: Any, cleanup: Any, connection: Any) -> None:
    name = unique("x")
    channel.exchange_declare(name + "\r\n", "direct")
    cleanup(exchange=name)
    assert exists(connection, name)


def test_line_breaks_are_dropped_from_names_that_are_bound_and_deleted(
    channel: Any, connection: Any, exchange: Declare
) -> None:
    source, fed = exchange("direct"), exchange("fanout")
    queue = own_queue(channel, f"\n{fed}", "")
    channel.exchange_bind(f"{fed}\r\n", f"{source}\n", "k")
    channel.basic_publish(source, "k", b"1")
    assert taken(channel, queue) == [b"1"]
    channel.exchange_unbind(f"\n{fed}", f"\r{source}", "k")
    channel.queue_unbind(queue, f"{fed}\n", "")
    for name in (source, fed):
        channel.basic_publish(name, "k", b"2")
    assert taken(channel, queue) == []
    channel.exchange_delete(f"{fed}\r\n")
    assert not exists(connection, fed)


def test_an_exchange_in_use_is_not_deleted_if_unused_is_asked(
    raw: RawClient, channel: Any, exchange: Declare, vhost: str
) -> None:
    name = exchange("direct")
    queue = own_queue(channel, name, "k")
    raw.send_method(1, Exchange.Delete(exchange=name, if_unused=True))
    text = f"PRECONDITION_FAILED - exchange '{name}' in vhost '{vhost}' in use"
    raw.expect_channel_close(406, text, Exchange.Delete)
    channel.queue_unbind(queue, name, "k")
    channel.exchange_delete(name, if_unused=True)


def test_being_fed_by_another_exchange_is_no_use(channel: Any, exchange: Declare) -> None:
    name = exchange("direct")
    channel.exchange_bind(name, "amq.fanout")
    channel.exchange_delete(name, if_unused=True)


@pytest.mark.parametrize("how", ["unbind", "delete queue", "unbind exchange", "delete exchange"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(
    connection: Any, channel: Any, exchange: Declare, how: str
) -> None:
    name, target = exchange("direct", auto_delete=True), exchange("fanout")
    queue = own_queue(channel, name, "a", "b")
    channel.queue_unbind(queue, name, "a")
    assert exists(connection, name)
    if "exchange" in how:
        channel.exchange_bind(target, name, "k")
        channel.queue_unbind(queue, name, "b")
        assert exists(connection, name)
    match how:
        case "unbind":
            channel.queue_unbind(queue, name, "b")
        case "delete queue":
            channel.queue_delete(queue)
        case "unbind exchange":
            channel.exchange_unbind(target, name, "k")
        case "delete exchange":
            channel.exchange_delete(target)
    eventually(lambda: not exists(connection, name))


def test_an_auto_delete_exchange_that_was_never_bound_stays(connection: Any, channel: Any, exchange: Declare) -> None:
    name = exchange("direct", auto_delete=True)
    channel.exchange_bind(name, "amq.fanout", "k")
    channel.exchange_unbind(name, "amq.fanout", "k")
    assert exists(connection, name)


def test_auto_delete_goes_on_up_the_chain(connection: Any, channel: Any, exchange: Declare) -> None:
    upper, lower = exchange("fanout", auto_delete=True), exchange("fanout", auto_delete=True)
    channel.exchange_bind(lower, upper)
    queue = own_queue(channel, lower, "")
    channel.queue_delete(queue)
    eventually(lambda: not exists(connection, lower) and not exists(connection, upper))


def test_without_wait_nothing_is_answered(raw: RawClient) -> None:
    name = unique("x")
    raw.send_method(1, Exchange.Declare(exchange=name, type="fanout", nowait=True))
    raw.send_method(1, Exchange.Bind(destination=name, source="amq.fanout", routing_key="", nowait=True))
    raw.send_method(1, Exchange.Unbind(destination=name, source="amq.fanout", routing_key="", nowait=True))
    raw.call(1, Exchange.Declare(exchange=name, passive=True), Exchange.DeclareOk)
    raw.send_method(1, Exchange.Delete(exchange=name, nowait=True))
    raw.send_method(1, Exchange.Declare(exchange=name, passive=True, nowait=True))
    assert raw.expect(spec.Channel.Close, 1).reply_code == 404


def test_durable_exchanges_and_bindings_outlive_a_restart(broker: Broker, connect: Callable[..., Any]) -> None:
    channel = connect().channel()
    durable, transient, queue = unique("x"), unique("x"), unique("q")
    channel.exchange_declare(durable, "topic", durable=True, arguments=alternate("amq.fanout"))
    channel.exchange_declare(transient, "topic")
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, durable, "a.#")
    channel.queue_bind(queue, transient, "a.#")
    broker.restart()
    connection = connect()
    channel = connection.channel()
    channel.exchange_declare(durable, "topic", durable=True, arguments=alternate("amq.fanout"))
    publish(channel, durable, "a.b")
    assert taken(channel, queue) == [b"x"]
    assert not exists(connection, transient)
    channel.queue_delete(queue)
    channel.exchange_delete(durable)
