"""The handshake, logging in, tuning, heartbeats and closing, as RabbitMQ does them."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import PROTOCOL_HEADER, Eof, RawClient, field, frame, longstr, method_frame
from .support import Broker, eventually, quote, unique

RawConnect = Callable[..., RawClient]
Connect = Callable[..., Any]

REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism {}. For details see the broker logfile."
CAPABILITIES = {
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
}


def amqplain(user: str, password: str) -> bytes:
    login = field("LOGIN", b"S", longstr(user.encode()))
    return login + field("PASSWORD", b"S", longstr(password.encode()))


def tuned(client: RawClient) -> RawClient:
    client.begin()
    client.login()
    client.expect(spec.Connection.Tune, 0)
    return client


# the protocol header


def test_connection_start_offers_what_rabbitmq_offers(raw_connect: RawConnect) -> None:
    start = raw_connect(handshake=False).begin()
    assert (start.version_major, start.version_minor) == (0, 9)
    assert {"PLAIN", "AMQPLAIN"} <= set(start.mechanisms.decode().split())
    assert start.locales == b"en_US"


def test_server_properties_name_the_product_and_version_that_clients_check(raw: RawClient) -> None:
    properties = raw.start.server_properties
    assert properties["product"] == "RabbitMQ"
    assert properties["version"].split(".")[0] == "3"
    assert {"cluster_name", "copyright", "information", "platform"} <= set(properties)


def test_server_capabilities_are_rabbitmqs(raw: RawClient) -> None:
    capabilities = raw.start.server_properties["capabilities"]
    assert set(capabilities) >= CAPABILITIES
    assert all(value is True for value in capabilities.values())


@pytest.mark.parametrize(
    "header",
    [b"GET / HTTP/1.1\r\n", b"AMQP\x00\x00\x09\x00", b"AMQP\x01\x01\x00\x0a", b"\x16\x03\x01\x02\x00\x01\x00\x01"],
    ids=["http", "0-9", "0-10", "tls"],
)
def test_a_wrong_protocol_header_is_answered_with_the_right_one(raw_connect: RawConnect, header: bytes) -> None:
    client = raw_connect(handshake=False)
    client.send(header)
    assert client.receive(8) == PROTOCOL_HEADER
    with pytest.raises(Eof):
        client.receive(1)


def test_the_older_form_of_the_protocol_header_is_accepted(raw_connect: RawConnect) -> None:
    client = raw_connect(handshake=False)
    client.send(b"AMQP\x01\x01\x00\x09")
    assert client.expect(spec.Connection.Start, 0).version_minor == 9


def test_a_protocol_header_may_come_in_pieces(raw_connect: RawConnect) -> None:
    client = raw_connect(handshake=False)
    for at in range(8):
        client.send(PROTOCOL_HEADER[at : at + 1])
    client.expect(spec.Connection.Start, 0)


def test_a_whole_handshake_may_come_in_one_packet(raw_connect: RawConnect, vhost: str) -> None:
    client = raw_connect(handshake=False)
    client.send(
        PROTOCOL_HEADER
        + method_frame(0, spec.Connection.StartOk({}, "PLAIN", "\0guest\0guest", "en_US"))
        + method_frame(0, spec.Connection.TuneOk(2047, 131072, 0))
        + method_frame(0, spec.Connection.Open(vhost))
        + method_frame(1, spec.Channel.Open())
    )
    for kind in (spec.Connection.Start, spec.Connection.Tune, spec.Connection.OpenOk, spec.Channel.OpenOk):
        client.expect(kind)


# logging in


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_the_right_password_is_let_in(raw_connect: RawConnect, broker: Broker, mechanism: str) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    response = amqplain(broker.user, broker.password) if mechanism == "AMQPLAIN" else None
    client.login(broker.user, broker.password, mechanism=mechanism, response=response)
    client.expect(spec.Connection.Tune, 0)


@pytest.mark.parametrize("user", ["guest", "nobody", ""])
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_wrong_login_is_refused_with_403(raw_connect: RawConnect, mechanism: str, user: str) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    response = amqplain(user, "wrong") if mechanism == "AMQPLAIN" else None
    client.login(user, "wrong", mechanism=mechanism, response=response)
    client.expect_connection_close(403, REFUSED.format(mechanism))


def test_a_wrong_login_just_ends_for_a_client_without_the_capability(raw_connect: RawConnect) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    client.login("guest", "wrong", properties={"capabilities": {"authentication_failure_close": False}})
    assert client.at_eof()


def test_pika_sees_a_wrong_password_as_an_authentication_error(connect: Connect) -> None:
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as caught:
        connect(password="wrong")
    assert "(403) '" + REFUSED.format("PLAIN") in str(caught.value)


def test_a_changed_password_counts_at_the_next_login(broker: Broker, vhost: str, connect: Connect) -> None:
    user = unique("user")
    broker.add_user(user, "first")
    broker.grant(vhost, user)
    connect(user=user, password="first")
    broker.add_user(user, "second")
    connect(user=user, password="second")
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(user=user, password="first")
    broker.delete_user(user)


def test_a_user_without_password_cannot_log_in(broker: Broker, vhost: str, raw_connect: RawConnect) -> None:
    user = unique("user")
    broker.api("PUT", f"/api/users/{user}", {"password_hash": "", "tags": ""})
    client = raw_connect(handshake=False)
    client.begin()
    client.login(user, "")
    client.expect_connection_close(403, REFUSED.format("PLAIN"))
    broker.delete_user(user)


def test_a_handshake_gone_wrong_ends_without_a_word(raw_connect: RawConnect) -> None:
    """RabbitMQ waits a while before it closes, so all are sent first and watched afterwards."""
    wrongs: dict[str, Callable[[RawClient], None]] = {
        "unknown mechanism": lambda c: c.login(mechanism="FOO"),
        "EXTERNAL without TLS": lambda c: c.login(mechanism="EXTERNAL"),
        "malformed PLAIN": lambda c: c.login(response="garbage"),
        "AMQPLAIN without password": lambda c: c.login(mechanism="AMQPLAIN", response=amqplain("guest", "")[:20]),
        "AMQPLAIN garbage": lambda c: c.login(mechanism="AMQPLAIN", response=b"\xff\xff\xff"),
        "tune-ok before start-ok": lambda c: c.send_method(0, spec.Connection.TuneOk(2047, 131072, 0)),
        "open before start-ok": lambda c: c.send_method(0, spec.Connection.Open("/")),
        "close before start-ok": lambda c: c.send_method(0, spec.Connection.Close(200, "bye", 0, 0)),
        "channel.open before start-ok": lambda c: c.send_method(1, spec.Channel.Open()),
        "unknown frame type": lambda c: c.send_frame(9, 0, b"xx"),
        "wrong frame end": lambda c: c.send_frame(1, 0, b"xxxx", b"\0"),
        "frame larger than the minimum": lambda c: c.send(struct.pack(">BHI", 1, 0, 8192) + bytes(8193)),
    }
    clients = {name: raw_connect(handshake=False) for name in wrongs}
    for name, wrong in wrongs.items():
        clients[name].begin()
        wrong(clients[name])
    assert [name for name, client in clients.items() if not client.at_eof()] == []


def test_a_heartbeat_before_start_ok_is_harmless(raw_connect: RawConnect) -> None:
    client = raw_connect(handshake=False)
    client.begin()
    client.send_frame(8, 0, b"")
    client.login()
    client.expect(spec.Connection.Tune, 0)


# tuning


def test_the_server_proposes_rabbitmqs_limits(raw: RawClient) -> None:
    assert (raw.tune.channel_max, raw.tune.frame_max, raw.tune.heartbeat) == (2047, 131072, 60)


def test_impossible_limits_end_the_handshake(raw_connect: RawConnect) -> None:
    limits = [(2047, 4095, 0), (2047, 131073, 0), (2047, 0, 0), (2048, 131072, 0), (0, 131072, 0)]
    clients = [tuned(raw_connect(handshake=False)) for _ in limits]
    for client, limit in zip(clients, limits, strict=True):
        client.send_method(0, spec.Connection.TuneOk(*limit))
    assert [limit for client, limit in zip(clients, limits, strict=True) if not client.at_eof()] == []


@pytest.mark.parametrize("limit", [(1, 4096, 0), (2047, 131072, 0), (10, 5000, 1000)])
def test_smaller_limits_are_accepted(raw_connect: RawConnect, vhost: str, limit: tuple[int, int, int]) -> None:
    client = tuned(raw_connect(handshake=False))
    client.send_method(0, spec.Connection.TuneOk(*limit))
    client.call(0, spec.Connection.Open(vhost), spec.Connection.OpenOk)


def test_the_server_keeps_to_the_clients_frame_size(raw_connect: RawConnect) -> None:
    client = raw_connect(frame_max=4096)
    client.open_channel(1)
    queue = client.call(1, spec.Queue.Declare(queue="", exclusive=True), spec.Queue.DeclareOk).queue
    client.publish(1, "", queue, b"x" * 10_000)
    client.send_method(1, spec.Basic.Get(queue=queue))
    client.expect(spec.Basic.GetOk)
    client.read_frame()
    sizes = [len(client.read_frame().payload) for _ in range(3)]
    assert sizes == [4088, 4088, 10_000 - 2 * 4088]


def test_too_many_channels_close_the_connection(raw_connect: RawConnect) -> None:
    client = raw_connect(channel_max=2)
    client.open_channel(1)
    client.open_channel(2)
    client.send_method(3, spec.Channel.Open())
    text = "NOT_ALLOWED - number of channels opened (2) has reached the negotiated channel_max (2)"
    client.expect_connection_close(530, text)


def test_channel_max_counts_open_channels_not_their_numbers(raw_connect: RawConnect) -> None:
    client = raw_connect(channel_max=2)
    client.open_channel(1)
    client.open_channel(900)
    client.call(1, spec.Channel.Close(200, "", 0, 0), spec.Channel.CloseOk)
    client.open_channel(65535)
    assert client.alive(65535)


# opening a vhost


def test_a_missing_vhost_is_refused_with_530(raw_connect: RawConnect) -> None:
    client = tuned(raw_connect(handshake=False))
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Open("nope"))
    client.expect_connection_close(530, "NOT_ALLOWED - vhost nope not found", spec.Connection.Open)


def test_an_empty_vhost_is_a_missing_vhost(raw_connect: RawConnect) -> None:
    client = tuned(raw_connect(handshake=False))
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Open(""))
    client.expect_connection_close(530, "NOT_ALLOWED - vhost  not found", spec.Connection.Open)


def test_a_vhost_without_permission_is_refused_with_530(broker: Broker, vhost: str, raw_connect: RawConnect) -> None:
    user = unique("user")
    broker.add_user(user)
    client = raw_connect(handshake=False)
    client.begin()
    client.login(user, "secret")
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Open(vhost))
    text = f"NOT_ALLOWED - access to vhost '{vhost}' refused for user '{user}'"
    client.expect_connection_close(530, text, spec.Connection.Open)
    broker.delete_user(user)


@pytest.mark.parametrize("name", ["/", "with space", "a/b", "ümlaut", "100%"])
def test_any_vhost_name_works_in_a_url(broker: Broker, name: str) -> None:
    if name != "/":
        broker.add_vhost(name)
    query = "?connection_attempts=3&heartbeat=60"
    connection = pika.BlockingConnection(pika.URLParameters(broker.url(name, query=query)))
    assert connection.channel().is_open
    connection.close()
    if name != "/":
        broker.delete_vhost(name)


def test_deleting_a_vhost_closes_its_connections(broker: Broker, raw_connect: RawConnect) -> None:
    name = unique("vhost")
    broker.add_vhost(name)
    client = raw_connect(vhost=name)
    broker.delete_vhost(name)
    client.expect_connection_close(320, f"CONNECTION_FORCED - vhost '{name}' is deleted")


# heartbeats


def test_the_server_sends_heartbeats(raw_connect: RawConnect) -> None:
    client = raw_connect(heartbeat=1)
    for _ in range(3):
        assert client.read_frame() == (8, 0, b"")
        client.send_frame(8, 0, b"")


def test_a_silent_client_is_disconnected(raw_connect: RawConnect) -> None:
    assert raw_connect(heartbeat=1).at_eof()


def test_any_traffic_counts_as_a_heartbeat(raw_connect: RawConnect) -> None:
    client = raw_connect(heartbeat=1)
    client.open_channel(1)
    for _ in range(8):
        assert client.read_frame() == (8, 0, b"")
        client.send_method(1, spec.Basic.RecoverAsync(True))


def test_heartbeat_zero_means_none(raw_connect: RawConnect) -> None:
    client = raw_connect(heartbeat=0)
    client.socket.settimeout(3)
    with pytest.raises(TimeoutError):
        client.read_frame()


# closing


def test_the_clients_close_is_answered(raw: RawClient) -> None:
    raw.call(0, spec.Connection.Close(200, "bye", 0, 0), spec.Connection.CloseOk)


def test_frames_after_the_clients_close_are_ignored(raw: RawClient) -> None:
    close = method_frame(0, spec.Connection.Close(320, "bye", 60, 40))
    raw.send(close + method_frame(1, spec.Basic.Ack(99)) + frame(8, 0, b""))
    raw.expect(spec.Connection.CloseOk, 0)


def test_a_crossing_close_is_answered(raw: RawClient) -> None:
    """Both sides close at once: the server answers the client's close although it waits for close-ok."""
    raw.send_method(1, spec.Basic.Publish(exchange="", routing_key="x", immediate=True))
    raw.send_frame(2, 1, struct.pack(">HHQH", 60, 0, 0, 0))
    assert raw.expect(spec.Connection.Close, 0).reply_code == 540
    raw.call(0, spec.Connection.Close(200, "bye", 0, 0), spec.Connection.CloseOk)


def test_after_its_close_the_server_ignores_all_but_close_and_close_ok(raw: RawClient) -> None:
    raw.send_method(1, spec.Channel.Open())
    assert raw.expect(spec.Connection.Close, 0).reply_code == 504
    raw.send_method(1, spec.Basic.Qos(), spec.Channel.Open())
    raw.send_method(0, spec.Connection.CloseOk())
    assert raw.at_eof()


def test_a_dropped_socket_frees_what_was_exclusive(raw: RawClient, channel: Any, cleanup: Any) -> None:
    queue = unique("q")
    raw.call(1, spec.Queue.Declare(queue=queue, exclusive=True), spec.Queue.DeclareOk)
    raw.socket.shutdown(socket.SHUT_RDWR)

    def gone() -> bool:
        try:
            channel.connection.channel().queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    eventually(gone)


def test_an_administrator_closes_a_connection_with_his_reason(broker: Broker, raw_connect: RawConnect) -> None:
    name = unique("connection")
    client = raw_connect(properties={"connection_name": name, "capabilities": {"connection.blocked": True}})

    def listed() -> list[str]:
        found = broker.api("GET", "/api/connections")
        return [c["name"] for c in found if c.get("client_properties", {}).get("connection_name") == name]

    path = f"/api/connections/{quote(eventually(listed)[0])}"
    assert broker.api("GET", path)["user_provided_name"] == name
    broker.api("DELETE", path)
    client.expect_connection_close(320, "CONNECTION_FORCED - Closed via management plugin")


def test_a_secret_can_be_updated(connection: Any, raw: RawClient) -> None:
    raw.call(0, spec.Connection.UpdateSecret("new", "it was old"), spec.Connection.UpdateSecretOk)
    assert raw.alive()
    connection.update_secret("new", "it was old")
    assert connection.channel().is_open
