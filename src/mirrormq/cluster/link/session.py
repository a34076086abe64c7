"""The session of two nodes after their handshake: lanes out, lanes in, credit and heartbeats. No I/O; the time is an argument.

Rules:

- Whatever is sent waits in its lane until `data_to_send` takes it, as far as the other side's credit goes.
- Any byte from the other side is a sign of life. Silence is judged only by a tick that came in time: who was itself stopped
  reads first, then judges.
- After a LinkError the session is over.

Times are milliseconds of a clock that only goes forward.
"""

from __future__ import annotations

from mirrormq.cluster.link import deadlines
from mirrormq.cluster.link.deadlines import milliseconds
from mirrormq.cluster.link.errors import LinkFault, LinkSilent
from mirrormq.cluster.link.frames import (
    CREDIT_KIND,
    GOODBYE_KIND,
    HEARTBEAT_KIND,
    LANES,
    OWN,
    OWN_LIMIT,
    Frame,
    credit_frame,
    own_frame,
    read_credit,
)
from mirrormq.cluster.link.inbound import Inbound, LaneIn
from mirrormq.cluster.link.outbound import Outbound
from mirrormq.cluster.link.terms import Terms


class LinkSession:
    def __init__(self, terms: Terms, now: int) -> None:
        self.farewell = ""
        """Why the other side ends the session, once it has said so."""
        self._terms = terms
        self._in = Inbound(terms.lanes)
        self._out = Outbound(terms.lanes)
        self._own: list[bytes] = []
        self._heartbeat_waits = False
        self._heard = now
        self._spoke = now
        self._has_spoken = False
        self._ticked = now
        self._frozen_ms = milliseconds(deadlines.FROZEN)
        self._excuses = 0
        self._judges_at = -1
        for lane in self._in.lanes:
            self._announce(lane)

    # Sending

    def send(self, lane: int, kind: int, payload: bytes) -> None:
        """Appends a frame to its lane; FrameTooLarge if the lane carries none of this size."""
        assert 0 <= kind <= 255
        self._out.lanes[lane].put(kind, payload)

    def waiting(self, lane: int) -> int:
        """How many bytes of this lane have not left yet: credit, or the socket, holds them back."""
        return self._out.lanes[lane].queued

    def drained(self, lane: int) -> bool:
        """True once after `waiting` was above the lane's low mark and has fallen to it."""
        return self._out.lanes[lane].drained()

    def has_output(self) -> bool:
        return bool(self._own) or self._out.can_go()

    def data_to_send(self, limit: int) -> bytes:
        """What may go now, about `limit` bytes at most: the link's own frames, then the lanes by their priorities."""
        parts: list[bytes | memoryview] = []
        room = limit
        for own in self._own:
            parts.append(own)
            room -= len(own)
        self._own = []
        self._heartbeat_waits = False
        self._out.emit(parts, room)
        if not parts:
            return b""
        self._has_spoken = True
        return b"".join(parts)

    def is_quiet(self, now: int) -> bool:
        """Two heartbeats have not come: the peer may be condemning this side already."""
        return now - self._heard >= self._terms.silence_ms // 2

    def goodbye(self, sentence: str) -> bytes:
        """The last bytes of a session: they tell the other side why this is the end."""
        return own_frame(GOODBYE_KIND, sentence.encode(errors="replace")[:OWN_LIMIT])

    # Receiving

    def receive(self, data: bytes, now: int) -> list[Frame]:
        """All frames that these bytes complete, in the order of their lane. LinkFault if the other side broke the rules."""
        self._heard = now
        self._excuses = 0
        self._judges_at = -1
        frames = [frame for frame in self._in.feed(data) if not self._is_own(frame)]
        self._grant_what_is_due()
        return frames

    def consumed(self, lane: int, nbytes: int) -> None:
        """The user has digested so many bytes of payload: they may be allowed anew."""
        account = self._in.lanes[lane]
        account.digested += nbytes
        assert account.digested <= account.received
        if account.grant_is_due():
            self._announce(account)

    def _is_own(self, frame: Frame) -> bool:
        """Deals with the link's own frames; an unknown kind comes from a newer version, and is nothing to us."""
        if frame.lane != OWN:
            return False
        if frame.kind == CREDIT_KIND:
            self._take_credit(frame.payload)
        elif frame.kind == GOODBYE_KIND:
            self.farewell = frame.payload.decode(errors="replace") or "no reason given"
        return True

    def _take_credit(self, payload: bytes) -> None:
        lane, allowed = read_credit(payload)
        if not 0 <= lane < len(LANES) or allowed < self._out.lanes[lane].allowed:
            raise LinkFault("credit came for no lane, or less than before")
        self._out.lanes[lane].allowed = allowed

    def _grant_what_is_due(self) -> None:
        for lane in self._in.lanes:
            if lane.grant_is_due():
                self._announce(lane)

    def _announce(self, lane: LaneIn) -> None:
        if lane.window:
            lane.announced = lane.grant()
            self._own.append(credit_frame(lane.lane, lane.announced))

    # Time

    def tick(self, now: int) -> None:
        """Queues a heartbeat when one is due. LinkSilent if nothing came for too long."""
        if self._has_spoken:
            # Since the last tick, that is: a process that was stopped in between must not think it has just spoken.
            self._spoke = self._ticked
            self._has_spoken = False
        if now - self._spoke >= self._terms.heartbeat_ms and not self._heartbeat_waits:
            self._heartbeat_waits = True
            self._own.append(own_frame(HEARTBEAT_KIND, b""))
        was_stopped = now - self._ticked >= self._frozen_ms
        self._ticked = now
        self._judge(now, was_stopped=was_stopped)

    def _judge(self, now: int, *, was_stopped: bool) -> None:
        """A peer is condemned by the second of two ticks, so that the socket was read between them; and when this process
        was stopped for a while, only after the peer, which may have been stopped with it, had time for a heartbeat."""
        if now - self._heard < self._terms.silence_ms:
            return
        if was_stopped and self._excuses < deadlines.EXCUSES:
            self._excuses += 1
            self._judges_at = now + self._terms.heartbeat_ms
        elif self._judges_at < 0:
            self._judges_at = now + 1
        elif now >= self._judges_at:
            raise LinkSilent(f"nothing came for {(now - self._heard) / 1000:.1f} s")
