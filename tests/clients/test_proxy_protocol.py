"""Behind a load balancer that speaks PROXY protocol: the server sees and shows the client's own address."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pika
import pika.exceptions
import pytest
import trustme

from compat.support import ServerProcess, free_port, own_server_only

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
        socket_timeout=60,
        stack_timeout=60,
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


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls_behind_balancer(serve: Serve, authority: trustme.CA, folder: Path, more: str = "") -> tuple[ServerProcess, int]:
    port = free_port()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "server.pem"))
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    options = f"ssl_options.certfile = {folder / 'server.pem'}\nssl_options.cacertfile = {folder / 'ca.pem'}\n{more}"
    server = serve(f"listeners.ssl.1 = 127.0.0.1:{port}\nproxy_protocol = true\n{options}")
    server.add_user("remote", "secret")
    server.grant("/", "remote")
    return server, port


def with_tls(plain: pika.ConnectionParameters, authority: trustme.CA, *, name: str = "") -> pika.ConnectionParameters:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if name:
        authority.issue_cert("client.example", common_name=name).configure_cert(context)
        plain.credentials = pika.credentials.ExternalCredentials()
    plain.ssl_options = pika.SSLOptions(context, "localhost")
    return plain


@pytest.mark.parametrize(
    "header",
    [proxy.version_1(*PLAIN), proxy.version_2(*PLAIN), proxy.version_2(*PLAIN, extra=UNIQUE_ID)],
    ids=["v1", "v2", "v2-with-more-fields"],
)
@pytest.mark.parametrize("coalesced", [False, True], ids=["header-alone", "header-with-the-handshake"])
def test_a_header_comes_before_tls(
    serve: Serve, authority: trustme.CA, tmp_path: Path, header: bytes, *, coalesced: bool
) -> None:
    server, tls_port = tls_behind_balancer(serve, authority, tmp_path)
    with (
        proxy.forwarding(tls_port, header, coalesced=coalesced) as port,
        pika.BlockingConnection(with_tls(parameters(port), authority)) as connection,
    ):
        channel = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        for size in (7, 1 << 20):
            channel.basic_publish("", name, b"x" * size)
            assert channel.basic_get(name, auto_ack=True)[2] == b"x" * size
        row = row_of(server, "proxied")
        assert (row["peer_host"], row["peer_port"], row["host"], row["port"], row["ssl"]) == (*PLAIN, True)


def test_a_clients_certificate_is_read_behind_the_header(serve: Serve, authority: trustme.CA, tmp_path: Path) -> None:
    external = "ssl_options.verify = verify_peer\nauth_mechanisms.1 = EXTERNAL\nssl_cert_login_from = common_name\n"
    server, tls_port = tls_behind_balancer(serve, authority, tmp_path, external)
    with (
        proxy.forwarding(tls_port, proxy.version_2(*SIX)) as port,
        pika.BlockingConnection(with_tls(parameters(port), authority, name="remote")),
    ):
        row = row_of(server, "proxied")
        assert (row["user"], row["peer_host"]) == ("remote", SIX[0])


@pytest.mark.parametrize("first", [b"", proxy.version_1(*PLAIN) + b"AMQP\x00\x00\x09\x01" * 4], ids=["no-header", "no-tls"])
def test_a_tls_listener_ends_what_has_no_header_or_no_tls(
    serve: Serve, authority: trustme.CA, tmp_path: Path, first: bytes
) -> None:
    _, tls_port = tls_behind_balancer(serve, authority, tmp_path)
    with socket.create_connection(("127.0.0.1", tls_port), timeout=60) as client:
        client.sendall(first or b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32))
        assert b"AMQP" not in receive_all(client)
    with (
        proxy.forwarding(tls_port, proxy.version_1(*PLAIN)) as port,
        pika.BlockingConnection(with_tls(parameters(port), authority)) as connection,
    ):
        assert connection.channel().is_open


@pytest.mark.parametrize(
    "first",
    [b"AMQP\x00\x00\x09\x01", b"PROXY TCP9 a b c d\r\n", b"PROXY " + b"x" * 200, proxy.SIGNATURE + b"\x31\x11\x00\x00"],
    ids=["no-header", "unknown-family", "endless-line", "unknown-version"],
)
def test_what_is_not_a_proxy_header_is_closed_without_an_answer(serve: Serve, first: bytes) -> None:
    server = behind_balancer(serve)
    with socket.create_connection((server.host, server.port), timeout=60) as client:
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
