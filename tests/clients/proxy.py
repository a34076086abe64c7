"""A load balancer of the tests: forwards to a server, each connection with a PROXY protocol header in front."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from ipaddress import ip_address

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def version_1(source: str, source_port: int, target: str, target_port: int) -> bytes:
    family = "TCP6" if ":" in source else "TCP4"
    return f"PROXY {family} {source} {target} {source_port} {target_port}\r\n".encode()


def version_2(source: str, source_port: int, target: str, target_port: int, *, extra: bytes = b"") -> bytes:
    family = 0x21 if ":" in source else 0x11
    addresses = ip_address(source).packed + ip_address(target).packed + struct.pack(">HH", source_port, target_port)
    return SIGNATURE + struct.pack(">BBH", 0x21, family, len(addresses + extra)) + addresses + extra


def local_version_2() -> bytes:
    """What a balancer sends for a connection of its own, such as a health check: it names no addresses."""
    return SIGNATURE + struct.pack(">BBH", 0x20, 0x00, 0)


@contextlib.contextmanager
def forwarding(port: int, header: bytes, *, host: str = "127.0.0.1", coalesced: bool = False) -> Iterator[int]:
    """The port of a balancer in front of `port` at `host`, for as long as the block lasts.

    The header is sent in pieces, or `coalesced`, together with the first bytes of the client.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, (host, port), header, coalesced), daemon=True).start()
        yield listener.getsockname()[1]
        # accept() in the other thread does not notice close(), but does notice shutdown()
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, target: tuple[str, int], header: bytes, coalesced: bool) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(target)
            if coalesced:
                server.sendall(header + client.recv(65536))
            else:  # in two pieces: the server must wait for the rest of a header
                server.sendall(header[:9])
                server.sendall(header[9:])
            ends = [threading.Thread(target=_copy, args=pair) for pair in ((client, server), (server, client))]
            for end in ends:
                end.start()
            threading.Thread(target=_close, args=(ends, client, server)).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _close(ends: list[threading.Thread], *sockets: socket.socket) -> None:
    for end in ends:
        end.join()
    for each in sockets:
        each.close()
