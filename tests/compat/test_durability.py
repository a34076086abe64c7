"""What survives a restart and a kill: durable things and persistent messages in order, and nothing else.

Each test prepares, restarts or kills the broker, and looks. All run against one server process in turn. After a kill
the promises are weaker, as they are in RabbitMQ: what was confirmed is there and in order, but an ack (which nobody
confirms) may be forgotten, so a settled message may come back, and any message may be marked as redelivered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .queue_support import (
    PERSISTENT,
    Inbox,
    bodies,
    confirmed,
    confirming,
    contents,
    control,
    deaths,
    drain,
    exists,
    fetch,
    hold,
    numbered,
    publish,
    ready,
    reconnect,
    wait_ready,
)
from .support import ApiError, Broker, quote, unique

Declare = Callable[..., str]
Connect = Callable[..., Any]

pytestmark = pytest.mark.timeout(240)


class Again:
    """again() restarts or kills the broker and answers with a channel on a new connection."""

    def __init__(self, broker: Broker, connect: Connect, action: str) -> None:
        self.broker = broker
        self.connect = connect
        self.action = action

    @property
    def clean(self) -> bool:
        return self.action == "restart"

    def __call__(self) -> Any:
        control(self.broker, self.action)
        return reconnect(self.connect)


@pytest.fixture(params=["restart", "kill"])
def again(request: pytest.FixtureRequest, broker: Broker, connect: Connect) -> Again:
    return Again(broker, connect, request.param)


@pytest.fixture
def restart(broker: Broker, connect: Connect) -> Again:
    return Again(broker, connect, "restart")


@pytest.fixture
def kill(broker: Broker, connect: Connect) -> Again:
    return Again(broker, connect, "kill")


@pytest.fixture
def sender(connection: Any) -> Any:
    return confirming(connection)


def send(sender: Any, queue: str, *messages: bytes, **properties: Any) -> None:
    """Publish and wait for each confirm, so that nothing is in flight when the broker ends."""
    properties.setdefault("delivery_mode", PERSISTENT)
    for body in messages or (b"m",):
        assert confirmed(sender, queue, body, **properties)


# messages


def test_persistent_messages_in_a_durable_queue_survive_in_order(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(200))
    channel = again()
    survivors = drain(channel, name)
    assert bodies(survivors) == numbered(200)
    if again.clean:
        assert not any(message.redelivered for message in survivors)


def test_transient_messages_do_not_survive(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    for number in range(1, 11):
        send(sender, name, str(number).encode(), delivery_mode=PERSISTENT if number % 2 else 1)
    assert contents(again(), name) == [b"1", b"3", b"5", b"7", b"9"]


def test_properties_and_bodies_survive_unchanged(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    large = bytes(range(256)) * 1200
    headers = {"text": "ü", "list": [1, "a", {"k": True}], "big": 1 << 40}
    send(sender, name, large, b"", headers=headers, message_id="id", priority=3, content_type="text/plain")
    channel = again()
    first, second = fetch(channel, name), fetch(channel, name)
    assert (first.body, second.body) == (large, b"")
    assert (first.headers, first.properties.message_id, first.properties.priority) == (headers, "id", 3)
    assert (first.exchange, first.key, first.properties.delivery_mode) == ("", name, 2)


def settle_every_second(channel: Any, queue: str, sender: Any) -> None:
    """Ten messages, the odd ones acknowledged."""
    send(sender, queue, *numbered(10))
    for message in hold(channel, queue, 10)[::2]:
        channel.basic_ack(message.tag)
    channel.close()


def test_acknowledged_messages_do_not_come_back_after_a_restart(
    channel: Any, queue: Declare, sender: Any, restart: Again
) -> None:
    name = queue(durable=True)
    settle_every_second(channel, name, sender)
    assert contents(restart(), name) == numbered(10)[1::2]


def test_messages_that_were_not_acknowledged_come_back_after_a_kill(
    channel: Any, queue: Declare, sender: Any, kill: Again
) -> None:
    name = queue(durable=True)
    settle_every_second(channel, name, sender)
    found = contents(kill(), name)
    assert found == [body for body in numbered(10) if body in found]
    assert set(numbered(10)[1::2]) <= set(found)


def test_unacknowledged_messages_come_back_in_their_place_and_marked(
    channel: Any, queue: Declare, sender: Any, again: Again
) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(5))
    hold(channel, name, 2)
    new = again()
    found = drain(new, name)
    assert bodies(found) == numbered(5)
    assert all(message.redelivered for message in found[:2])
    assert not again.clean or not any(message.redelivered for message in found[2:])


def test_consumed_but_unacknowledged_messages_come_back(connection: Any, queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    inbox = Inbox(connection.channel())
    inbox.consume(name)
    send(sender, name, *numbered(20))
    inbox.wait(20)
    found = drain(again(), name)
    assert bodies(found) == numbered(20)
    assert all(message.redelivered for message in found)


def test_purged_messages_do_not_come_back(channel: Any, queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(20))
    assert channel.queue_purge(name).method.message_count == 20
    send(sender, name, b"after")
    assert contents(again(), name) == [b"after"]


def test_a_queue_declared_again_after_delete_holds_only_what_came_after(
    channel: Any, queue: Declare, sender: Any, again: Again
) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(5))
    channel.queue_delete(name)
    channel.queue_declare(name, durable=True)
    send(sender, name, b"new")
    assert contents(again(), name) == [b"new"]


def test_requeued_messages_keep_their_place(channel: Any, queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(6))
    held = hold(channel, name, 4)
    channel.basic_reject(held[2].tag, requeue=True)
    channel.basic_ack(held[1].tag)
    wait_ready(channel, name, 3)
    channel.close()
    found = contents(again(), name)
    if not again.clean and b"2" in found:
        found.remove(b"2")
    assert found == [b"1", b"3", b"4", b"5", b"6"]


def test_a_message_in_many_queues_survives_in_each_that_holds_it(
    channel: Any, queue: Declare, connection: Any, again: Again
) -> None:
    names = [queue(durable=True) for _ in range(3)]
    for name in names:
        channel.queue_bind(name, "amq.fanout")
    assert confirmed(confirming(connection), "", b"to all", exchange="amq.fanout", delivery_mode=PERSISTENT)
    assert fetch(channel, names[1]).body == b"to all"
    new = again()
    first, second, third = (contents(new, name) for name in names)
    assert first == third == [b"to all"]
    assert second == [] or (not again.clean and second == [b"to all"])


def test_dead_letters_survive_with_their_record(channel: Any, queue: Declare, sender: Any, restart: Again) -> None:
    sink = queue(durable=True)
    name = queue(durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sink})
    send(sender, name, b"bad", b"good")
    channel.basic_reject(fetch(channel, name, auto_ack=False).tag, requeue=False)
    wait_ready(channel, sink, 1)
    new = restart()
    assert deaths(fetch(new, sink)) == [(name, "rejected", 1)]
    assert contents(new, name) == [b"good"]


def test_priorities_survive(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True, arguments={"x-max-priority": 5})
    for priority in (1, 5, 3, 5):
        send(sender, name, f"{priority}".encode(), priority=priority)
    assert contents(again(), name) == [b"5", b"5", b"3", b"1"]


def test_the_deadline_of_a_message_goes_on_while_the_broker_is_down(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, b"short", expiration="700")
    send(sender, name, b"long", expiration="3600000")
    channel = again()
    wait_ready(channel, name, 1)
    assert contents(channel, name) == [b"long"]


def test_limits_hold_after_a_restart(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True, arguments={"x-max-length": 3})
    send(sender, name, *numbered(5))
    channel = again()
    publish(channel, name, b"6", delivery_mode=PERSISTENT)
    assert contents(channel, name) == [b"4", b"5", b"6"]


# queues, exchanges, bindings


def test_queues_survive_only_if_durable_and_shared(queue: Declare, channel: Any, again: Again) -> None:
    durable = queue(durable=True)
    transient = queue(durable=False)
    exclusive = queue(durable=True, exclusive=True)
    auto_delete = queue(durable=True, auto_delete=True)
    connection = again().connection
    found = [exists(connection, name) for name in (durable, transient, exclusive, auto_delete)]
    assert found == [True, False, False, True]


def test_the_arguments_of_a_queue_survive(queue: Declare, again: Again) -> None:
    arguments = {"x-max-length": 5, "x-message-ttl": 60000, "x-custom": "kept"}
    name = queue(durable=True, arguments=arguments)
    assert again().queue_declare(name, durable=True, arguments=arguments).method.queue == name


def test_a_durable_auto_delete_queue_without_consumers_stays_after_a_restart(
    channel: Any, queue: Declare, sender: Any, again: Again
) -> None:
    name = queue(durable=True, auto_delete=True)
    send(sender, name, b"kept")
    assert contents(again(), name) == [b"kept"]


def test_exchanges_survive_only_if_durable(channel: Any, exchange: Declare, broker: Broker, vhost: str, again: Again) -> None:
    durable, transient = exchange("topic", durable=True), exchange("topic", durable=False)
    again()
    assert broker.api("GET", f"/api/exchanges/{quote(vhost)}/{durable}")["type"] == "topic"
    with pytest.raises(ApiError) as caught:
        broker.api("GET", f"/api/exchanges/{quote(vhost)}/{transient}")
    assert caught.value.status == 404


def test_bindings_between_durable_things_survive(channel: Any, queue: Declare, exchange: Declare, again: Again) -> None:
    first, second = exchange("topic", durable=True), exchange("headers", durable=True)
    name = queue(durable=True)
    channel.exchange_bind(second, first, "a.#")
    channel.queue_bind(name, second, "", arguments={"x-match": "all", "color": "red"})
    new = again()
    publish(new, "a.b", b"red", exchange=first, headers={"color": "red"})
    publish(new, "a.b", b"blue", exchange=first, headers={"color": "blue"})
    assert contents(new, name) == [b"red"]


def test_an_unbound_binding_does_not_come_back(channel: Any, queue: Declare, again: Again) -> None:
    name, key = queue(durable=True), unique("key")
    channel.queue_bind(name, "amq.direct", key)
    channel.queue_unbind(name, "amq.direct", key)
    new = again()
    publish(new, key, exchange="amq.direct")
    assert contents(new, name) == []


def test_a_deleted_queue_does_not_come_back(channel: Any, queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name)
    channel.queue_delete(name)
    assert not exists(again().connection, name)


# everything else that is declared


def test_users_permissions_vhosts_and_policies_survive(broker: Broker, connect: Connect, again: Again) -> None:
    user, place = unique("user"), unique("place")
    broker.add_user(user, "secret")
    broker.add_vhost(place)
    broker.grant(place, user, configure="^mine", write=".*", read=".*")
    broker.set_policy(place, "short", "^mine", {"max-length": 2}, priority=4, apply_to="queues")
    again()
    channel = connect(vhost=place, user=user, password="secret").channel()
    channel.queue_declare("mine", durable=True)
    publish(channel, "mine", *numbered(5))
    assert contents(channel, "mine") == [b"4", b"5"]
    shown = broker.api("GET", f"/api/permissions/{quote(place)}/{user}")
    assert (shown["configure"], shown["write"], shown["read"]) == ("^mine", ".*", ".*")
    assert broker.api("GET", f"/api/policies/{quote(place)}/short")["priority"] == 4
    channel.connection.close()
    broker.delete_vhost(place)
    broker.delete_user(user)


def test_a_second_restart_changes_nothing(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(10))
    again()
    channel = again()
    assert ready(channel, name) == 10
    assert contents(channel, name) == numbered(10)


def test_messages_of_before_and_after_a_restart_are_in_order(queue: Declare, sender: Any, again: Again) -> None:
    name = queue(durable=True)
    send(sender, name, *numbered(5))
    channel = again()
    send(confirming(channel.connection), name, *numbered(5, start=6))
    assert contents(channel, name) == numbered(10)
