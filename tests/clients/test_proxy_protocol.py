"""Behind a load balancer that speaks PROXY protocol: the server sees and shows the client's own address."""

from __future__ import annotations

import socket

import pika
import pika.exceptions
import pytest

from compat.support import ServerProcess, own_server_only

from . import proxy
from .conftest import Serve
from .test_pika_misc import row_of

pytestmark = [pytest.mark.live, own_server_only]

PLAIN = ("198.51.100.7", 40123, "203.0.113.9", 5672)
SIX = ("2001:db8::7", 40124, "2001:db8::9", 5672)
UNIQUE_ID = b"\x05\x00\x04\x01\x02\x03\x04"


def behind_balancer(serve: Serve) -> ServerProcess:
    server = serve("proxy_protocol = true\n")
    server.add_user("remote", "secret")
    server.grant("/", "remote")
    return server


def parameters(
    port: int, label: str = "proxied", user: str = "remote", password: str = "secret"
) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        "127.0.0.1",
        port,
        credentials=pika.PlainCredentials(user, password),
        client_properties={"connection_name": "proxied"},
        socket_timeout=10,
        stack_timeout=10,
    )


@pytest.mark.parametrize(
    ("header", "addresses"),
    [
        (proxy.version_1(*PLAIN), PLAIN),
        (proxy.version_1(*SIX), SIX),
        (proxy.version_2(*PLAIN), PLAIN),
        (proxy.version_2(*SIX), SIX),
        (proxy.version_2(*PLAIN, extra=UNIQUE_ID), PLAIN),
    ],
    ids=["v1", "v1-ipv6", "v2", "v2-ipv6", "v2-with-more-fields"],
)
def test_a_connection_shows_the_address_that_the_balancer_tells(
    serve: Serve, header: bytes, addresses: tuple[str, int, str, int]
) -> None:
    server = behind_balancer(serve)
    with (
        proxy.forwarding(server.port, header) as port,
        pika.BlockingConnection(parameters(port)) as connection,
    ):
        channel = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", name, b"through")
        assert channel.basic_get(name, auto_ack=True)[2] == b"through"
        row = row_of(server, "proxied")
        assert (row["peer_host"], row["peer_port"], row["host"], row["port"]) == addresses


def test_a_balancers_own_connection_keeps_its_address(serve: Serve) -> None:
    """RabbitMQ 3.10 closes such a connection; the protocol asks for it to be served."""
    server = behind_balancer(serve)
    with (
        proxy.forwarding(server.port, proxy.local_version_2()) as port,
        pika.BlockingConnection(parameters(port)),
    ):
        assert row_of(server, "proxied")["peer_host"] == "127.0.0.1"


def test_guest_behind_the_balancer_is_not_local(serve: Serve) -> None:
    """RabbitMQ 3.10 looks only at the balancer's own address here, which lets guest in from anywhere."""
    server = behind_balancer(serve)
    with (
        proxy.forwarding(server.port, proxy.version_1(*PLAIN)) as port,
        pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"),
    ):
        pika.BlockingConnection(parameters(port, user="guest", password="guest"))
    local = ("127.0.0.1", 40123, "127.0.0.1", 5672)
    with (
        proxy.forwarding(server.port, proxy.version_1(*local)) as port,
        pika.BlockingConnection(parameters(port, user="guest", password="guest")) as connection,
    ):
        assert connection.channel().is_open


def test_guest_is_not_local_because_somebody_elsewhere_says_so(serve: Serve) -> None:
    address = own_address()
    if address is None:
        pytest.skip("needs an address beside the loopback")
    server = behind_balancer(serve)
    claim = proxy.version_1("127.0.0.1", 40123, "127.0.0.1", 5672)
    with (
        proxy.forwarding(server.port, claim, host=address) as port,
        pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED"),
    ):
        pika.BlockingConnection(parameters(port, user="guest", password="guest"))


def own_address() -> str | None:
    """An address of this machine that is not the loopback; connecting a datagram socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address


@pytest.mark.parametrize(
    "first",
    [b"AMQP\x00\x00\x09\x01", b"PROXY TCP9 a b c d\r\n", b"PROXY " + b"x" * 200, proxy.SIGNATURE + b"\x31\x11\x00\x00"],
    ids=["no-header", "unknown-family", "endless-line", "unknown-version"],
)
def test_what_is_not_a_proxy_header_is_closed_without_an_answer(serve: Serve, first: bytes) -> None:
    server = behind_balancer(serve)
    with socket.create_connection((server.host, server.port), timeout=30) as client:
        client.sendall(first)
        assert receive_all(client) == b""
    with (
        proxy.forwarding(server.port, proxy.version_1(*PLAIN)) as port,
        pika.BlockingConnection(parameters(port)) as connection,
    ):
        assert connection.channel().is_open


def receive_all(client: socket.socket) -> bytes:
    got = b""
    try:
        while data := client.recv(4096):
            got += data
    except ConnectionResetError:
        pass
    return got
