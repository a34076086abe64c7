"""Who has been quiet. Asked of all connections twice a second, mostly in vain, and thousands may be idle. Compiled."""

from __future__ import annotations

from mypy_extensions import i64

from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import RUNNING, Connection


def quiet(broker: Broker) -> list[Connection]:
    """Connections to which or from which nothing went for half of their heartbeat interval. What is to be done about it is for
    others to say."""
    now = broker.now
    found: list[Connection] = []
    for connection in broker.connections:
        half: i64 = connection.heartbeat * 500
        since = min(connection.last_sent, connection.last_received)
        if half and now - since >= half and connection.state == RUNNING:
            found.append(connection)
    return found
