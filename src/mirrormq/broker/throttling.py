"""Back-pressure: publishers are not read while an alarm is raised, on whichever node, or while the disk is behind."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.wire.methods import ConnectionBlocked, ConnectionUnblocked

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def note_publisher(broker: Broker, connection: Connection) -> None:
    connection.is_publisher = True
    if broker.alarms or broker.is_busy:
        throttle(broker, connection)


def throttle(broker: Broker, connection: Connection) -> None:
    """Stop reading from a publisher; tell it why if it can be told. One that is closing must be read to its close-ok."""
    if connection.state != RUNNING:
        return
    if not connection.is_blocked:
        connection.is_blocked = True
        connection.mind_reading()
    if broker.alarms and not connection.blocked_told and connection.capabilities.get("connection.blocked") is True:
        connection.blocked_told = True
        connection.send(ConnectionBlocked("low on " + " & ".join(sorted(broker.alarms, reverse=True))))
        connection.flush()


def relieve(connection: Connection) -> None:
    if connection.is_blocked:
        connection.is_blocked = False
        connection.mind_reading()
    if connection.blocked_told:
        connection.blocked_told = False
        if connection.state == RUNNING:
            connection.send(ConnectionUnblocked())


def set_alarms(broker: Broker, alarms: dict[str, str], *, is_busy: bool) -> None:
    """Alarms by name with the words that publishers are told; `is_busy` throttles without words."""
    broker.alarms = alarms
    broker.is_busy = is_busy
    for connection in list(broker.connections):
        if (alarms or is_busy) and connection.is_publisher:
            throttle(broker, connection)
        elif not (alarms or is_busy):
            relieve(connection)
    broker.host.schedule()
