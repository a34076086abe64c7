"""One connection's protocol: bytes in, acks and publishes out, one write per chunk. Compiled.

It stands in for an `asyncio.Protocol` (the loop only looks for the method names). A producer publishes when the window
opens (confirms arrived), when the pace allows (a timer) and when the socket drained (`resume_writing`), always through
`pump`. A consumer with a rate stops reading while it is ahead of its pace: TCP and the prefetch hold the broker back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from .deliver import BadFrame, Meter
from .inbox import Inbox
from .pacing import Pacer
from .publish import Block, Ledger

WRITE_BYTES: Final = 1 << 20
# What may wait in the transport before a producer pauses: more than one write, or large messages go one by one.
BUFFER_BYTES: Final = 2 << 20
# A window goes out in quarters, one for each turn of the loop: a producer that wrote it at once would wait while the
# broker works and let the broker wait while it writes.
PARTS_OF_A_WINDOW: Final = 4
SMALLEST_PART: Final = 16
LARGEST_PART: Final = 256
TIMER_GRAIN: Final = 0.001
UNLIMITED: Final = 1 << 60


class Press:
    """What a producer publishes: its block, its ledger, and what holds it back."""

    def __init__(self, block: Block, ledger: Ledger, window: int, limit: int, pacer: Pacer | None) -> None:
        self.block: Block = block
        self.ledger: Ledger = ledger
        self.window: int = window or UNLIMITED
        self.limit: int = limit or UNLIMITED
        self.pacer: Pacer | None = pacer
        part = min(max(SMALLEST_PART, self.window // PARTS_OF_A_WINDOW), LARGEST_PART)
        self.batch: int = max(1, min(part, WRITE_BYTES // block.size))
        self.running: bool = False

    def room(self, now: int) -> int:
        """How many messages may be written at once."""
        ledger = self.ledger
        room = min(self.batch, self.limit - ledger.sent, self.window - ledger.outstanding())
        if room > 0 and self.pacer is not None:
            return min(room, self.pacer.due(now))
        return room

    def take(self, count: int, now: int) -> bytes:
        """The next `count` messages, entered in the ledger."""
        first = self.ledger.sent + 1
        self.ledger.publish(count, now)
        if self.pacer is not None:
            self.pacer.took(count)
        return self.block.messages(now, first, count)

    def finished(self) -> bool:
        """Whether everything asked for was published."""
        return self.ledger.sent >= self.limit


class Link:
    """A protocol for `loop.create_connection`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_method: Callable[[int, bytes], None],
        on_lost: Callable[[BaseException | None], None],
    ) -> None:
        self.loop: asyncio.AbstractEventLoop = loop
        self.on_method: Callable[[int, bytes], None] = on_method
        self.on_lost: Callable[[BaseException | None], None] = on_lost
        self.transport: asyncio.Transport | None = None
        self.inbox: Inbox = Inbox()
        self.press: Press | None = None
        self.meter: Meter | None = None
        self.pace: Pacer | None = None
        self.paused: bool = False
        self.timer: bool = False
        self.again: bool = False
        self.heard: int = 0

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(BUFFER_BYTES)

    def data_received(self, chunk: bytes) -> None:
        now = time.time_ns()
        self.heard = now
        try:
            self.inbox.feed(chunk, now)
        except (BadFrame, IndexError) as error:
            self.fail(error)
            return
        if self.inbox.others:
            self._dispatch()
        if self.meter is not None:
            self._acknowledge(self.meter, now)
        if self.press is not None:
            self.pump()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: BaseException | None) -> None:
        self.transport = None
        self.on_lost(error)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.pump()

    def write(self, data: bytes) -> None:
        """Send `data`, unless the connection is gone."""
        if self.transport is not None:
            self.transport.write(data)

    def fail(self, error: BaseException) -> None:
        """Drop the connection because of what the broker sent."""
        transport = self.transport
        self.transport = None
        if transport is not None:
            transport.abort()
            self.on_lost(error)

    def consume(self, meter: Meter, pace: Pacer | None) -> None:
        """From now on deliveries go to `meter`."""
        self.meter = meter
        self.inbox.meter = meter
        self.pace = pace

    def publish(self, press: Press) -> None:
        """From now on confirms go to the ledger of `press`; `pump` starts it."""
        self.press = press
        self.inbox.ledger = press.ledger
        self.inbox.numbered = bool(press.block.mark)

    def pump(self) -> None:
        """Publish one part of what window, pace and socket allow, and come back for the rest."""
        press = self.press
        if press is None or self.paused or not press.running or self.transport is None:
            return
        now = time.time_ns()
        room = press.room(now)
        if room <= 0:
            self._wait_for_pace(press, now)
            return
        self.transport.write(press.take(room, now))
        if room == press.batch and not self.again:
            self.again = True
            self.loop.call_soon(self._go_on)
        elif press.pacer is not None:
            self._wait_for_pace(press, now)

    def idle(self) -> None:
        """Called from time to time: acknowledge what waits for company that does not come."""
        meter = self.meter
        if meter is not None and meter.unacked:
            meter.acknowledge_rest()
            self._flush(meter)

    def _go_on(self) -> None:
        self.again = False
        self.pump()

    def _wait_for_pace(self, press: Press, now: int) -> None:
        if press.pacer is None or self.timer or press.finished():
            return
        if press.ledger.outstanding() < press.window:
            self.timer = True
            self.loop.call_later(max(press.pacer.wait(now), TIMER_GRAIN), self._timer_rang)

    def _timer_rang(self) -> None:
        self.timer = False
        self.pump()

    def _dispatch(self) -> None:
        others = self.inbox.others
        self.inbox.others = []
        for _, channel, payload in others:
            self.on_method(channel, payload)

    def _acknowledge(self, meter: Meter, now: int) -> None:
        self._flush(meter)
        pace = self.pace
        if pace is None or self.transport is None:
            return
        ahead = meter.received - pace.done
        pace.due(now)
        pace.took(ahead)
        wait = pace.wait(now)
        if wait > TIMER_GRAIN:
            self.transport.pause_reading()
            self.loop.call_later(wait, self._resume_reading)

    def _resume_reading(self) -> None:
        if self.transport is not None:
            self.transport.resume_reading()

    def _flush(self, meter: Meter) -> None:
        if meter.out and self.transport is not None:
            self.transport.write(bytes(meter.out))
            meter.out.clear()
