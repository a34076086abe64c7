"""connection: the handshake, the limits, and the end of a connection."""

from __future__ import annotations

from typing import ClassVar

from mirrormq.wire.methods.base import Method
from mirrormq.wire.reader import Reader
from mirrormq.wire.table import Table
from mirrormq.wire.writer import Writer


class ConnectionStart(Method):
    """The server opens the handshake."""

    ID: ClassVar[int] = 10 << 16 | 10
    name: ClassVar[str] = "connection.start"
    FIELDS: ClassVar[tuple[str, ...]] = ("version_major", "version_minor", "server_properties", "mechanisms", "locales")

    def __init__(
        self,
        server_properties: Table | None = None,
        version_major: int = 0,
        version_minor: int = 9,
        mechanisms: str = "PLAIN",
        locales: str = "en_US",
    ) -> None:
        self.version_major = version_major
        self.version_minor = version_minor
        self.server_properties: Table = server_properties or {}
        self.mechanisms = mechanisms
        self.locales = locales

    def encode(self) -> bytes:
        w = Writer(ConnectionStart.ID)
        w.octet(self.version_major)
        w.octet(self.version_minor)
        w.table(self.server_properties)
        w.text(self.mechanisms)
        w.text(self.locales)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionStart:
        version_major = r.octet()
        version_minor = r.octet()
        server_properties = r.table()
        mechanisms = r.text()
        locales = r.text()
        return ConnectionStart(server_properties, version_major, version_minor, mechanisms, locales)


class ConnectionStartOk(Method):
    """The client picks a mechanism and answers it."""

    ID: ClassVar[int] = 10 << 16 | 11
    name: ClassVar[str] = "connection.start-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("client_properties", "mechanism", "response", "locale")

    def __init__(
        self,
        client_properties: Table | None = None,
        mechanism: str = "PLAIN",
        response: bytes = b"",
        locale: str = "en_US",
    ) -> None:
        self.client_properties: Table = client_properties or {}
        self.mechanism = mechanism
        self.response = response
        self.locale = locale

    def encode(self) -> bytes:
        w = Writer(ConnectionStartOk.ID)
        w.table(self.client_properties)
        w.shortstr(self.mechanism)
        w.longstr(self.response)
        w.shortstr(self.locale)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionStartOk:
        client_properties = r.table()
        mechanism = r.shortstr()
        response = r.longstr()
        locale = r.shortstr()
        return ConnectionStartOk(client_properties, mechanism, response, locale)


class ConnectionSecure(Method):
    """One more question of the mechanism."""

    ID: ClassVar[int] = 10 << 16 | 20
    name: ClassVar[str] = "connection.secure"
    FIELDS: ClassVar[tuple[str, ...]] = ("challenge",)

    def __init__(self, challenge: bytes = b"") -> None:
        self.challenge = challenge

    def encode(self) -> bytes:
        w = Writer(ConnectionSecure.ID)
        w.longstr(self.challenge)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionSecure:
        challenge = r.longstr()
        return ConnectionSecure(challenge)


class ConnectionSecureOk(Method):
    """Its answer."""

    ID: ClassVar[int] = 10 << 16 | 21
    name: ClassVar[str] = "connection.secure-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("response",)

    def __init__(self, response: bytes = b"") -> None:
        self.response = response

    def encode(self) -> bytes:
        w = Writer(ConnectionSecureOk.ID)
        w.longstr(self.response)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionSecureOk:
        response = r.longstr()
        return ConnectionSecureOk(response)


class ConnectionTune(Method):
    """The limits the server proposes; 0 is none."""

    ID: ClassVar[int] = 10 << 16 | 30
    name: ClassVar[str] = "connection.tune"
    FIELDS: ClassVar[tuple[str, ...]] = ("channel_max", "frame_max", "heartbeat")

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode(self) -> bytes:
        w = Writer(ConnectionTune.ID)
        w.short(self.channel_max)
        w.long(self.frame_max)
        w.short(self.heartbeat)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionTune:
        channel_max = r.short()
        frame_max = r.long()
        heartbeat = r.short()
        return ConnectionTune(channel_max, frame_max, heartbeat)


class ConnectionTuneOk(Method):
    """The limits the client settles for."""

    ID: ClassVar[int] = 10 << 16 | 31
    name: ClassVar[str] = "connection.tune-ok"
    FIELDS: ClassVar[tuple[str, ...]] = ("channel_max", "frame_max", "heartbeat")

    def __init__(self, channel_max: int = 0, frame_max: int = 0, heartbeat: int = 0) -> None:
        self.channel_max = channel_max
        self.frame_max = frame_max
        self.heartbeat = heartbeat

    def encode(self) -> bytes:
        w = Writer(ConnectionTuneOk.ID)
        w.short(self.channel_max)
        w.long(self.frame_max)
        w.short(self.heartbeat)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionTuneOk:
        channel_max = r.short()
        frame_max = r.long()
        heartbeat = r.short()
        return ConnectionTuneOk(channel_max, frame_max, heartbeat)


class ConnectionOpen(Method):
    ID: ClassVar[int] = 10 << 16 | 40
    name: ClassVar[str] = "connection.open"
    FIELDS: ClassVar[tuple[str, ...]] = ("virtual_host",)

    def __init__(self, virtual_host: str = "/") -> None:
        self.virtual_host = virtual_host

    def encode(self) -> bytes:
        w = Writer(ConnectionOpen.ID)
        w.shortstr(self.virtual_host)
        w.shortstr("")
        w.octet(0)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionOpen:
        virtual_host = r.shortstr()
        r.shortstr()
        r.octet()
        return ConnectionOpen(virtual_host)


class ConnectionOpenOk(Method):
    ID: ClassVar[int] = 10 << 16 | 41
    name: ClassVar[str] = "connection.open-ok"

    def encode(self) -> bytes:
        w = Writer(ConnectionOpenOk.ID)
        w.shortstr("")
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionOpenOk:
        r.shortstr()
        return ConnectionOpenOk()


class ConnectionClose(Method):
    """`failed_class_id` and `failed_method_id` name the method at fault, 0 if none."""

    ID: ClassVar[int] = 10 << 16 | 50
    name: ClassVar[str] = "connection.close"
    FIELDS: ClassVar[tuple[str, ...]] = ("reply_code", "reply_text", "failed_class_id", "failed_method_id")

    def __init__(
        self, reply_code: int = 0, reply_text: str = "", failed_class_id: int = 0, failed_method_id: int = 0
    ) -> None:
        self.reply_code = reply_code
        self.reply_text = reply_text
        self.failed_class_id = failed_class_id
        self.failed_method_id = failed_method_id

    def encode(self) -> bytes:
        w = Writer(ConnectionClose.ID)
        w.short(self.reply_code)
        w.shortstr(self.reply_text)
        w.short(self.failed_class_id)
        w.short(self.failed_method_id)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionClose:
        reply_code = r.short()
        reply_text = r.shortstr()
        failed_class_id = r.short()
        failed_method_id = r.short()
        return ConnectionClose(reply_code, reply_text, failed_class_id, failed_method_id)


class ConnectionCloseOk(Method):
    ID: ClassVar[int] = 10 << 16 | 51
    name: ClassVar[str] = "connection.close-ok"

    def encode(self) -> bytes:
        return Writer(ConnectionCloseOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ConnectionCloseOk:
        return ConnectionCloseOk()


class ConnectionBlocked(Method):
    """RabbitMQ's extension: publishing is stopped by an alarm."""

    ID: ClassVar[int] = 10 << 16 | 60
    name: ClassVar[str] = "connection.blocked"
    FIELDS: ClassVar[tuple[str, ...]] = ("reason",)

    def __init__(self, reason: str = "") -> None:
        self.reason = reason

    def encode(self) -> bytes:
        w = Writer(ConnectionBlocked.ID)
        w.shortstr(self.reason)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionBlocked:
        reason = r.shortstr()
        return ConnectionBlocked(reason)


class ConnectionUnblocked(Method):
    """RabbitMQ's extension: publishing goes on."""

    ID: ClassVar[int] = 10 << 16 | 61
    name: ClassVar[str] = "connection.unblocked"

    def encode(self) -> bytes:
        return Writer(ConnectionUnblocked.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ConnectionUnblocked:
        return ConnectionUnblocked()


class ConnectionUpdateSecret(Method):
    """RabbitMQ's extension: a fresh token for a long connection."""

    ID: ClassVar[int] = 10 << 16 | 70
    name: ClassVar[str] = "connection.update-secret"
    FIELDS: ClassVar[tuple[str, ...]] = ("new_secret", "reason")

    def __init__(self, new_secret: bytes = b"", reason: str = "") -> None:
        self.new_secret = new_secret
        self.reason = reason

    def encode(self) -> bytes:
        w = Writer(ConnectionUpdateSecret.ID)
        w.longstr(self.new_secret)
        w.shortstr(self.reason)
        return w.finish()

    @staticmethod
    def decode(r: Reader) -> ConnectionUpdateSecret:
        new_secret = r.longstr()
        reason = r.shortstr()
        return ConnectionUpdateSecret(new_secret, reason)


class ConnectionUpdateSecretOk(Method):
    ID: ClassVar[int] = 10 << 16 | 71
    name: ClassVar[str] = "connection.update-secret-ok"

    def encode(self) -> bytes:
        return Writer(ConnectionUpdateSecretOk.ID).finish()

    @staticmethod
    def decode(_r: Reader) -> ConnectionUpdateSecretOk:
        return ConnectionUpdateSecretOk()
