"""The door of a node's links: whoever connects waits here until it has proved that it knows the secret.

Rules:

- A stranger costs a socket and a few hundred bytes, for at most HANDSHAKE seconds; TLS happens inside that time.
- At most GUESTS wait at once. When one more comes, the host with the most of them loses its oldest: a flood from one host
  does not keep out the others, and a peer from the same host is through in milliseconds.
- The log hears of strangers at most once in QUIET seconds.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

from mirrormq.cluster.link import HandshakeFailed, LinkError, deadlines
from mirrormq.node.link_connection import LinkConnection, now_ms
from mirrormq.node.link_sockets import describe, listen

GUESTS: Final = 256
AT_ONCE: Final = 64
"""So many are accepted in one turn of the loop, which has other work too."""
QUIET: Final = 10.0
NO_SOCKETS: Final = 1.0
"""Without file descriptors, accepting pauses this long."""

Report = Callable[[str, str], None]
"""A level (`info`, `warning`, `error`) and a sentence."""


class Guest:
    """A connection whose handshake goes on."""

    def __init__(self, host: str, connection: LinkConnection) -> None:
        self.host = host
        self.connection = connection
        self.task: asyncio.Task[None] | None = None
        self.deadline: asyncio.TimerHandle | None = None


class Door:
    def __init__(
        self,
        welcome: Callable[[], LinkConnection],
        tls: ssl.SSLContext | None,
        report: Report,
        patience: float = deadlines.HANDSHAKE,
        most: int = GUESTS,
    ) -> None:
        self._welcome = welcome
        self._tls = tls
        self._report = report
        self._patience = patience
        self._most = most
        self._sockets: list[socket.socket] = []
        self._guests: dict[LinkConnection, Guest] = {}
        self._hosts: dict[str, dict[Guest, None]] = {}
        self._spoke = -QUIET * 1000
        self._unsaid = 0
        self._is_open = False

    @property
    def port(self) -> int:
        assert self._sockets, "the door is not open"
        return int(self._sockets[0].getsockname()[1])

    def __len__(self) -> int:
        return len(self._guests)

    async def open(self, host: str, port: int) -> None:
        self._sockets = await listen(host, port)
        self._is_open = True
        self._watch()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._ignore()
            for sock in self._sockets:
                sock.close()
        for guest in list(self._guests.values()):
            self._turn_away(guest, HandshakeFailed("this node is stopping"))

    def leave(self, connection: LinkConnection) -> None:
        """The connection's handshake is over, either way."""
        guest = self._guests.pop(connection, None)
        if guest is None:
            return
        company = self._hosts[guest.host]
        del company[guest]
        if not company:
            del self._hosts[guest.host]
        if guest.deadline is not None:
            guest.deadline.cancel()

    def complain(self, connection: LinkConnection, error: LinkError) -> None:
        """Says why a stranger was turned away; the second and later ones of a crowd are only counted."""
        now = now_ms()
        if now - self._spoke < QUIET * 1000:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more like it)" if self._unsaid else ""
        self._spoke, self._unsaid = now, 0
        self._report("warning", f"a link from {connection.address} was turned away: {error}{more}")

    # Accepting

    def _watch(self) -> None:
        if self._is_open:
            for sock in self._sockets:
                asyncio.get_running_loop().add_reader(sock, self._accept, sock)

    def _ignore(self) -> None:
        for sock in self._sockets:
            asyncio.get_running_loop().remove_reader(sock)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, address = listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                return
            except OSError as error:
                self._pause(error)
                return
            self._admit(sock, str(address[0]))

    def _pause(self, error: OSError) -> None:
        # A listener that cannot accept stays readable: without the pause the loop would spin.
        self._report("error", f"links cannot be accepted for now: {describe(error)}")
        self._ignore()
        asyncio.get_running_loop().call_later(NO_SOCKETS, self._watch)

    def _admit(self, sock: socket.socket, host: str) -> None:
        if len(self._guests) >= self._most:
            self._make_room()
        sock.settimeout(0)
        loop = asyncio.get_running_loop()
        guest = Guest(host, self._welcome())
        self._guests[guest.connection] = guest
        self._hosts.setdefault(host, {})[guest] = None
        guest.deadline = loop.call_later(self._patience, self._turn_away, guest, HandshakeFailed("the handshake took too long"))
        guest.task = loop.create_task(self._take_in(guest, sock))
        guest.task.add_done_callback(partial(_let_go, sock))

    def _make_room(self) -> None:
        crowd = max(self._hosts.values(), key=len)
        self._turn_away(next(iter(crowd)), HandshakeFailed("too many others are waiting"))

    def _turn_away(self, guest: Guest, error: LinkError) -> None:
        self.leave(guest.connection)
        if guest.task is not None:
            guest.task.cancel()
        guest.connection.fail(error)

    async def _take_in(self, guest: Guest, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        patience = self._patience if self._tls is not None else None
        try:
            await loop.connect_accepted_socket(
                lambda: guest.connection, sock, ssl=self._tls, ssl_handshake_timeout=patience
            )
        except (OSError, ssl.SSLError) as error:
            guest.connection.fail(HandshakeFailed(f"TLS failed: {describe(error)}"))
        finally:
            guest.task = None


def _let_go(sock: socket.socket, task: asyncio.Task[None]) -> None:
    """A task that was cancelled before its first step has not seen the socket."""
    if task.cancelled():
        sock.close()
