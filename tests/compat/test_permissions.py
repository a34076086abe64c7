"""What a user may do: permissions on every operation, and topic permissions.

Newer servers say which permission was missing ("write access to …"); 3.10 does not. The tests follow the version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import RawClient
from .support import Broker, quote, unique

RawConnect = Callable[..., RawClient]
Connect = Callable[..., Any]
Declare = Callable[..., str]
Queue, Exchange, Basic = spec.Queue, spec.Exchange, spec.Basic


class Refusal(NamedTuple):
    """What a user is told who lacks a permission."""

    names_permission: bool
    vhost: str
    user: str

    def __call__(self, permission: str, resource: str) -> str:
        word = f"{permission} " if self.names_permission else ""
        return f"ACCESS_REFUSED - {word}access to {resource} in vhost '{self.vhost}' refused for user '{self.user}'"


@pytest.fixture
def refusal(broker: Broker, vhost: str, user: str) -> Refusal:
    version = broker.api("GET", "/api/overview")["rabbitmq_version"]
    return Refusal(tuple(map(int, version.split(".")[:2])) >= (3, 12), vhost, user)


@pytest.fixture
def enter(broker: Broker, vhost: str, user: str, raw_connect: RawConnect) -> Callable[..., RawClient]:
    """enter(configure, write, read) logs the user in with these permissions, and opens channel 1."""

    def enter(configure: str = "", write: str = "", read: str = "") -> RawClient:
        broker.grant(vhost, user, configure, write, read)
        client = raw_connect(user=user, password="secret")
        client.open_channel(1)
        return client

    return enter


# every operation and the permissions that it needs: ("permission", "kind", "name"), in the order of checking

OPERATIONS: dict[str, tuple[Any, Any, list[tuple[str, str, str]]]] = {
    "queue.declare": (Queue.Declare(queue="Q"), Queue.DeclareOk, [("configure", "queue", "Q")]),
    "queue.declare with dead letters": (
        Queue.Declare(queue="DQ", arguments={"x-dead-letter-exchange": "X"}),
        Queue.DeclareOk,
        [("configure", "queue", "DQ"), ("read", "queue", "DQ"), ("write", "exchange", "X")],
    ),
    "queue.delete": (Queue.Delete(queue="nope"), Queue.DeleteOk, [("configure", "queue", "nope")]),
    "queue.purge": (Queue.Purge(queue="Q"), Queue.PurgeOk, [("read", "queue", "Q")]),
    "queue.bind": (
        Queue.Bind(queue="Q", exchange="X", routing_key=""),
        Queue.BindOk,
        [("write", "queue", "Q"), ("read", "exchange", "X")],
    ),
    "queue.unbind": (
        Queue.Unbind(queue="Q", exchange="X", routing_key=""),
        Queue.UnbindOk,
        [("write", "queue", "Q"), ("read", "exchange", "X")],
    ),
    "exchange.declare": (
        Exchange.Declare(exchange="X", type="direct"),
        Exchange.DeclareOk,
        [("configure", "exchange", "X")],
    ),
    "exchange.declare with alternate": (
        Exchange.Declare(exchange="AX", type="direct", arguments={"alternate-exchange": "X"}),
        Exchange.DeclareOk,
        [("configure", "exchange", "AX"), ("read", "exchange", "AX"), ("write", "exchange", "X")],
    ),
    "exchange.delete": (Exchange.Delete(exchange="nope"), Exchange.DeleteOk, [("configure", "exchange", "nope")]),
    "exchange.bind": (
        Exchange.Bind(destination="Y", source="X", routing_key=""),
        Exchange.BindOk,
        [("write", "exchange", "Y"), ("read", "exchange", "X")],
    ),
    "exchange.unbind": (
        Exchange.Unbind(destination="Y", source="X", routing_key=""),
        Exchange.UnbindOk,
        [("write", "exchange", "Y"), ("read", "exchange", "X")],
    ),
    "basic.get": (Basic.Get(queue="Q"), Basic.GetEmpty, [("read", "queue", "Q")]),
    "basic.consume": (Basic.Consume(queue="Q"), Basic.ConsumeOk, [("read", "queue", "Q")]),
    "queue.declare passive": (Queue.Declare(queue="Q", passive=True), Queue.DeclareOk, []),
    "exchange.declare passive": (Exchange.Declare(exchange="X", passive=True), Exchange.DeclareOk, []),
}


@pytest.fixture
def things(channel: Any, cleanup: Any) -> None:
    """A queue Q and exchanges X and Y; what the operations make is removed too."""
    channel.queue_declare("Q")
    for name in ("X", "Y"):
        channel.exchange_declare(name, "direct")
    for name in ("Q", "DQ"):
        cleanup(queue=name)
    for name in ("X", "Y", "AX"):
        cleanup(exchange=name)


def patterns(needs: list[tuple[str, str, str]]) -> dict[str, str]:
    """Permissions for exactly these resources."""
    allowed: dict[str, list[str]] = {"configure": [], "write": [], "read": []}
    for permission, _, name in needs:
        allowed[permission].append(f"^{name}$")
    return {permission: "|".join(names) for permission, names in allowed.items()}


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_needs_these_permissions_and_no_more(enter: Callable[..., RawClient], operation: str) -> None:
    method, reply, needs = OPERATIONS[operation]
    enter(**patterns(needs)).call(1, method, reply)


@pytest.mark.usefixtures("things")
@pytest.mark.parametrize(
    ("operation", "missing"),
    [(name, index) for name, (_, _, needs) in OPERATIONS.items() for index in range(len(needs))],
)
def test_each_missing_permission_is_refused_by_name(
    enter: Callable[..., RawClient], refusal: Refusal, operation: str, missing: int
) -> None:
    method, _, needs = OPERATIONS[operation]
    client = enter(**patterns(needs[:missing] + needs[missing + 1 :]))
    client.send_method(1, method)
    permission, kind, name = needs[missing]
    client.expect_channel_close(403, refusal(permission, f"{kind} '{name}'"), type(method))


# publishing


def test_publishing_needs_write_on_the_exchange(
    enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name = exchange("direct")
    client = enter(".*", f"^(?!{name}$)", ".*")
    client.publish(1, name, "k", b"x")
    client.expect_channel_close(403, refusal("write", f"exchange '{name}'"), Basic.Publish)
    client = enter("", f"^{name}$", "")
    client.publish(1, name, "k", b"x")
    assert client.alive()


def test_the_default_exchange_is_called_amq_default(enter: Callable[..., RawClient], refusal: Refusal) -> None:
    client = enter(".*", "^$", ".*")
    client.publish(1, "", "k", b"x")
    client.expect_channel_close(403, refusal("write", "exchange 'amq.default'"), Basic.Publish)
    client = enter("", r"^amq\.default$", "")
    client.publish(1, "", "k", b"x")
    assert client.alive()


def test_permission_is_asked_before_existence(enter: Callable[..., RawClient], refusal: Refusal) -> None:
    client = enter()
    client.publish(1, "nope", "k", b"x")
    client.expect_channel_close(403, refusal("write", "exchange 'nope'"), Basic.Publish)
    client.open_channel(1)
    client.send_method(1, Basic.Consume(queue="nope"))
    client.expect_channel_close(403, refusal("read", "queue 'nope'"), Basic.Consume)


def test_a_pattern_matches_anywhere_unless_anchored(enter: Callable[..., RawClient], cleanup: Any) -> None:
    word = unique("word")
    client = enter(configure=word)
    for name in (word, f"a {word} b"):
        client.call(1, Queue.Declare(queue=cleanup(queue=name)), Queue.DeclareOk)


def test_an_empty_pattern_matches_nothing(enter: Callable[..., RawClient], refusal: Refusal) -> None:
    client = enter("", ".*", ".*")
    client.send_method(1, Queue.Declare(queue="any"))
    client.expect_channel_close(403, refusal("configure", "queue 'any'"), Queue.Declare)


def test_a_server_named_queue_needs_configure_too(enter: Callable[..., RawClient]) -> None:
    client = enter(r"^amq\.gen-.*")
    name = client.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    assert name.startswith("amq.gen-")
    client = enter("^mine$")
    client.send_method(1, Queue.Declare(queue="", exclusive=True))
    assert client.expect(spec.Channel.Close, 1).reply_code == 403


def test_pika_hears_of_a_refusal(broker: Broker, vhost: str, user: str, refusal: Refusal, connect: Connect) -> None:
    channel = connect(user=user, password="secret").channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        channel.queue_declare("mine")
    assert (caught.value.reply_code, caught.value.reply_text) == (403, refusal("configure", "queue 'mine'"))


def test_permissions_can_change_for_the_next_channel(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], cleanup: Any
) -> None:
    client = enter()
    broker.grant(vhost, user, ".*", ".*", ".*")
    client.open_channel(2)
    client.call(2, Queue.Declare(queue=cleanup(queue=unique("q"))), Queue.DeclareOk)


def test_without_permissions_the_vhost_is_closed(
    broker: Broker, vhost: str, user: str, raw_connect: RawConnect
) -> None:
    broker.api("DELETE", f"/api/permissions/{quote(vhost)}/{user}")
    client = opening(raw_connect, user, vhost)
    text = f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'"
    client.expect_connection_close(530, text, spec.Connection.Open)


def opening(raw_connect: RawConnect, user: str, vhost: str, password: str = "secret") -> RawClient:
    """A client that has sent connection.open and read no answer."""
    client = raw_connect(handshake=False)
    client.begin()
    client.login(user, password)
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Open(vhost))
    return client


# topic permissions


def allow_topics(broker: Broker, vhost: str, user: str, exchange: str, write: str, read: str) -> None:
    body = {"exchange": exchange, "write": write, "read": read}
    broker.api("PUT", f"/api/topic-permissions/{quote(vhost)}/{user}", body)


def topic(exchange: str, key: str) -> str:
    return f"topic '{key}' in exchange '{exchange}'"


def test_topic_permissions_limit_the_keys_of_publishes(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name = exchange("topic")
    allow_topics(broker, vhost, user, name, r"^ok\.", ".*")
    client = enter(".*", ".*", ".*")
    client.publish(1, name, "ok.a", b"x")
    assert client.alive()
    client.publish(1, name, "bad.a", b"x")
    client.expect_channel_close(403, refusal("write", topic(name, "bad.a")), Basic.Publish)


def test_topic_permissions_limit_the_keys_of_bindings(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name = exchange("topic")
    allow_topics(broker, vhost, user, name, ".*", r"^ok\.")
    client = enter(".*", ".*", ".*")
    queue = client.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    client.call(1, Queue.Bind(queue=queue, exchange=name, routing_key="ok.#"), Queue.BindOk)
    client.send_method(1, Queue.Bind(queue=queue, exchange=name, routing_key="#"))
    client.expect_channel_close(403, refusal("read", topic(name, "#")), Queue.Bind)


def test_topic_permission_is_asked_before_the_existence_of_what_is_bound(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name = exchange("topic")
    allow_topics(broker, vhost, user, name, ".*", r"^ok\.")
    client = enter(".*", ".*", ".*")
    for method in (
        Queue.Bind(queue="nope", exchange=name, routing_key="#"),
        Exchange.Bind(source=name, destination="nope", routing_key="#"),
    ):
        client.send_method(1, method)
        client.expect_channel_close(403, refusal("read", topic(name, "#")), type(method))
        client.open_channel(1)


def test_topic_permissions_limit_the_keys_of_unbinding(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name, fed = exchange("topic"), exchange("fanout")
    allow_topics(broker, vhost, user, name, ".*", r"^ok\.")
    client = enter(".*", ".*", ".*")
    queue = client.call(1, Queue.Declare(queue="", exclusive=True), Queue.DeclareOk).queue
    for method in (
        Queue.Unbind(queue=queue, exchange=name, routing_key="#"),
        Exchange.Unbind(source=name, destination=fed, routing_key="#"),
    ):
        client.send_method(1, method)
        client.expect_channel_close(403, refusal("read", topic(name, "#")), type(method))
        client.open_channel(1)


def test_topic_permissions_may_name_the_user_and_the_vhost(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], refusal: Refusal, exchange: Declare
) -> None:
    name = exchange("topic")
    allow_topics(broker, vhost, user, name, r"^{vhost}\.{username}\.", ".*")
    client = enter(".*", ".*", ".*")
    client.publish(1, name, f"{vhost}.{user}.a", b"x")
    assert client.alive()
    client.publish(1, name, f"{vhost}.other.a", b"x")
    client.expect_channel_close(403, refusal("write", topic(name, f"{vhost}.other.a")), Basic.Publish)


def test_topic_permissions_do_not_touch_other_exchanges(
    broker: Broker, vhost: str, user: str, enter: Callable[..., RawClient], exchange: Declare
) -> None:
    name, direct = exchange("topic"), exchange("direct")
    for limited in (name, direct):
        allow_topics(broker, vhost, user, limited, "^never$", "^never$")
    client = enter(".*", ".*", ".*")
    for target in (direct, exchange("topic"), ""):
        client.publish(1, target, "k", b"x")
    assert client.alive()
