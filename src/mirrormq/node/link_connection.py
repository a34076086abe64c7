"""One socket of a link, from connect or accept to its end: the handshake, then the session. What it is for, its handler knows.

Rules:

- The handler hears `established` at most once and `ended` exactly once.
- Nothing waits in the transport beyond its high mark: what a full socket does not take stays in the lanes, where
  priorities hold.
- Output is written once per turn of the loop: whoever has some calls `touch`, and `Flusher` writes for all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol, cast

from mirrormq.cluster.link import (
    LANES,
    Acceptor,
    Dialler,
    Frame,
    HandshakeFailed,
    Introduction,
    LinkError,
    LinkSession,
    Refused,
    Terms,
    WrongSecret,
    deadlines,
)
from mirrormq.cluster.link.handshake import NOT_KNOWN
from mirrormq.node.link_sockets import describe, tune

WRITE_HIGH: Final = 1 << 20
WRITE_LOW: Final = 1 << 18
WRITE_MOST: Final = WRITE_HIGH + 1


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Handler(Protocol):
    """What a connection is for."""

    def introduced(self, connection: LinkConnection, peer: Introduction) -> str:
        """Who was accepted says who it is: an empty text lets it in, a sentence refuses it."""

    def established(self, connection: LinkConnection) -> None: ...

    def frames(self, connection: LinkConnection, frames: list[Frame]) -> None: ...

    def drained(self, connection: LinkConnection, lane: int) -> None: ...

    def ended(self, connection: LinkConnection, error: LinkError) -> None: ...


class Flusher:
    """Writes what the connections gathered, once per turn: when told, or by itself at the end of the loop's turn."""

    def __init__(self) -> None:
        self._touched: list[LinkConnection] = []
        self._is_scheduled = False

    def touch(self, connection: LinkConnection) -> None:
        self._touched.append(connection)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_at_end)

    def flush(self) -> None:
        touched, self._touched = self._touched, []
        for connection in touched:
            connection.flush()

    def _flush_at_end(self) -> None:
        self._is_scheduled = False
        self.flush()


class LinkConnection(asyncio.Protocol):
    def __init__(self, shake: Dialler | Acceptor, handler: Handler, flusher: Flusher, terms: Terms) -> None:
        self.handler = handler
        self.session: LinkSession | None = None
        self.peer: Introduction | None = None
        self.me: Callable[[], Introduction] | None = None
        self.is_over = False
        self.received_bytes = 0
        self.sent_bytes = 0
        self._shake = shake
        self._flusher = flusher
        self._terms = terms
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._is_touched = False

    @property
    def address(self) -> str:
        there = self._transport.get_extra_info("peername") if self._transport is not None else None
        return f"{there[0]}:{there[1]}" if there else "an unknown address"

    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The addresses of this side and of the other."""
        return self._end_of("sockname"), self._end_of("peername")

    def _end_of(self, side: str) -> tuple[str, int]:
        found = self._transport.get_extra_info(side) if self._transport is not None else None
        return (str(found[0]), int(found[1])) if found else ("", 0)

    # From the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses of asyncio's
        self._transport = stream
        if self.is_over:
            stream.abort()
            return
        tune(stream)
        stream.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        if isinstance(self._shake, Dialler):
            stream.write(self._shake.hello)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        if self.is_over:
            return
        try:
            if self.session is None:
                self._shake_hands(data)
            else:
                self._work(self.session, data)
        except WrongSecret as error:
            self._turn_away(error)
        except LinkError as error:
            self.fail(error)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(self._loss(exc))

    def _loss(self, exc: Exception | None) -> LinkError:
        how = f"the connection broke: {describe(exc)}" if exc else "the other side closed the connection"
        if self.session is not None:
            return LinkError(how)
        return HandshakeFailed(f"{how} during the handshake")

    # The handshake

    def _shake_hands(self, data: bytes) -> None:
        shake = self._shake
        answer = shake.receive(data)
        if answer:
            self._write(answer)
        if isinstance(shake, Acceptor):
            if shake.peer is not None:
                self._judge(shake, shake.peer)
        elif shake.is_done:
            assert shake.peer is not None
            self._open(shake.peer)
            if shake.rest and self.session is not None:
                self._work(self.session, shake.rest)

    def _judge(self, shake: Acceptor, peer: Introduction) -> None:
        assert self.me is not None
        refusal = self.handler.introduced(self, peer)
        if refusal:
            self._write(shake.refuse(refusal))
            self._close_softly()
            self._end(Refused(refusal))
            return
        self._write(shake.welcome(self.me()))
        self._open(peer)

    def _turn_away(self, error: WrongSecret) -> None:
        """Who dials must hear that it is the secret: a connection that just ends may have broken."""
        if isinstance(self._shake, Acceptor):
            self._write(NOT_KNOWN)
            self._close_softly()
            self._end(error)
        else:
            self.fail(error)

    def _open(self, peer: Introduction) -> None:
        self.peer = peer
        self.session = LinkSession(self._terms, now_ms())
        self.touch()
        self.handler.established(self)

    # The session

    def _work(self, session: LinkSession, data: bytes) -> None:
        frames = session.receive(data, now_ms())
        if frames:
            self.handler.frames(self, frames)
        if session.farewell and not self.is_over:
            self.fail(LinkError(session.farewell))
        elif session.has_output():
            self.touch()

    def touch(self) -> None:
        """There is something to write."""
        if not self._is_touched and not self._is_paused:
            self._is_touched = True
            self._flusher.touch(self)

    def flush(self) -> None:
        self._is_touched = False
        session = self.session
        if session is None or self.is_over or self._is_paused:
            return
        self._write(session.data_to_send(WRITE_MOST))
        for lane in range(len(LANES)):
            if session.drained(lane):
                asyncio.get_running_loop().call_soon(self._drained, lane)
        if session.has_output():
            self.touch()

    def _drained(self, lane: int) -> None:
        if not self.is_over:
            self.handler.drained(self, lane)

    def tick(self, now: int) -> None:
        session = self.session
        if session is None or self.is_over:
            return
        try:
            session.tick(now)
        except LinkError as error:
            self.fail(error)
            return
        if session.has_output():
            self.touch()

    # The end

    def fail(self, error: LinkError) -> None:
        """Ends at once; nothing more is written."""
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    def close(self, sentence: str) -> None:
        """Ends with last words. The handler hears of it in the loop's next turn, not inside this call."""
        if self.is_over:
            return
        if self.session is not None and not self._is_paused:
            self._write(self.session.data_to_send(WRITE_MOST) + self.session.goodbye(sentence))
        self._close_softly()
        self.is_over = True
        asyncio.get_running_loop().call_soon(self.handler.ended, self, LinkError(sentence))

    def _close_softly(self) -> None:
        if self._transport is not None:
            self._transport.close()
            asyncio.get_running_loop().call_later(deadlines.GOODBYE, self._transport.abort)

    def _end(self, error: LinkError) -> None:
        if not self.is_over:
            self.is_over = True
            self.handler.ended(self, error)

    def _write(self, data: bytes) -> None:
        if data and self._transport is not None and not self._transport.is_closing():
            self.sent_bytes += len(data)
            self._transport.write(data)
