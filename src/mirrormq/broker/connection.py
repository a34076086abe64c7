"""A client's connection: frames in, frames out, from the protocol header to the last close-ok.

Rules
 1. How bytes become frames is in `inlet`, and how output leaves in `outlet`.
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
from mirrormq.broker.channel import Channel, rotated
from mirrormq.broker.host import UNLIMITED
from mirrormq.broker.inlet import (
    CLOSED,
    CLOSING,
    EXPECTS_HEADER,
    EXPECTS_OPEN,
    EXPECTS_START_OK,
    EXPECTS_TUNE_OK,
    RUNNING,
    Inlet,
)
from mirrormq.broker.peer import Peer, Transport
from mirrormq.broker.route import Route
from mirrormq.wire.errors import (
    AMQPError,
    ChannelError,
    HardError,
    NotAllowed,
    PreconditionFailed,
)
from mirrormq.wire.faults import unknown_frame
from mirrormq.wire.methods import (
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    decode_method,
)
from mirrormq.wire.table import Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.queue import Queue
    from mirrormq.broker.vhost import VirtualHost

STATES: Final = ("starting", "starting", "tuning", "opening", "running", "closing", "closed")
ROUTES_KEPT: Final = 4096
INBOX_LIMIT: Final = 1 << 20
FRAME_COST: Final = 100         # of a small frame that waits, beside its bytes


class Connection(Inlet):
    def __init__(self, broker: Broker, transport: Transport, peer: Peer) -> None:
        super().__init__(broker, transport)
        self.peer: Peer = peer
        self.name: str = str(peer)
        self.user: User | None = None
        self.vhost: VirtualHost | None = None
        self.mechanism: str = ""
        self.client_properties: dict[str, Value] = {}
        self.capabilities: dict[str, Value] = {}
        self.channel_max: i64 = broker.limits.channel_max
        self.largest: i64 = UNLIMITED   # content of more bytes may have frames that the client does not take
        self.heartbeat: i64 = 0
        self.exclusive_queues: list[Queue] = []
        self.next_wake: i64 = 0                 # the place of the channel whose queues are woken first
        self.left: dict[int, int] = {}          # channels that the client has closed, by number: in which read
        self.is_released: bool = False
        self.is_parting: bool = False           # its client has closed it, and gets close-ok when what ends with it is gone
        self.goodbyes: i64 = 0                  # answers that its close-ok waits for
        self.blocked_told: bool = False
        self.connected_at: i64 = broker.wall()
        self.end_reason: str = ""
        self.last_error: AMQPError | None = None

    # --- frames in --------------------------------------------------------------------------------------------

    def greet(self) -> None:
        self.broker.greet(self)

    def refuse_stranger(self, data: bytes) -> None:
        reason = f"the client does not speak AMQP 0-9-1: {language(data)}"
        self.broker.host.report("warning", f"{self.name}: {reason}")
        self.end(reason)

    def note_publisher(self) -> None:
        self.broker.note_publisher(self)

    def mind_congestion(self) -> None:
        self.broker.forwarding.mind_congestion(self)

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
        if self.left.get(number, -1) == self.received_count and (kind != 1 or payload[:4] != b"\x00\x14\x00\x0a"):
            return                      # sent behind channel.close, and before its client can have read close-ok
        method = decode_method(payload) if kind == 1 else None
        if method is None or method.id != (20 << 16 | 10):
            raise content.no_such_channel(method)
        self.left.pop(number, None)
        self.current_method = method.id
        self.broker.open_channel(self, number)

    def _keep_for_later(self, channel: Channel, frame: bytes) -> None:
        channel.inbox.append(frame)
        channel.inbox_size += len(frame) + FRAME_COST
        if channel.inbox_size > INBOX_LIMIT:
            self.broker.throttle(self)

    def resume_frames(self, number: int, waiting: list[bytes]) -> None:
        """Frames of one channel that had to wait."""
        self.replay(number, waiting)
        self.go_on_reading()
        self.broker.schedule()

    def keep_waiting(self, number: int, frames: list[bytes], at: int) -> bool:
        channel = self.channels.get(number)
        if channel is None or channel.is_closing or not channel.is_suspended:
            return False
        rest = frames[at:]
        channel.inbox += rest
        for frame in rest:
            channel.inbox_size += len(frame) + FRAME_COST
        return True

    def go_on_reading(self) -> None:
        """A channel that kept too many frames waiting may not do so any more."""
        broker = self.broker
        broker.forwarding.mind_congestion(self)
        if self.is_blocked and not broker.alarms and not broker.is_busy and not self._keeps_too_many():
            broker.relieve(self)

    def _keeps_too_many(self) -> bool:
        return any(channel.inbox_size > INBOX_LIMIT for channel in self.channels.values())

    # --- bytes out --------------------------------------------------------------------------------------------

    def wake_queues(self) -> None:
        for channel in rotated(list(self.channels.values()), self.next_wake):
            channel.wake_queues()
        self.next_wake += 1

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
        if channel.forget_waiting():
            channel.send(ChannelCloseOk())

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

    def goodbye_heard(self) -> None:
        """Part of what ends with a connection that its client has closed is gone."""
        self.goodbyes -= 1
        if self.goodbyes == 0 and not self.is_over:
            self.send(ConnectionCloseOk())
            self.end(self.end_reason)

    def end(self, reason: str, *, lingers: bool = True) -> None:
        """The connection is over: flush what is left, then close the transport. Who was let in gets the time to read it, unless
        it is known to be silent."""
        if self.is_over:
            return
        self.is_over = True
        self.lingers = lingers and self.vhost is not None
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


__all__ = [
    "CLOSED", "CLOSING", "EXPECTS_HEADER", "EXPECTS_OPEN", "EXPECTS_START_OK", "EXPECTS_TUNE_OK", "RUNNING", "STATES",
    "Connection",
]  # fmt: skip


def language(data: bytes) -> str:
    """What somebody says who is no AMQP 0-9-1 client, with what to do where that can be told."""
    if data[:2] == b"\x16\x03":
        return "it speaks TLS, and this port is a plain one; TLS needs 'listeners.ssl' in the configuration"
    if data[:4] == b"AMQP" and len(data) >= 8:
        return f"it asks for protocol {data[4]}, version {data[5]}.{data[6]}.{data[7]}"
    if b"HTTP/1." in data[:4096]:
        return "it speaks HTTP; the HTTP API and the page have a port of their own"
    return f"it began with {data[:8]!r}"
