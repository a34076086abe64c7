"""How long the node waits for whom: every time-out in one place, in seconds, each with its reason.

Where a key of the configuration sets the time, the number here is that key's default. Together they must satisfy:

- A peer is gone only after two heartbeat intervals, and we send at half of one: two of ours may be lost.
- STOP_CLIENTS < CLOSE_OK: a peer that never answers `connection.close` must not keep a node from stopping.
- TLS_HANDSHAKE < HANDSHAKE: it is a part of it.
"""

from __future__ import annotations

from typing import Final

HANDSHAKE: Final = 10.0
"""From accept to `connection.open`, RabbitMQ's `handshake_timeout`: a peer without a login holds a socket no longer."""

TLS_HANDSHAKE: Final = 5.0
"""The TLS part of it alone: RabbitMQ's `ssl_handshake_timeout`."""

HEARTBEAT: Final = 60
"""What the server proposes in `connection.tune`: RabbitMQ's `heartbeat`. Whole seconds, as AMQP has it."""

HEARTBEAT_MISSED: Final = 2.0
"""How many intervals of silence mean that the peer is gone: one lost or late frame must not end a connection."""

CLOSE_OK: Final = 30.0
"""After `connection.close` the client has this long to answer before its socket is closed; RabbitMQ waits as long."""

LAST_WORDS: Final = 5.0
"""What was written before a socket is closed has this long to leave it: a peer that does not read holds it no longer."""

LINGER: Final = 30.0
"""After the last word the peer has this long to close its side: RabbitMQ waits as long for it."""

STOP_CLIENTS: Final = 3.0
"""In a graceful stop clients have this long to answer `connection.close`; who has not is cut off."""

SAMPLE_MEMORY: Final = 2.5
"""Between two looks at resident memory: RabbitMQ's `memory_monitor_interval`."""

SAMPLE_DISK_SLOWEST: Final = 10.0
"""Between two looks at a disk with plenty of space."""

SAMPLE_DISK_FASTEST: Final = 0.1
"""Between two looks at a disk that is about to fill: fast enough to stop publishers before it does."""

CONSUMER_ACK: Final = 1800.0
"""A delivery that stays unacknowledged this long closes its channel: RabbitMQ's `consumer_timeout`."""

LOOK_FOR_OVERDUE: Final = 30.0
"""Between two looks for such deliveries: RabbitMQ's `channel_tick_interval`, which is a minute there."""


def heartbeat_gone(interval: int) -> float:
    """Silence after which a peer with this heartbeat interval is gone; 0 means never."""
    return interval * HEARTBEAT_MISSED


def heartbeat_due(interval: int) -> float:
    """Silence of our own after which we send a heartbeat: half the interval, so that one may be late."""
    return interval / 2
