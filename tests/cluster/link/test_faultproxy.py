"""The line of the tests itself: what it holds arrives later and whole, what it cuts is gone."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator

import pytest

from faultproxy import DOWN, UP, FaultProxy, ThreadedFaultProxy

QUIET = 0.3


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that repeats what it hears."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        yield listener.getsockname()
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_repeat, args=(client,), daemon=True).start()


def _repeat(client: socket.socket) -> None:
    with client:
        try:
            while data := client.recv(65536):
                client.sendall(data)
        except OSError:
            return


def dial(line: ThreadedFaultProxy) -> socket.socket:
    return socket.create_connection(line.address, timeout=60)


def hears_nothing(client: socket.socket) -> bool:
    client.settimeout(QUIET)
    try:
        return client.recv(100) is None
    except TimeoutError:
        return True
    finally:
        client.settimeout(60)


def is_broken(client: socket.socket) -> bool:
    try:
        client.sendall(b"?")
        return client.recv(100) == b""
    except OSError:
        return True


def test_a_healthy_line_forwards(echo: tuple[str, int]) -> None:
    with ThreadedFaultProxy(echo) as line, dial(line) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


@pytest.mark.parametrize("directions", [(UP,), (DOWN,), (UP, DOWN)])
def test_what_is_held_arrives_when_the_line_heals(echo: tuple[str, int], directions: tuple[str, ...]) -> None:
    with ThreadedFaultProxy(echo) as line, dial(line) as client:
        line.hold(*directions)
        client.sendall(b"held")
        assert hears_nothing(client)
        line.heal()
        assert client.recv(100) == b"held"


def test_a_new_connection_into_a_black_hole_gets_no_answer_until_it_heals(echo: tuple[str, int]) -> None:
    with ThreadedFaultProxy(echo) as line:
        line.blackhole()
        with dial(line) as client:
            client.sendall(b"anyone?")
            assert hears_nothing(client)
            line.heal()
            assert client.recv(100) == b"anyone?"


def test_a_cut_breaks_old_and_new_connections_until_it_heals(echo: tuple[str, int]) -> None:
    with ThreadedFaultProxy(echo) as line:
        with dial(line) as client:
            line.cut()
            assert is_broken(client)
        with dial(line) as client:
            assert is_broken(client)
        line.heal()
        with dial(line) as client:
            client.sendall(b"again")
            assert client.recv(100) == b"again"


def test_a_reset_breaks_only_what_is_there(echo: tuple[str, int]) -> None:
    with ThreadedFaultProxy(echo) as line:
        with dial(line) as client:
            client.sendall(b"1")
            assert client.recv(100) == b"1"
            line.reset()
            assert is_broken(client)
        with dial(line) as client:
            client.sendall(b"2")
            assert client.recv(100) == b"2"


@pytest.mark.parametrize("turns", range(6))
def test_what_was_just_accepted_ends_with_it(echo: tuple[str, int], turns: int) -> None:
    """Whoever dials when it stops, at whatever step: sockets left open would be told of at the end of the test."""

    async def dial_and_stop() -> None:
        async with FaultProxy(echo) as line:
            clients = [socket.create_connection(line.address) for _ in range(5)]
            for _ in range(turns):
                await asyncio.sleep(0)
        for client in clients:
            client.settimeout(10)
            assert ended(client)
            client.close()

    asyncio.run(dial_and_stop())
    gc.collect()


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True
