"""What hostile or broken peers do to a server over real sockets.

Each attack ends with the server closing the socket or with the attacker gone; none may make the server grow, stop it
from serving others, or leave a fault in its log.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from contextlib import suppress
from random import Random

from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import content_frames, frame
from mirrormq.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelOpen,
    ConfirmSelect,
    QueueDeclare,
    QueueDelete,
)
from mirrormq.wire.properties import Properties, encode_properties

from .handshake import LOGINS, open_vhost, tune_ok
from .judge import Judge
from .process import Server, read_to_the_end
from .scenario import Step, session
from .world import Violation

HANDSHAKE = PROTOCOL_HEADER + LOGINS[0] + tune_ok(2047, 131072) + open_vhost() + frame(1, 1, ChannelOpen().encode())
GIVE_UP = 60.0
MEBI = 1 << 20


def sequences(server: Server, seed: int, first: int, count: int, seen: Counter[str]) -> None:
    """Mutated sequences, one connection each; every answer is judged."""
    for number in range(first, first + count):
        rng = Random(seed << 32 | number)
        try:
            _one_sequence(server, session(rng, 0, 131072), seen)
        except Violation as fault:
            raise Violation(f"seed {seed} sequence {number}: {fault}") from fault


def _one_sequence(server: Server, steps: list[Step], seen: Counter[str]) -> None:
    judge = Judge(seen)
    with server.connect() as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for step in steps:
                if step.what == "feed":
                    peer.sendall(step.data)
            peer.shutdown(socket.SHUT_WR)
        except OSError:
            seen["the server closed first"] += 1
        judge.hear(read_to_the_end(peer))
    judge.finish()


def reset(server: Server, count: int) -> None:
    """Connections cut by a reset, in the handshake and in the middle of a message."""
    publish = frame(1, 1, BasicPublish("", "q").encode())
    for number in range(count):
        peer = server.connect()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.sendall((PROTOCOL_HEADER, PROTOCOL_HEADER[:5], HANDSHAKE, HANDSHAKE + publish)[number % 4])
        peer.close()


def half_open(server: Server, count: int) -> None:
    """Peers that send nothing more but listen on: the server ends it."""
    for number in range(count):
        with server.connect() as peer:
            peer.sendall((b"", b"AMQ", PROTOCOL_HEADER, HANDSHAKE[:100], HANDSHAKE)[number % 5])
            peer.shutdown(socket.SHUT_WR)
            read_to_the_end(peer, GIVE_UP)


def silent_crowd(server: Server, count: int) -> int:
    """Many peers who never log in. Returns the octets of memory that each of them cost."""
    before = server.resident()
    almost = frame(1, 0, b"\x00" * 4000)[:-1]
    words = (b"", b"A", PROTOCOL_HEADER, PROTOCOL_HEADER + almost, PROTOCOL_HEADER + b"\x01\x00\x00\x00\x00\x0f\xf8")
    peers: list[socket.socket] = []
    try:
        for number in range(count):
            peers.append(server.connect())
            peers[-1].sendall(words[number % len(words)])
        cost = server.resident() - before
        server.check_alive()
        server.wait_until_alone(GIVE_UP)
        return max(0, cost) // count
    finally:
        for peer in peers:
            peer.close()


def slow_handshake(server: Server) -> None:
    """A peer that logs in an octet at a time runs out of time."""
    with server.connect() as peer:
        peer.settimeout(0.05)
        for octet in HANDSHAKE:
            try:
                peer.sendall(bytes([octet]))
                if peer.recv(65536) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
        raise Violation("a handshake may take for ever")


def announced_sizes(server: Server) -> None:
    """Sizes that nobody will ever send cost nothing and are refused where they are too large."""
    before = server.resident()
    peers: list[socket.socket] = []
    for size in (2**32 - 1, 2**31, 131073, 131072, 5000, 4089):
        for start in (PROTOCOL_HEADER, HANDSHAKE):
            peers.append(server.connect())
            peers[-1].sendall(start + b"\x01\x00\x00" + size.to_bytes(4, "big") + b"\x00" * 8)
    for size in (2**64 - 1, 2**63, 134217729, 134217728):
        header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00"
        peers.append(server.connect())
        peers[-1].sendall(HANDSHAKE + frame(1, 1, BasicPublish("", "q").encode()) + frame(2, 1, header))
    server.check_alive()
    grown = server.resident() - before
    for peer in peers:
        peer.close()
    if grown > 8 * MEBI:
        raise Violation(f"announced sizes cost {grown} octets")


def noise_after_close(server: Server, mebibytes: int) -> None:
    """A peer that was told to go and sends on."""
    before = server.resident()
    with server.connect() as peer:
        peer.sendall(HANDSHAKE + b"\xff" * 100)
        with suppress(OSError):
            for _ in range(mebibytes):
                peer.sendall(b"\x01\x00\x00\x00\x01" * (MEBI // 5))
        if server.resident() - before > 32 * MEBI:
            raise Violation("noise after connection.close is kept")


def deaf_publisher(server: Server, mebibytes: int) -> int:
    """A publisher that never reads what is returned to it. Returns how much the server grew."""
    body = b"x" * 100_000
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    publish = frame(1, 1, BasicPublish("", "nobody", mandatory=True).encode()) + frame(2, 1, header) + frame(3, 1, body)
    return _deaf(server, publish, mebibytes)


def deaf_asker(server: Server, mebibytes: int) -> int:
    """A client that asks without listening to the answers."""
    start = frame(1, 1, QueueDeclare("asked", exclusive=True).encode())
    return _deaf(server, frame(1, 1, BasicGet("asked").encode()) * 1000, mebibytes, start)


def deaf_consumer(server: Server, mebibytes: int) -> int:
    """A consumer that is sent more than it reads, by its own doing."""
    body = b"x" * 100_000
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    publish = frame(1, 1, BasicPublish("", "deaf").encode()) + frame(2, 1, header) + frame(3, 1, body)
    start = QueueDeclare("deaf", exclusive=True, arguments={"x-max-length": 100})
    words = frame(1, 1, start.encode()) + frame(1, 1, BasicConsume("deaf", "t", no_ack=True).encode())
    return _deaf(server, publish, mebibytes, words)


def _deaf(server: Server, words: bytes, mebibytes: int, start: bytes = b"") -> int:
    before = server.resident()
    with server.connect(timeout=3.0) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(HANDSHAKE + start)
        sent = 0
        with suppress(TimeoutError):  # the server reads no more from a peer that does not read: well done
            while sent < mebibytes * MEBI:
                peer.sendall(words)
                sent += len(words)
        grown = server.resident() - before
    return max(0, grown)


def deaf_and_silent(server: Server) -> None:
    """A peer that neither reads nor sends is given up, with all that waits for it."""
    body = b"x" * 100_000
    header = b"\x00\x3c\x00\x00" + len(body).to_bytes(8, "big") + b"\x00\x00"
    publish = frame(1, 1, BasicPublish("", "nobody", mandatory=True).encode()) + frame(2, 1, header) + frame(3, 1, body)
    start = PROTOCOL_HEADER + LOGINS[0] + tune_ok(2047, 131072, 1) + open_vhost() + frame(1, 1, ChannelOpen().encode())
    with server.connect(timeout=1.0) as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.sendall(start)
        with suppress(TimeoutError):
            for _ in range(300):
                peer.sendall(publish)
        server.wait_until_alone(GIVE_UP)


def names_for_the_log(server: Server) -> None:
    """Names that are no text, and names that look like lines of the log."""
    publish = frame(1, 1, BasicPublish("", "q").encode())
    with server.connect() as peer:
        user = encode_properties(Properties(user_id="\udcff\nforged line"))
        peer.sendall(HANDSHAKE + publish + content_frames(1, user, b"x", 131072))
        peer.shutdown(socket.SHUT_WR)
        read_to_the_end(peer)
    log = server.log()
    if "forged line" not in log or "\nforged line" in log:
        raise Violation("a client can write lines of its own into the log")


def many_channels(server: Server) -> None:
    """As many channels as there can be, and one more, each in confirm mode with a queue."""
    with server.connect() as peer:
        words = [PROTOCOL_HEADER, LOGINS[0], tune_ok(2047, 131072), open_vhost()]
        for number in range(1, 2049):
            words += [frame(1, number, ChannelOpen().encode()), frame(1, number, ConfirmSelect().encode())]
        words += [frame(1, 7, QueueDelete("none").encode())]
        peer.sendall(b"".join(words))
        peer.shutdown(socket.SHUT_WR)
        said = read_to_the_end(peer)
        if b"has reached the negotiated channel_max (2047)" not in said:
            raise Violation("more channels than agreed can be opened")
