"""A client for scenarios written by hand: it says frames, lets the broker come to rest, and keeps what it hears."""

from __future__ import annotations

from mirrormq.wire.constants import PROTOCOL_HEADER
from mirrormq.wire.frames import content_frames, frame
from mirrormq.wire.methods import BasicPublish, ChannelOpen, Method
from mirrormq.wire.properties import Properties, encode_properties

from .handshake import LOGINS, open_vhost, tune_ok
from .judge import Judge
from .runner import Runner, Session


class Client:
    def __init__(self, runner: Runner, who: int = 1, *, frame_max: int = 131072, channels: int = 1) -> None:
        self.runner = runner
        self.session = self._connect(who)
        self.judge: Judge = self.session.judge
        self.judge.keeps_methods = True
        self.feed(PROTOCOL_HEADER + LOGINS[0] + tune_ok(2047, frame_max) + open_vhost())
        for number in range(1, channels + 1):
            self.say(ChannelOpen(), channel=number)
        self.rest()

    def _connect(self, who: int) -> Session:
        self.runner._open(who, 0)
        return self.runner.sessions[who]

    def feed(self, data: bytes) -> None:
        """Bytes arrive; no turn follows."""
        self.session.feed(data)

    def say(self, *methods: Method, channel: int = 1) -> None:
        self.feed(b"".join(frame(1, channel, method.encode()) for method in methods))

    def publish(self, key: str, body: bytes = b"x", properties: Properties | None = None, exchange: str = "") -> None:
        self.feed(published(key, body, properties, exchange))

    def rest(self) -> None:
        self.runner._settle()

    def heard(self) -> list[Method]:
        """What was said since the last time, after the broker has come to rest."""
        self.rest()
        methods = [method for _, method in self.judge.methods]
        self.judge.methods.clear()
        return methods


def published(key: str, body: bytes = b"x", properties: Properties | None = None, exchange: str = "", channel: int = 1) -> bytes:
    given = encode_properties(Properties(delivery_mode=2) if properties is None else properties)
    return frame(1, channel, BasicPublish(exchange, key).encode()) + content_frames(channel, given, body, 131072)
