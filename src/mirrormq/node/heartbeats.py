"""Heartbeats of clients: sent when they are due, and missed when none comes.

The broker's time makes a step when the machine sleeps, and when the node takes over its cluster's time. Then nobody has been
silent, idle or slow for so long: what is measured from a time on is moved along. Messages age all the same.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirrormq.broker import agreement, shutting
from mirrormq.broker.broker import Broker
from mirrormq.broker.message import NEVER
from mirrormq.broker.silence import quiet
from mirrormq.node import deadlines

HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"
STEP: Final = 500       # milliseconds by which the broker's time must differ from the steady one


class Heartbeats:
    def __init__(self, broker: Broker, report: Callable[[str, str], None]) -> None:
        self._broker = broker
        self._report = report
        self._broker_time = 0
        self._steady = 0.0

    def beat(self, steady: float, late: float) -> bool:
        """True if time made a step. `steady` is the seconds of a clock that makes none. If this process was itself stopped for
        a while, timers may come before what the sockets hold: `late` milliseconds are nobody's silence."""
        broker = self._broker
        now = int(broker.now)
        step = now - self._broker_time - round((steady - self._steady) * 1000) if self._broker_time else 0
        self._broker_time, self._steady = now, steady
        is_moved = abs(step) > STEP
        if is_moved:
            self._report("warning", f"time went {'forward' if step > 0 else 'back'} by {abs(step) / 1000:.1f} seconds at once")
            move_along(broker, step)
        for connection in quiet(broker):        # for the others it is too early: nothing is due before half an interval
            beat = connection.heartbeat
            if float(now - connection.last_sent) >= deadlines.heartbeat_due(beat) * 1000:
                connection.put(HEARTBEAT)
            if float(now - connection.last_received) - late > deadlines.heartbeat_gone(beat) * 1000 \
                    and not connection.is_blocked and not connection.is_held:
                self._report("error", f"{connection.name}: missed heartbeats from client, timeout: {beat}s")
                connection.end("missed heartbeats from client", lingers=False)
        return is_moved


def move_along(broker: Broker, step: int) -> None:
    for connection in broker.connections:
        connection.last_sent = moved(connection.last_sent, broker.now, step)
        connection.last_received = moved(connection.last_received, broker.now, step)
        for channel in connection.channels.values():
            for delivery in channel.unacked.values():
                delivery.at = moved(delivery.at, broker.now, step)
            if channel.patience:
                channel.patience = still(channel.patience, broker.now, step, agreement.FATE)
    for queue, until in broker.shut.items():
        broker.shut[queue] = still(until, broker.now, step, shutting.DECISION)
    for queue in broker.queues_by_log.values():
        queue.last_used = moved(queue.last_used, broker.now, step)
        queue.wake_at = NEVER       # its timers are judged anew
        queue.watch_expiry()
        queue.activate()


def moved(at: int, now: int, step: int) -> int:
    """A time of before the step, as the new clock has it. What was noted since, nobody can tell: it is never in the future, and
    never longer ago than it was."""
    if step > 0:
        return min(at + step, now)
    return at + step if at > now else at


def still(until: int, now: int, step: int, most: int) -> int:
    """A time to come, as the new clock has it: what was noted since may wait longer, but never longer than `most`."""
    return min(until + max(step, 0), now + most)
