"""Where a broker is: `amqp://user:password@host:port/vhost?heartbeat=10` and `amqps://…?cacertfile=ca.pem&verify=verify_none`."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from mirrormq.cli.perf.errors import BadOption

PORTS = {"amqp": 5672, "amqps": 5671}


@dataclass(frozen=True)
class Address:
    """One broker, with the credentials for it."""

    host: str
    port: int
    user: str
    password: str
    vhost: str
    tls: bool
    query: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'amqps' if self.tls else 'amqp'}://{host}:{self.port}"

    def parameter(self, name: str) -> str | None:
        """A parameter behind the question mark."""
        return dict(self.query).get(name)

    def ssl_context(self) -> ssl.SSLContext | None:
        """How to speak TLS with it: certificates from the parameters, the system's authorities otherwise."""
        if not self.tls:
            return None
        try:
            return self._context()
        except (OSError, ssl.SSLError) as error:
            raise BadOption(f"{self}: cannot use these certificates: {error}") from error

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.parameter("cacertfile"))
        if self.parameter("verify") == "verify_none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate = self.parameter("certfile")
        if certificate:
            context.load_cert_chain(certificate, self.parameter("keyfile"))
        return context


def parse_address(text: str) -> Address:
    """An AMQP URI. What it leaves out is guest, guest, localhost, the default port and the virtual host /."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
        (parts.hostname or "").encode("idna")       # as whoever looks it up does: a name with two dots in a row is none
    except ValueError as error:
        raise BadOption(f"{text!r} is no AMQP URI: {error}") from error
    if parts.scheme not in PORTS:
        raise BadOption(f"{text!r} is no AMQP URI: it should begin with amqp:// or amqps://")
    return Address(
        host=parts.hostname or "localhost",
        port=port or PORTS[parts.scheme],
        user=unquote(parts.username or "guest"),
        password=unquote("guest" if parts.password is None else parts.password),
        vhost=unquote(parts.path[1:]) or "/",
        tls=parts.scheme == "amqps",
        query=tuple((name, values[-1]) for name, values in parse_qs(parts.query).items()),
    )


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Several URIs, separated by commas."""
    return tuple(parse_address(part) for part in text.split(",") if part.strip())
