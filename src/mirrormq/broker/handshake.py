"""The handshake: greeting, login, tuning, opening a virtual host; and what else is said on channel 0.

Before the login has succeeded a wrong word ends the connection without an answer, as clients of RabbitMQ know it.
"""
from __future__ import annotations

from typing import Final

from mirrormq.broker.auth import LoginRefused, User
from mirrormq.broker.connection import (
    CLOSING,
    EXPECTS_OPEN,
    EXPECTS_START_OK,
    EXPECTS_TUNE_OK,
    RUNNING,
    STATES,
    Connection,
)
from mirrormq.broker.host import UNLIMITED
from mirrormq.broker.journal import Afterwards
from mirrormq.broker.limits import check_user_connections, check_vhost_connections
from mirrormq.wire.errors import AMQPError, ChannelFault, HardAccessRefused, NotAllowed
from mirrormq.wire.methods import (
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from mirrormq.wire.table import Table, decode_table

CAPABILITIES: Final[Table] = {
    "publisher_confirms": True, "exchange_exchange_bindings": True, "basic.nack": True, "consumer_cancel_notify": True,
    "connection.blocked": True, "consumer_priorities": True, "authentication_failure_close": True, "per_consumer_qos": True,
    "direct_reply_to": True,
}
COMPATIBLE_VERSION: Final = "3.13.7"
MIN_FRAME: Final = 4096


def greet(connection: Connection) -> None:
    broker = connection.broker
    properties: Table = {
        "capabilities": CAPABILITIES, "cluster_name": broker.cluster_name, "copyright": "MirrorMQ authors",
        "information": "Licensed under the Apache License 2.0.", "mirrormq_version": broker.version,
        "platform": broker.platform, "product": "RabbitMQ", "product_name": "MirrorMQ", "version": COMPATIBLE_VERSION,
    }
    mechanisms = [name for name in broker.mechanisms if name != "EXTERNAL" or connection.peer.certificate_name is not None]
    connection.state = EXPECTS_START_OK
    connection.send(ConnectionStart(properties, mechanisms=" ".join(mechanisms)))


def on_method(connection: Connection, method: Method) -> None:
    state = connection.state
    if state == RUNNING:
        _while_running(connection, method)
    elif state == EXPECTS_START_OK and isinstance(method, ConnectionStartOk):
        _start(connection, method)
    elif state == EXPECTS_TUNE_OK and isinstance(method, ConnectionTuneOk):
        _tune(connection, method)
    elif state == EXPECTS_OPEN and isinstance(method, ConnectionOpen):
        _open(connection, method)
    elif state < EXPECTS_OPEN:
        connection.end(f"{method.name} came before the handshake was done")
    else:
        raise ChannelFault(f"unexpected method in connection state {STATES[state]}")


def _while_running(connection: Connection, method: Method) -> None:
    if isinstance(method, ConnectionClose):
        _close(connection, f"client closed the connection: {method.reply_text}")
    elif isinstance(method, ConnectionUpdateSecret):
        connection.send(ConnectionUpdateSecretOk())
    else:
        raise ChannelFault("unexpected method in connection state running")


class CloseOk(Afterwards):
    def __init__(self, first: int, last: int, connection: Connection) -> None:
        super().__init__(first, last)
        self.connection: Connection = connection

    def happen(self) -> None:
        self.connection.goodbye_heard()


def _close(connection: Connection, reason: str) -> None:
    """close-ok says that exclusive and auto-delete queues are gone, wherever they were: the next connection may declare them for
    itself, on any node."""
    broker = connection.broker
    before = broker.journal.written
    connection.state = CLOSING
    connection.is_parting = True
    connection.end_reason = reason
    connection.goodbyes = 1             # until all that it had has been told
    connection.release()
    if broker.journal.written > before:
        connection.goodbyes += 1
        broker.parting.append(CloseOk(before + 1, broker.journal.written, connection))
    connection.goodbye_heard()


def _start(connection: Connection, method: ConnectionStartOk) -> None:
    connection.client_properties = method.client_properties
    capabilities = method.client_properties.get("capabilities")
    connection.capabilities = capabilities if isinstance(capabilities, dict) else {}
    connection.mechanism = method.mechanism
    try:
        connection.user = _login(connection, method)
    except LoginRefused as refusal:
        connection.broker.events.connection("user.authentication.failure", connection)
        _refuse(connection, str(refusal))
        return
    except (AMQPError, ValueError) as fault:
        connection.end(f"login by {method.mechanism} could not be understood: {fault}")
        return
    connection.broker.events.connection("user.authentication.success", connection)
    limits = connection.broker.limits
    connection.state = EXPECTS_TUNE_OK
    connection.frame_limit = limits.frame_max or UNLIMITED
    connection.send(ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat))


def _login(connection: Connection, method: ConnectionStartOk) -> User:
    broker = connection.broker
    if method.mechanism not in broker.mechanisms:
        raise ValueError(f"unknown authentication mechanism '{method.mechanism}'")
    authority = broker.authority
    if method.mechanism == "EXTERNAL":
        if connection.peer.certificate_name is None:
            raise LoginRefused("no certificate was presented")
        user = authority.authenticate_external(connection.peer.certificate_name)
    else:
        name, password = _amqplain(method.response) if method.mechanism == "AMQPLAIN" else _plain(method.response)
        user = authority.authenticate(name, password)
    authority.check_origin(user.name, connection.peer.host if connection.peer.is_loopback else "elsewhere")
    return user


def _plain(response: bytes) -> tuple[str, str]:
    parts = response.split(b"\x00")
    if len(parts) != 3 or parts[0]:
        raise ValueError("PLAIN takes an empty identity, a name and a password")
    return parts[1].decode("utf-8", "surrogateescape"), parts[2].decode("utf-8", "surrogateescape")


def _amqplain(response: bytes) -> tuple[str, str]:
    table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0)
    name, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(name, str) or not isinstance(password, str):
        raise ValueError("AMQPLAIN takes LOGIN and PASSWORD")
    return name, password


def _refuse(connection: Connection, why: str) -> None:
    """Clients that can be told are told; the others see the connection close."""
    connection.broker.host.report("warning", f"{connection.name}: {why}")
    text = (f"Login was refused using authentication mechanism {connection.mechanism}. "
            "For details see the broker logfile.")
    connection.current_method = 0
    if connection.capabilities.get("authentication_failure_close") is True:
        refusal = HardAccessRefused(text)
        connection.close_with(refusal.code, refusal.reply_text, 0, 0)
    else:
        connection.end(why)


def _tune(connection: Connection, method: ConnectionTuneOk) -> None:
    limits = connection.broker.limits
    fault = _out_of_bounds("frame_max", method.frame_max, MIN_FRAME, limits.frame_max) \
        or _out_of_bounds("channel_max", method.channel_max, 1, limits.channel_max)
    if fault:
        connection.end(f"negotiation failed: {fault}")
        return
    connection.frame_max = method.frame_max
    connection.frame_limit = connection.largest = method.frame_max or UNLIMITED
    connection.channel_max = method.channel_max
    connection.heartbeat = method.heartbeat
    connection.state = EXPECTS_OPEN


def _out_of_bounds(name: str, asked: int, least: int, most: int) -> str:
    """What is wrong with a client's number; 0 is no limit, and only a server without one takes it for an answer."""
    if 0 < asked < least or (most and not 0 < asked <= most):
        return f"{name} {asked} is not " + (f"{least} to {most}" if most else f"0 or at least {least}")
    return ""


def _open(connection: Connection, method: ConnectionOpen) -> None:
    broker = connection.broker
    user = connection.user
    assert user is not None
    name = method.virtual_host
    vhost = broker.vhosts.get(name)
    if vhost is None:
        raise NotAllowed(f"vhost {name} not found")
    broker.authority.check_vhost(user.name, name)
    if vhost.limits:
        check_vhost_connections(vhost.limits, name, user.name, broker.count_connections(vhost=vhost))
    if user.limits:
        check_user_connections(user.limits, user.name, broker.count_connections(user=user.name))
    connection.vhost = vhost
    connection.state = RUNNING
    connection.send(ConnectionOpenOk())
    broker.on_connected(connection)
