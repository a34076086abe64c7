"""A connection's way out: frames are gathered and leave once a turn.

What the socket does not take holds up deliveries; and when much else waits (answers, returns), it holds up the input that makes
it: a client that does not read is not read either.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.peer import Transport
from mirrormq.wire.methods import Method

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


OUT_LIMIT: Final = 4 << 20
MANY_SMALL: Final = 4 << 10         # output whose pieces are smaller on average is joined
LARGE: Final = 16 << 10             # a piece from this size on is not copied again


class Outlet:
    def __init__(self, broker: Broker, transport: Transport) -> None:
        self.broker: Broker = broker
        self.transport: Transport = transport
        self.out: list[bytes] = []
        self.out_size: i64 = 0
        self.is_dirty: bool = False
        self.is_full: bool = False
        self.is_choked: bool = False    # the socket takes no more for now
        self.is_stalled: bool = False   # more than OUT_LIMIT waits: no input is handled
        self.is_blocked: bool = False   # an alarm or a busy disk: no input is wanted
        self.is_held: bool = False      # a node that it publishes to is behind: no input is wanted
        self.is_reading: bool = True
        self.is_over: bool = False      # the transport is closed when the last bytes have been written
        self.lingers: bool = False      # and not before the peer could read them
        self.last_sent: i64 = broker.now
        self.sent_bytes: i64 = 0
        self.sent_count: i64 = 0

    def wake_queues(self) -> None:
        """Let every queue that has something for this connection go on."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Handle the input that waited for the output to leave."""
        raise NotImplementedError

    def put(self, data: bytes) -> None:
        self.out.append(data)
        self.out_size += len(data)
        if not self.is_dirty:
            self.mark_dirty()

    def mark_dirty(self) -> None:
        self.is_dirty = True
        self.broker.dirty.append(self)

    def send(self, method: Method) -> None:
        """A method on channel 0."""
        payload = method.encode()
        self.put(b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce")

    def flush(self) -> None:
        """Write what was gathered; called once a turn. While the socket takes no more it stays here, where it is counted."""
        self.is_dirty = False
        if self.is_choked and not self.is_over:
            if self.out_size > OUT_LIMIT:
                self.stall()
            return
        out = self.out
        if out:
            self.out = []
            self.sent_bytes += self.out_size
            self.sent_count += 1
            self.last_sent = self.broker.now
            if self.out_size > MANY_SMALL * len(out):
                self.transport.write_all(gathered(out))
            else:
                self.transport.write(out[0] if len(out) == 1 else b"".join(out))
            self.out_size = 0
        if self.is_stalled and not self.is_choked:
            self.broker.go_on_later(self)
        if self.is_full and not self.is_choked:
            self.is_full = False
            self.wake_queues()
        if self.is_over:
            if self.lingers:
                self.transport.linger()
            else:
                self.transport.close()

    def choke(self) -> None:
        self.is_choked = True
        self.is_full = True

    def relax(self) -> None:
        self.is_choked = False
        self.is_full = self.out_size > 0
        if not self.is_full:
            self.wake_queues()
        if not self.is_dirty and (self.is_full or self.is_stalled):
            self.mark_dirty()

    def stall(self) -> None:
        self.is_stalled = True
        self.mind_reading()

    def hold(self, *, is_held: bool) -> None:
        """It publishes faster than another node takes it, or does not any more."""
        if not self.is_over:
            self.is_held = is_held
            self.mind_reading()

    def mind_reading(self) -> None:
        """Read from the socket, or stop reading, as there are reasons to."""
        reads = not self.is_blocked and not self.is_stalled and not self.is_held
        if reads != self.is_reading:
            self.is_reading = reads
            if reads:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()


def gathered(out: list[bytes]) -> list[bytes]:
    """The same bytes in fewer pieces: small ones are joined, large ones are as they were."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for piece in out:
        if len(piece) < LARGE:
            small.append(piece)
            continue
        if small:
            pieces.append(b"".join(small))
            small = []
        pieces.append(piece)
    if small:
        pieces.append(b"".join(small))
    return pieces
