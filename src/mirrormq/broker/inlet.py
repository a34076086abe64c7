"""A connection's way in: bytes are cut into frames, and a publish takes the short way.

Rules
 1. Every complete frame of the bytes that came is handled in one loop. What is left is kept until the rest of it has come; only
    then are its pieces joined, so a frame that comes in many pieces is copied once.
 2. A publish whose content follows whole in the same bytes takes the short way, every other frame the table. Where only the end
    of the content is missing, and publishes of its kind were good before, it is waited for.
 3. Never are more bytes waited for than the frame that has begun still needs, or the head of the next one: what the peer waits
    for an answer to is always handled.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker.channel import Channel
from mirrormq.broker.outlet import OUT_LIMIT, Outlet
from mirrormq.broker.peer import Transport
from mirrormq.broker.route import Route
from mirrormq.wire.constants import FRAME_END, PROTOCOL_HEADER
from mirrormq.wire.errors import ChannelError, HardError, InternalError
from mirrormq.wire.faults import bad_frame_end, frame_too_large

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

EXPECTS_HEADER: Final = 0
EXPECTS_START_OK: Final = 1
EXPECTS_TUNE_OK: Final = 2
EXPECTS_OPEN: Final = 3
RUNNING: Final = 4
CLOSING: Final = 5
CLOSED: Final = 6
FEW: Final = 16                 # frames that had waited and are looked at first
OLDER_HEADERS: Final = (b"AMQP\x01\x01\x00\x09", b"AMQP\x01\x01\x08\x00")       # some clients still send these


class Inlet(Outlet):
    def __init__(self, broker: Broker, transport: Transport) -> None:
        super().__init__(broker, transport)
        self.state: i64 = EXPECTS_HEADER
        self.parts: list[bytes] = []    # input that is not handled yet: the beginning of a frame, or what a stall left over
        self.missing: i64 = 0           # at least so many bytes are needed before another look at it makes sense
        self.may_wait: bool = True      # for the rest of a publish, rather than handle it frame by frame
        self.next_at: i64 = 0
        self.current: i64 = 0           # channel and method of the frame in hand, for errors
        self.current_method: i64 = 0
        self.channels: dict[int, Channel] = {}
        self.routes: dict[bytes, Route] = {}
        self.frame_max: i64 = broker.limits.frame_max
        self.frame_limit: i64 = broker.limits.first_frame_max - 8       # of what comes in; a payload above it is refused
        self.is_publisher: bool = False
        self.last_received: i64 = broker.now
        self.received_bytes: i64 = 0
        self.received_count: i64 = 0

    def frame(self, kind: int, number: int, data: bytes, at: i64, after: i64) -> None:
        """Any frame that does not take the short way."""
        raise NotImplementedError

    def note_publisher(self) -> None:
        raise NotImplementedError

    def mind_congestion(self) -> None:
        """It may have published more than another node takes."""
        raise NotImplementedError

    def greet(self) -> None:
        """The client speaks our protocol."""
        raise NotImplementedError

    def refuse_stranger(self, data: bytes) -> None:
        """It does not."""
        raise NotImplementedError

    def keep_waiting(self, number: int, frames: list[bytes], at: int) -> bool:
        """Those from there on, if the channel has to wait again."""
        raise NotImplementedError

    def fail_channel(self, error: ChannelError) -> None:
        raise NotImplementedError

    def fail(self, error: HardError) -> None:
        raise NotImplementedError

    def end(self, reason: str, *, lingers: bool = True) -> None:
        raise NotImplementedError

    # --- bytes ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self.is_over:
            return
        self.last_received = self.broker.now
        self.received_bytes += len(data)
        self.received_count += 1
        if self.state == EXPECTS_HEADER:
            self._begin(data)
            return
        at: i64 = 0
        end: i64 = len(data)
        while self.missing and not self.is_stalled:
            if end - at < self.missing:
                self.parts.append(data[at:] if at else data)
                self.missing -= end - at
                return
            self.parts.append(data[at:at + self.missing])
            at += self.missing
            self.frames(self._take_parts(), 0)
        if at < end:
            self._take_in(data, at)

    def _take_in(self, data: bytes, at: i64) -> None:
        if self.is_stalled:
            self.parts.append(data[at:] if at else data)
        else:
            self.frames(data, at)

    def _begin(self, data: bytes) -> None:
        self.parts.append(data)
        data = self._take_parts()
        if len(data) < 8 and data[:4] == b"AMQP"[:len(data)]:
            self.parts.append(data)
        elif data[:8] != PROTOCOL_HEADER and data[:8] not in OLDER_HEADERS:
            self.put(PROTOCOL_HEADER)
            self.refuse_stranger(data)
        else:
            self.greet()
            self.frames(data, 8)

    def _take_parts(self) -> bytes:
        parts = self.parts
        self.parts = []
        self.missing = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def go_on(self) -> None:
        data = self._take_parts()
        self.is_stalled = False
        self.mind_reading()
        if data and not self.is_over:
            self.frames(data, 0)

    def replay(self, number: int, waiting: list[bytes]) -> None:
        """Frames of one channel that had to wait. What follows them in the stream may be another channel's. Only a few at first:
        one of them may have to wait again, and each that came with it would be looked at for nothing."""
        parts, missing = self.parts, self.missing
        self.parts = []
        self.missing = 0
        self.may_wait = False
        at = 0
        few = FEW
        while at < len(waiting) and not self.is_over and not self.is_stalled and not self.keep_waiting(number, waiting, at):
            self.frames(b"".join(waiting[at:at + few]), 0)
            at += few
            few *= 2
        self.may_wait = True
        if self.is_stalled:
            self.parts += waiting[at:]
        if self.parts:                  # a stall left them over; they are whole, and come first
            self.parts += parts
        else:
            self.parts = parts
            self.missing = missing

    # --- frames -----------------------------------------------------------------------------------------------

    def frames(self, data: bytes, start: i64) -> None:
        self.broker.forwarding.congested = None         # dead letters are nobody's fault here
        self._frames(data, start)
        self.mind_congestion()

    def _frames(self, data: bytes, start: i64) -> None:
        at = start
        while not self.is_over:
            try:
                self._run(data, at)
                return
            except ChannelError as soft:
                at = self.next_at
                self.fail_channel(soft)
            except HardError as hard:
                at = self.next_at
                self.fail(hard)
                if at == 0:
                    return
            except Exception as fault:  # noqa: BLE001 - a fault of ours must close one connection, not all
                self.broker.report_fault(fault)
                self.fail(InternalError("the broker met a fault of its own; see its log"))
                return

    def _run(self, data: bytes, start: i64) -> None:
        at = start
        end: i64 = len(data)
        missing: i64 = 0
        while end - at >= 7:
            size: i64 = data[at + 3] << 24 | data[at + 4] << 16 | data[at + 5] << 8 | data[at + 6]
            if size > self.frame_limit:
                self._forget_frame()
                raise frame_too_large(data[at], size, self.frame_max or self.frame_limit)
            after: i64 = at + size + 8
            if after > end:
                missing = after - end
                break
            if data[after - 1] != FRAME_END:
                self._forget_frame()
                raise bad_frame_end(data[at], data[at + 7:after - 1], data[after - 1])
            self.next_at = after
            number: i64 = data[at + 1] << 8 | data[at + 2]
            if size > 8 and data[at] == 1 and data[at + 8] == 60 and data[at + 10] == 40 and data[at + 9] == 0 \
                    and data[at + 7] == 0 and self.state == RUNNING:
                channel = self.channels.get(number)
                if channel is not None and not channel.is_closing and not channel.is_suspended and not channel.expects_header \
                        and channel.body_left == 0:
                    followed = self._publish(channel, data, at, after, end)
                    if followed > 0:
                        at = followed
                        if self.is_over:
                            return
                        continue
                    if followed < 0:
                        missing = -followed
                        break
            self.frame(data[at], number, data, at, after)
            if self.is_over:
                return
            at = after
            if self.out_size > OUT_LIMIT:
                self.stall()
                break
        if at < end:
            self.parts = [data[at:] if at else data]
            self.missing = 0 if self.is_stalled else missing or 8 - (end - at)

    def _forget_frame(self) -> None:
        """Where this frame ends nobody knows: nothing behind it can be read."""
        self.next_at = 0
        self.current = 0
        self.current_method = 0

    def _publish(self, channel: Channel, data: bytes, at: i64, head: i64, end: i64) -> i64:
        """The short way: header and body follow whole. Returns where they end, 0 if something else follows, or how many bytes
        are missing at least, as a negative number."""
        if end - head < 7:
            return self._wait(data, at, head, 8 - (end - head))
        if data[head] != 2 or data[head + 2] != data[at + 2] or data[head + 1] != data[at + 1]:
            return 0
        size: i64 = data[head + 3] << 24 | data[head + 4] << 16 | data[head + 5] << 8 | data[head + 6]
        body: i64 = head + size + 8
        if size < 14 or size > self.frame_limit:
            return 0
        if body > end:
            return self._wait(data, at, head, body - end)
        if data[body - 1] != FRAME_END or data[head + 8] != 60 or data[head + 7] or data[head + 9] or data[head + 10]:
            return 0
        if data[head + 11] or data[head + 12] or data[head + 13] or data[head + 14]:
            return 0
        length: i64 = data[head + 15] << 24 | data[head + 16] << 16 | data[head + 17] << 8 | data[head + 18]
        after = body
        if length:
            if length > self.frame_limit - 8 or length > self.broker.limits.max_message_size:
                return 0
            if end - body < 7:
                return self._wait(data, at, head, 8 - (end - body))
            size = data[body + 3] << 24 | data[body + 4] << 16 | data[body + 5] << 8 | data[body + 6]
            if size != length or data[body] != 3 or data[body + 2] != data[at + 2] or data[body + 1] != data[at + 1]:
                return 0
            after = body + length + 8
            if after > end:
                return self._wait(data, at, head, after - end)
            if data[after - 1] != FRAME_END:
                return 0
        self.next_at = after
        self.current = channel.number
        self.current_method = 60 << 16 | 40
        if not self.is_publisher:
            self.note_publisher()
        channel.publish(data[at + 7:head - 1], self.broker.infos.get(data[head + 19:body - 1]), data[head:after], length)
        return after

    def _wait(self, data: bytes, at: i64, head: i64, missing: i64) -> i64:
        """For the rest of a publish of a kind that was good before; of any other, each frame is judged when it comes."""
        return -missing if self.may_wait and data[at + 7:head - 1] in self.routes else 0
