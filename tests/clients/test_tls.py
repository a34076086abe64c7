"""TLS listeners, client certificates and SASL EXTERNAL, through pika."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

import pika
import pika.exceptions
import pytest
import trustme
from cryptography import x509
from pika import spec

from compat.rawclient import RawClient, content_frames, method_frame
from compat.support import ServerProcess, eventually, free_port, own_server_only, quote

from .conftest import Serve
from .test_pika_misc import row_of

pytestmark = [pytest.mark.live, own_server_only]

USER = "tls-user"
REFUSED = (pika.exceptions.AMQPConnectionError, ssl.SSLError)


@dataclass
class Certificates:
    authority: trustme.CA
    options: str
    """Lines of configuration: where the server's own certificate is and whom it trusts."""

    def context(self, client: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if client is not None:
            client.configure_cert(context)
        return context

    def client(self, name: str = USER) -> trustme.LeafCert:
        return self.authority.issue_cert("client.example", common_name=name)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    place = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    server = authority.issue_cert("localhost", "127.0.0.1")
    files = {name: place / f"{name}.pem" for name in ("cacertfile", "certfile", "keyfile")}
    authority.cert_pem.write_to_path(str(files["cacertfile"]))
    server.cert_chain_pems[0].write_to_path(str(files["certfile"]))
    server.private_key_pem.write_to_path(str(files["keyfile"]))
    return Certificates(authority, "".join(f"ssl_options.{name} = {path}\n" for name, path in files.items()))


@dataclass
class TlsServer:
    process: ServerProcess
    port: int

    def connect(
        self, context: ssl.SSLContext, *, label: str = "tls", credentials: object = None, host: str = "localhost"
    ) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            self.port,
            ssl_options=pika.SSLOptions(context, host),
            credentials=credentials or pika.PlainCredentials("guest", "guest"),
            client_properties={"connection_name": label},
            socket_timeout=60,
            stack_timeout=60,
        )
        return pika.BlockingConnection(parameters)


def start(serve: Serve, certificates: Certificates, more: str = "") -> TlsServer:
    """The TLS listener opens behind the plain one: who comes too early is turned away for another reason than the one tested."""
    port = free_port()
    server = serve(f"listeners.ssl.1 = 127.0.0.1:{port}\n{certificates.options}{more}")
    eventually(lambda: f"listening for amqp/ssl at 127.0.0.1:{port}" in server.log())
    return TlsServer(server, port)


EXTERNAL = """
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_mechanisms.3 = EXTERNAL
ssl_cert_login_from = common_name
"""


def add_tls_user(server: TlsServer, name: str = USER) -> None:
    server.process.api("PUT", f"/api/users/{quote(name)}", {"password_hash": "", "tags": ""})
    server.process.grant("/", name)


def test_a_client_that_trusts_the_authority_talks_over_tls(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates)
    with server.connect(certificates.context(), label="trusting") as connection:
        channel = connection.channel()
        name = channel.queue_declare("", exclusive=True).method.queue
        body = bytes(range(256)) * 4096
        channel.confirm_delivery()
        channel.basic_publish("", name, body, mandatory=True)
        assert channel.basic_get(name, auto_ack=True)[2] == body
        row = row_of(server.process, "trusting")
        assert (row["ssl"], row["auth_mechanism"]) == (True, "PLAIN")
        assert row["ssl_protocol"].startswith("tlsv1.")


def test_a_plain_client_on_the_tls_port_and_a_tls_client_on_the_plain_port_are_turned_away(
    serve: Serve, certificates: Certificates
) -> None:
    server = start(serve, certificates)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port, socket_timeout=60))
    wrong = TlsServer(server.process, server.process.port)
    with pytest.raises(REFUSED):
        wrong.connect(certificates.context())
    assert "a client's TLS handshake failed ([SSL: WRONG_VERSION_NUMBER]" in server.process.log()
    with server.connect(certificates.context()) as connection:
        assert connection.channel().is_open


def test_a_client_that_does_not_trust_the_authority_goes_away(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates)
    with pytest.raises(REFUSED):
        server.connect(ssl.create_default_context())


def test_a_client_without_a_certificate_is_refused_where_one_is_required(
    serve: Serve, certificates: Certificates
) -> None:
    server = start(serve, certificates, EXTERNAL)
    with pytest.raises(REFUSED):
        server.connect(certificates.context())
    stranger = trustme.CA().issue_cert("client.example", common_name=USER)
    with pytest.raises(REFUSED):
        server.connect(certificates.context(stranger))
    with server.connect(certificates.context(certificates.client())) as connection:
        assert connection.channel().is_open


def test_a_certificate_is_a_login_with_sasl_external(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates, EXTERNAL)
    add_tls_user(server)
    context = certificates.context(certificates.client())
    with server.connect(context, label="external", credentials=pika.credentials.ExternalCredentials()):
        row = row_of(server.process, "external")
        assert (row["user"], row["auth_mechanism"], row["ssl"]) == (USER, "EXTERNAL", True)
        assert f"CN={USER}" in row["peer_cert_subject"]
        assert row["peer_cert_issuer"]


def test_the_whole_distinguished_name_is_the_login_unless_told_otherwise(
    serve: Serve, certificates: Certificates
) -> None:
    options = EXTERNAL.replace("ssl_cert_login_from = common_name\n", "")
    server = start(serve, certificates, options)
    leaf = certificates.client()
    subject = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).subject
    add_tls_user(server, subject.rfc4514_string())
    with server.connect(certificates.context(leaf), label="whole", credentials=pika.credentials.ExternalCredentials()):
        assert row_of(server.process, "whole")["user"] == subject.rfc4514_string()


def test_a_certificate_of_nobody_known_is_refused_with_sasl_external(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates, EXTERNAL)
    context = certificates.context(certificates.client("nobody"))
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="ACCESS_REFUSED") as raised:
        server.connect(context, credentials=pika.credentials.ExternalCredentials())
    assert "Login was refused using authentication mechanism EXTERNAL" in str(raised.value)


def test_external_is_not_offered_without_tls(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates, EXTERNAL)
    parameters = pika.ConnectionParameters(
        server.process.host, server.process.port, credentials=pika.credentials.ExternalCredentials()
    )
    with pytest.raises(pika.exceptions.AuthenticationError):
        pika.BlockingConnection(parameters)


def test_close_ok_arrives_over_tls_though_publishes_follow_the_close(serve: Serve, certificates: Certificates) -> None:
    server = start(serve, certificates)
    published = method_frame(1, spec.Basic.Publish(0, "", "nowhere")) + content_frames(1, b"x" * 1000)
    close = method_frame(0, spec.Connection.Close(200, "bye", 0, 0))
    for _ in range(20):
        client = RawClient("127.0.0.1", server.port)
        client.socket = certificates.context().wrap_socket(client.socket, server_hostname="localhost")
        client.handshake()
        client.open_channel(1)
        client.send(published * 20 + close + published * 2000)
        client.expect(spec.Connection.CloseOk, 0)
        client.send(published * 4000)
        client.close()
