"""A client's connection: frames in, frames out, from the protocol header to the last close-ok.

Rules
 1. `receive` handles every complete frame of the bytes it gets in one loop; a publish whose content follows whole in the same
    bytes takes the short way, every other frame the table.
 2. Output is gathered in `out` and leaves once a turn.
 3. A soft error closes the channel and the loop goes on behind the guilty frame; a hard error closes the connection, after which
    only close and close-ok are understood.
 4. Before authentication a peer holds next to nothing: frames are small, nothing is kept but the frame being read.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker import content, strays
from mirrormq.broker.auth import User
from mirrormq.broker.channel import Channel
from mirrormq.broker.host import UNLIMITED
from mirrormq.broker.outlet import OUT_LIMIT, Outlet
from mirrormq.broker.peer import Peer, Transport
from mirrormq.broker.route import Route
from mirrormq.wire.constants import FRAME_END, PROTOCOL_HEADER
from mirrormq.wire.errors import (
    AMQPError,
    ChannelError,
    HardError,
    InternalError,
    NotAllowed,
    PreconditionFailed,
)
from mirrormq.wire.faults import bad_frame_end, frame_too_large, unknown_frame
from mirrormq.wire.methods import (
    ChannelClose,
    ConnectionClose,
    decode_method,
)
from mirrormq.wire.table import Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.queue import Queue
    from mirrormq.broker.vhost import VirtualHost

EXPECTS_HEADER: Final = 0
EXPECTS_START_OK: Final = 1
EXPECTS_TUNE_OK: Final = 2
EXPECTS_OPEN: Final = 3
RUNNING: Final = 4
CLOSING: Final = 5
CLOSED: Final = 6
STATES: Final = ("starting", "starting", "tuning", "opening", "running", "closing", "closed")
ROUTES_KEPT: Final = 4096
INBOX_LIMIT: Final = 1 << 20
FRAME_COST: Final = 100         # of a small frame that waits, beside its bytes
OLDER_HEADERS: Final = (b"AMQP\x01\x01\x00\x09", b"AMQP\x01\x01\x08\x00")       # some clients still send these


class Connection(Outlet):
    def __init__(self, broker: Broker, transport: Transport, peer: Peer) -> None:
        super().__init__(broker, transport)
        self.peer: Peer = peer
        self.name: str = str(peer)
        self.state: i64 = EXPECTS_HEADER
        self.pending: bytes = b""
        self.next_at: i64 = 0
        self.current: i64 = 0           # channel and method of the frame in hand, for errors
        self.current_method: i64 = 0
        self.channels: dict[int, Channel] = {}
        self.user: User | None = None
        self.vhost: VirtualHost | None = None
        self.mechanism: str = ""
        self.client_properties: dict[str, Value] = {}
        self.capabilities: dict[str, Value] = {}
        self.channel_max: i64 = broker.limits.channel_max
        self.frame_max: i64 = broker.limits.frame_max
        self.frame_limit: i64 = broker.limits.first_frame_max - 8       # of what comes in; a payload above it is refused
        self.largest: i64 = UNLIMITED   # content of more bytes may have frames that the client does not take
        self.heartbeat: i64 = 0
        self.routes: dict[bytes, Route] = {}
        self.exclusive_queues: list[Queue] = []
        self.is_publisher: bool = False
        self.is_released: bool = False
        self.blocked_told: bool = False
        self.connected_at: i64 = broker.now
        self.last_received: i64 = broker.now
        self.received_bytes: i64 = 0
        self.received_count: i64 = 0
        self.end_reason: str = ""
        self.last_error: AMQPError | None = None

    # --- bytes in ---------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if self.is_over:
            return
        self.last_received = self.broker.now
        self.received_bytes += len(data)
        self.received_count += 1
        if self.pending:
            data = self.pending + data
            self.pending = b""
        if self.is_stalled:
            self.pending = data
            return
        if self.state == EXPECTS_HEADER:
            if len(data) < 8 and data[:4] == b"AMQP"[:len(data)]:
                self.pending = data
                return
            if data[:8] != PROTOCOL_HEADER and data[:8] not in OLDER_HEADERS:
                self.refuse_protocol()
                return
            data = data[8:]
            self.broker.greet(self)
        self.frames(data)
        self.broker.forwarding.mind_congestion(self)

    def refuse_protocol(self) -> None:
        self.put(PROTOCOL_HEADER)
        self.end("the client does not speak AMQP 0-9-1")

    def frames(self, data: bytes) -> None:
        self.broker.forwarding.congested = None         # dead letters are nobody's fault here
        at: i64 = 0
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
        while end - at >= 7:
            size: i64 = data[at + 3] << 24 | data[at + 4] << 16 | data[at + 5] << 8 | data[at + 6]
            if size > self.frame_limit:
                self._forget_frame()
                raise frame_too_large(data[at], size, self.frame_max or self.frame_limit)
            after: i64 = at + size + 8
            if after > end:
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
                    if followed:
                        at = followed
                        if self.is_over:
                            return
                        continue
            self.frame(data[at], number, data, at, after)
            if self.is_over:
                return
            at = after
            if self.out_size > OUT_LIMIT:
                self.stall()
                break
        if at < end:
            self.pending = data[at:] if at else data

    def _forget_frame(self) -> None:
        """Where this frame ends nobody knows: nothing behind it can be read."""
        self.next_at = 0
        self.current = 0
        self.current_method = 0

    def _publish(self, channel: Channel, data: bytes, at: i64, head: i64, end: i64) -> i64:
        """The short way: header and body follow whole. Returns where they end, or 0 if they do not."""
        if end - head < 22 or data[head] != 2 or data[head + 2] != data[at + 2] or data[head + 1] != data[at + 1]:
            return 0
        size: i64 = data[head + 3] << 24 | data[head + 4] << 16 | data[head + 5] << 8 | data[head + 6]
        body: i64 = head + size + 8
        if size < 14 or size > self.frame_limit or body > end or data[body - 1] != FRAME_END or data[head + 8] != 60:
            return 0
        if data[head + 7] or data[head + 9] or data[head + 10]:
            return 0
        if data[head + 11] or data[head + 12] or data[head + 13] or data[head + 14]:
            return 0
        length: i64 = data[head + 15] << 24 | data[head + 16] << 16 | data[head + 17] << 8 | data[head + 18]
        after = body
        if length:
            if length > self.frame_limit - 8 or length > self.broker.limits.max_message_size:
                return 0
            if end - body < length + 8 or data[body] != 3 or data[body + 2] != data[at + 2] or data[body + 1] != data[at + 1]:
                return 0
            size = data[body + 3] << 24 | data[body + 4] << 16 | data[body + 5] << 8 | data[body + 6]
            after = body + length + 8
            if size != length or data[after - 1] != FRAME_END:
                return 0
        self.next_at = after
        self.current = channel.number
        self.current_method = 60 << 16 | 40
        if not self.is_publisher:
            self.broker.note_publisher(self)
        channel.publish(data[at + 7:head - 1], self.broker.infos.get(data[head + 19:body - 1]), data[head:after], length)
        return after

    def frame(self, kind: int, number: int, data: bytes, at: i64, after: i64) -> None:
        """Any frame that does not take the short way."""
        self.current = number
        self.current_method = 0
        if kind == 8:
            if number != 0:
                raise content.stray_frame(kind, data[at + 7:after - 1])
            if after - at != 8:
                raise unknown_frame(kind, data[at + 7:after - 1])
            return
        if self.state == CLOSING:
            strays.last_words(self, kind, number, data[at + 7:after - 1])
            return
        if number == 0:
            if kind != 1:
                payload = data[at + 7:after - 1]
                raise content.stray_frame(kind, payload) if kind in (2, 3) else unknown_frame(kind, payload)
            method = decode_method(data[at + 7:after - 1])
            self.current_method = method.id
            self.broker.on_connection_method(self, method)
            return
        if self.state != RUNNING:
            strays.too_early(self, kind, data[at + 7:after - 1], is_known=self.state >= EXPECTS_OPEN)
            return
        channel = self.channels.get(number)
        if channel is None:
            self._open(kind, number, data[at + 7:after - 1])
        elif channel.is_closing:
            strays.on_closing_channel(channel, kind, data[at + 7:after - 1])
        elif channel.is_suspended:
            self._keep_for_later(channel, data[at:after])
        elif kind == 1:
            self._method(channel, data[at + 7:after - 1])
        else:
            content.on_frame(channel, kind, data[at + 7:after - 1])

    def _method(self, channel: Channel, payload: bytes) -> None:
        if channel.expects_header or channel.body_left:
            raise content.unexpected_method(channel)
        method = decode_method(payload)
        self.current_method = method.id
        self.broker.on_channel_method(channel, method, payload)

    def _open(self, kind: int, number: int, payload: bytes) -> None:
        method = decode_method(payload) if kind == 1 else None
        if method is None or method.id != (20 << 16 | 10):
            raise content.no_such_channel(method)
        self.current_method = method.id
        self.broker.open_channel(self, number)

    def _keep_for_later(self, channel: Channel, frame: bytes) -> None:
        channel.inbox.append(frame)
        channel.inbox_size += len(frame) + FRAME_COST
        if channel.inbox_size > INBOX_LIMIT:
            self.broker.throttle(self)

    def resume_frames(self, data: bytes) -> None:
        """Frames of one channel that had to wait."""
        pending = self.pending
        self.pending = b""
        self.frames(data)
        self.pending += pending         # whole frames that a stall left over come first
        self.go_on_reading()
        self.broker.schedule()

    def go_on_reading(self) -> None:
        """A channel that kept too many frames waiting does not any more."""
        broker = self.broker
        broker.forwarding.mind_congestion(self)
        if self.is_blocked and not broker.alarms and not broker.is_busy:
            broker.relieve(self)

    # --- bytes out --------------------------------------------------------------------------------------------

    def go_on(self) -> None:
        data = self.pending
        self.pending = b""
        self.is_stalled = False
        self.mind_reading()
        if data and not self.is_over:
            self.frames(data)
            self.broker.forwarding.mind_congestion(self)

    def wake_queues(self) -> None:
        for channel in self.channels.values():
            channel.wake_queues()

    # --- errors and the end -------------------------------------------------------------------------------------

    def fail_channel(self, error: ChannelError) -> None:
        channel = self.channels.get(self.current)
        if channel is None or self.state != RUNNING:
            self.fail(NotAllowed(error.text, error.class_id, error.method_id))
            return
        self.last_error = error.with_traceback(None)        # or it would hold this connection in a circle
        self.broker.log_error(self, error, channel.number)
        class_id = error.class_id or self.current_method >> 16
        method_id = error.method_id or self.current_method & 0xFFFF
        channel.release()
        channel.is_closing = True
        channel.send(ChannelClose(error.code, error.reply_text, class_id, method_id))

    def time_out(self, channel: Channel, timeout: i64) -> None:
        self.current = channel.number
        self.current_method = 0
        self.fail_channel(PreconditionFailed(
            f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: {timeout} ms. This timeout "
            "value can be configured, see consumers doc guide to learn more"))

    def fail(self, error: HardError) -> None:
        """Say why, then wait for close-ok; a peer that never opened gets the same, or just the end."""
        if self.state == CLOSING or self.is_over:
            return
        self.last_error = error.with_traceback(None)        # or it would hold this connection in a circle
        self.broker.log_error(self, error, self.current)
        if self.state < EXPECTS_OPEN:
            self.end(error.text)
            return
        class_id = error.class_id or self.current_method >> 16
        method_id = error.method_id or self.current_method & 0xFFFF
        self.close_with(error.code, error.reply_text, class_id, method_id)

    def close_with(self, code: int, text: str, class_id: int, method_id: int) -> None:
        self.end_reason = text
        self.release()
        self.send(ConnectionClose(code, text, class_id, method_id))
        self.state = CLOSING
        self.is_blocked = False         # or its close-ok would never be read
        self.is_held = False
        self.mind_reading()
        self.broker.watch_closing(self)

    def end(self, reason: str) -> None:
        """The connection is over: flush what is left, then close the transport."""
        if self.is_over:
            return
        self.is_over = True
        self.end_reason = self.end_reason or reason
        self.release()
        self.state = CLOSED
        if not self.is_dirty:
            self.mark_dirty()
        self.broker.forget_connection(self)
        self.broker.schedule()

    def release(self) -> None:
        """Channels and exclusive queues end with the connection."""
        self.is_released = True
        if self.routes:
            self.drop_routes()
            self.broker.routed.remove(self)
        channels = list(self.channels.values())
        for channel in channels:
            if not channel.is_closing:
                if not channel.is_released:
                    channel.release()
                channel.is_closing = True
        self.channels = {}
        for queue in self.exclusive_queues.copy():
            self.broker.delete_queue(queue, is_stubborn=True)
        self.exclusive_queues = []

    # --- routes -----------------------------------------------------------------------------------------------

    def find_route(self, key: bytes) -> Route:
        """Work out where a basic.publish payload goes, with every check that can be made once for all of its kind."""
        method = decode_method(key)
        route = self.broker.route_publish(self, method)
        if not self.routes:
            self.broker.routed.append(self)
        elif len(self.routes) >= ROUTES_KEPT:
            self.drop_routes()
        self.routes[key] = route
        return route

    def drop_routes(self) -> None:
        for route in self.routes.values():
            route.settle()
        self.routes.clear()
