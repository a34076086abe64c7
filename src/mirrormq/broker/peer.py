"""What a connection knows of the socket behind it."""
from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport:
    """The connection's way out, implemented by the node."""

    def write(self, data: bytes) -> None:
        raise NotImplementedError

    def write_all(self, pieces: list[bytes]) -> None:
        """One after another, without joining them first where that can be."""
        self.write(b"".join(pieces))

    def close(self) -> None:
        """Close after everything written has left."""
        raise NotImplementedError

    def linger(self) -> None:
        """Close when the peer has had the time to read everything. What it still sends is read and dropped: a socket that is
        closed with input unread resets its connection, and what is on its way to the peer is lost."""
        self.close()

    def pause_reading(self) -> None:
        raise NotImplementedError

    def resume_reading(self) -> None:
        raise NotImplementedError


class Peer:
    """Who is at the other end, as far as the transport knows."""

    def __init__(self, host: str, port: int, server_host: str, server_port: int, *, is_loopback: bool,
                 tls: dict[str, str] | None = None, certificate_name: str | None = None) -> None:
        self.host = host
        self.port = port
        self.server_host = server_host
        self.server_port = server_port
        self.is_loopback = is_loopback
        self.tls = tls
        self.certificate_name = certificate_name

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port} -> {_bracketed(self.server_host)}:{self.server_port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
