"""Users and their passwords, limits of vhosts and users, and guest only from loopback."""

from __future__ import annotations

import base64
import hashlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec

from .rawclient import Eof, RawClient
from .support import Broker, eventually, quote, unique

RawConnect = Callable[..., RawClient]
Connect = Callable[..., Any]
Queue = spec.Queue

LOGIN_REFUSED = (
    "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."
)


def opening(raw_connect: RawConnect, user: str, vhost: str, password: str = "secret") -> RawClient:
    """A client that has sent connection.open and read no answer."""
    client = raw_connect(handshake=False)
    client.begin()
    client.login(user, password)
    client.expect(spec.Connection.Tune, 0)
    client.send_method(0, spec.Connection.TuneOk(2047, 131072, 0), spec.Connection.Open(vhost))
    return client


# limits


@pytest.fixture
def small_vhost(broker: Broker) -> Iterator[str]:
    name = unique("small")
    broker.add_vhost(name)
    yield name
    broker.delete_vhost(name)


def limit(broker: Broker, kind: str, name: str, key: str, value: int) -> None:
    broker.api("PUT", f"/api/{kind}-limits/{quote(name)}/{key}", {"value": value})


def test_a_vhost_may_limit_its_connections(broker: Broker, small_vhost: str, raw_connect: RawConnect) -> None:
    limit(broker, "vhost", small_vhost, "max-connections", 1)
    first = raw_connect(vhost=small_vhost)
    text = f"NOT_ALLOWED - access to vhost '{small_vhost}' refused for user '{broker.user}': "
    second = opening(raw_connect, broker.user, small_vhost, broker.password)
    second.expect_connection_close(530, text + "connection limit (1) is reached", spec.Connection.Open)
    first.call(0, spec.Connection.Close(200, "", 0, 0), spec.Connection.CloseOk)
    first.close()

    def admitted() -> bool:
        try:
            raw_connect(vhost=small_vhost)
        except AssertionError:
            return False
        return True

    eventually(admitted)


def test_a_vhost_may_be_closed_with_a_limit_of_0(broker: Broker, small_vhost: str, raw_connect: RawConnect) -> None:
    limit(broker, "vhost", small_vhost, "max-connections", 0)
    client = opening(raw_connect, broker.user, small_vhost, broker.password)
    text = f"NOT_ALLOWED - access to vhost '{small_vhost}' refused for user '{broker.user}': "
    client.expect_connection_close(530, text + "connection limit (0) is reached", spec.Connection.Open)
    limit(broker, "vhost", small_vhost, "max-connections", -1)
    raw_connect(vhost=small_vhost)


def test_a_vhost_may_limit_its_queues(broker: Broker, small_vhost: str, raw_connect: RawConnect) -> None:
    limit(broker, "vhost", small_vhost, "max-queues", 1)
    client = raw_connect(vhost=small_vhost)
    client.open_channel(1)
    for _ in range(2):
        client.call(1, Queue.Declare(queue="one", exclusive=True), Queue.DeclareOk)
    client.send_method(1, Queue.Declare(queue="two", exclusive=True))
    text = f"PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{small_vhost}' (1) is reached"
    client.expect_channel_close(406, text, Queue.Declare)
    client.open_channel(1)
    client.call(1, Queue.Delete(queue="one"), Queue.DeleteOk)
    client.call(1, Queue.Declare(queue="two", exclusive=True), Queue.DeclareOk)


def test_a_user_may_have_limited_connections(broker: Broker, vhost: str, user: str, raw_connect: RawConnect) -> None:
    limit(broker, "user", user, "max-connections", 1)
    raw_connect(user=user, password="secret")
    text = f"NOT_ALLOWED - connection refused for user '{user}': user connection limit (1) is reached"
    opening(raw_connect, user, vhost).expect_connection_close(530, text, spec.Connection.Open)


def test_a_user_may_have_limited_channels(broker: Broker, user: str, raw_connect: RawConnect) -> None:
    """Counted over all of the user's connections."""
    limit(broker, "user", user, "max-channels", 2)
    clients = [raw_connect(user=user, password="secret") for _ in range(2)]
    for client in clients:
        client.open_channel(1)
    clients[0].send_method(2, spec.Channel.Open())
    text = (
        f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum allowed user limit of (2)"
    )
    clients[0].expect_connection_close(530, text)


# users


def hashed(algorithm: str, password: str) -> str:
    salt = b"\x01\x02\x03\x04"
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password.encode()).digest()).decode()


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_user_may_be_made_from_a_password_hash(broker: Broker, vhost: str, connect: Connect, algorithm: str) -> None:
    name = unique("user")
    body = {
        "password_hash": hashed(algorithm, "pässword"),
        "hashing_algorithm": f"rabbit_password_hashing_{algorithm}",
        "tags": "",
    }
    broker.api("PUT", f"/api/users/{name}", body)
    broker.grant(vhost, name)
    assert connect(user=name, password="pässword").is_open
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        connect(user=name, password="password")
    broker.delete_user(name)


def test_deleting_a_user_closes_its_connections(broker: Broker, vhost: str, raw_connect: RawConnect) -> None:
    name = unique("user")
    broker.add_user(name)
    broker.grant(vhost, name)
    client = raw_connect(user=name, password="secret")
    broker.delete_user(name)
    client.expect_connection_close(320, f"CONNECTION_FORCED - user '{name}' is deleted")


# loopback


def outside(broker: Broker) -> RawClient:
    """A client of this machine's address on the network, or a skip where there is none or nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            address = probe.getsockname()[0]
        except OSError:
            pytest.skip("this machine has no address but loopback")
    if address.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    try:
        return RawClient(address, broker.port)
    except OSError:
        pytest.skip("the broker listens on loopback only")


def test_guest_may_come_only_from_loopback(broker: Broker) -> None:
    client = outside(broker)
    client.begin()
    client.login("guest", "guest")
    client.expect_connection_close(403, LOGIN_REFUSED)
    client.close()


def test_guest_from_outside_just_ends_for_a_client_without_the_capability(broker: Broker) -> None:
    client = outside(broker)
    client.begin()
    client.login("guest", "guest", properties={})
    with pytest.raises(Eof):
        client.read()
    client.close()


def test_other_users_may_come_from_anywhere(broker: Broker, user: str, vhost: str) -> None:
    client = outside(broker)
    client.handshake(user, "secret", vhost)
    client.close()
