"""One mirrored queue on this node: its machine, its log, and, where it leads, the queue that serves. Compiled.

Rules
 1. The machine decides; here is done what it asks for, in its order, before it hears of anything else.
 2. The log is folded as far as it is stable (`trail`), on every holder: for snapshots, full sync, and taking over.
    Only who takes over folds all of it.
 3. A write is durable for the machine in the generation in which it was made: a cut makes void what was written before it.
"""

from __future__ import annotations

from array import array
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from mirrormq.broker.arguments import milliseconds
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.ports import RingPort
from mirrormq.broker.queue import Queue
from mirrormq.log import lives, quarantine
from mirrormq.log.backfill import live_messages
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.dissolve import unfilled
from mirrormq.log.errors import CannotCut, LogError, QueueDamaged
from mirrormq.log.ranges import RangeSet, pairs, sizes
from mirrormq.log.snapshot import Snapshot
from mirrormq.log.trail import Trail, trail_from
from mirrormq.mirror.machine.effects import (
    Append,
    BecameLeader,
    BeginAt,
    Compared,
    CutTail,
    Effect,
    Hold,
    InstallPiece,
    KeepLive,
    NewEpoch,
    ProposeView,
    ReadBackfill,
    ReadLog,
    Released,
    Send,
    Stable,
    Standing,
    SteppedDown,
    TakeSum,
)
from mirrormq.mirror.machine.inputs import Appended, BackfillRead, HandOver, Input, LogRead, PieceInstalled, SumTaken, Trimmed
from mirrormq.mirror.machine.records import Batch
from mirrormq.mirror.machine.state import LEADER, OUTSIDE, State
from mirrormq.mirror.machine.step import step

if TYPE_CHECKING:
    from mirrormq.mirror.rings import Rings

RETAIN_SECONDS: Final = 60.0
RETAIN_BYTES: Final = 64 << 20
TRIM_AFTER: Final = 4 << 20         # bytes appended since the segments were last looked at
FOREVER: Final = 1 << 62
FOLD_ON: Final = 5000               # entries that are folded in one go
FOLD_TO_COMPARE: Final = 100_000    # while somebody waits for it
UNFOLDED: Final = 8 << 20           # bytes of chunks kept for folding; beyond that they are read from the log again


class Mark:
    """Where a log stood at some time."""

    __slots__ = ("bytes", "next_index", "time")

    def __init__(self, time: float, next_index: int, bytes: int) -> None:
        self.time: float = time
        self.next_index: int = next_index
        self.bytes: int = bytes


class Holding(RingPort):
    def __init__(self, rings: Rings, front: AwayQueue, revision: int) -> None:
        self.rings: Rings = rings
        self.front: AwayQueue = front
        self.log_id: int = front.log_id
        self.revision: int = revision               # of the record that holds the machine's view
        self.state: State = State(rings.me)
        self.queue: Queue | None = None             # that serves, where this node leads
        self.trail: Trail | None = trail_from(front.log_id, None)
        self.makes_do: bool = False                 # leads with a log that lacks messages, and has not yet said which
        self.is_damaged: bool = False               # what is in the log does not count, and stays until something better comes
        self.saved: Snapshot | None = None          # the last state that the log was given, or that was found in it
        self.unfolded: deque[tuple[int, bytes]] = deque()
        self.unfolded_bytes: int = 0
        self.is_behind: bool = False                # chunks between the trail and what is unfolded are only in the log
        self.backfills: list[ReadBackfill] = []     # that wait until enough is stable
        self.woken_at: float = 1e18                 # when it is in the timers
        self.appended_bytes: int = 0
        self.trimmed_at: int = 0                    # how many had been appended then
        self.wanted_from: int = FOREVER             # who follows from outside has not read from there on
        self.marks: deque[Mark] = deque()           # where the log stood, from time to time
        self.last_piece: InstallPiece | None = None
        self.unfinished: Snapshot | None = None     # the state that a full sync has brought, for which the log is not far enough
        self.doubts: int = 0                        # how often it was not certain any more that this node leads
        self.sum_wanted: int = -1                   # the index at which the machine wants to know what the log comes to
        self.released: str = ""
        self.sentence: str = ""
        self.former: str = ""                       # who led before
        self.knew: dict[int, int] = {}              # what was known to be stable before each of the last epochs

    # --- the queue's side -------------------------------------------------------------------------------------------

    def append(self, first_index: int, count: int, chunk: bytes, *, waits: bool) -> None:
        assert self.state.role == LEADER, "who does not lead appends nothing"
        self._write(first_index, count, chunk, self.state.generation)
        if self.makes_do:
            self._end_making_do()
        self.rings.give(self, Appended(Batch(self.state.epoch, first_index, count, chunk, waits)))

    def _write(self, first: int, count: int, chunk: bytes, generation: int) -> None:
        rings = self.rings
        if self.is_damaged:
            self._begin(BeginAt(1, 0, generation))
        rings.log.append(self.log_id, first, count, chunk, sync=True)
        last = first + count - 1
        rings.note_write(self, last, generation)
        size = len(chunk)
        self.appended_bytes += size
        if self.is_behind or self.trail is None:
            return
        self.unfolded.append((last, chunk))
        self.unfolded_bytes += size
        if self.unfolded_bytes > UNFOLDED:
            self._leave_to_log()

    def found_damage(self, why: str) -> None:
        """Who leads hands over, if there is somebody; the log is taken anew then (see Rings.step_down)."""
        lives.condemn(self.rings.store, self.log_id, why)
        self.rings.log.has_written()
        if self.state.role == LEADER and len(self.state.view.ring) > 1:
            self.rings.give(self, HandOver("", leave=False))

    # --- the machine ------------------------------------------------------------------------------------------------

    def take(self, given: Input, now: float) -> None:
        """Let the machine have it, and do what it says."""
        effects = step(self.state, given, now)
        for effect in effects:
            self._perform(effect)
        if self.unfolded and self.unfolded[0][0] <= self.state.stable:
            self._fold()
        if self.sum_wanted >= 0:
            self.try_sum()
        if self.backfills:
            self._answer_backfills()
        if self.unfinished is not None:
            self.finish_sync()

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, Send):
            self.rings.send(effect.to, self.log_id, effect.message)
        elif isinstance(effect, Append):
            batch = effect.batch
            self._write(batch.first, batch.count, batch.data, effect.generation)
        elif isinstance(effect, Stable):
            queue = self.queue
            if queue is not None:
                queue.reach(effect.durable, effect.received, is_enough=effect.enough)
        elif isinstance(effect, ReadLog):
            self._read_log(effect)
        elif isinstance(effect, ProposeView):
            self.rings.host.propose(self, effect.view)
        elif isinstance(effect, ReadBackfill):
            self.backfills.append(effect)
        elif isinstance(effect, InstallPiece):
            self.last_piece = effect
            self.rings.host.install(self, effect)
        else:
            self._perform_rarely(effect)

    def _perform_rarely(self, effect: Effect) -> None:
        if isinstance(effect, CutTail):
            self._cut(effect)
        elif isinstance(effect, BeginAt):
            self._begin(effect)
        elif isinstance(effect, BecameLeader):
            self.rings.lead(self, effect)
        elif isinstance(effect, NewEpoch):
            if self.queue is not None:
                self.queue.builder.epoch = effect.epoch
                self.rings.clear_up(self)
        elif isinstance(effect, SteppedDown):
            self.rings.step_down(self, effect)
        elif isinstance(effect, KeepLive):
            self._keep_live(effect.lost_in)
        elif isinstance(effect, TakeSum):
            self.sum_wanted = effect.index
        elif isinstance(effect, Compared):
            self.rings.host.compared(self, effect)
        elif isinstance(effect, Hold):
            self._hold(is_held=effect.on)
        elif isinstance(effect, Standing):
            self._stand(effect)
        elif isinstance(effect, Released):
            self.released = effect.why
            self.rings.host.release(self)
        else:
            raise AssertionError(f"nobody does {effect!r}")

    def _hold(self, *, is_held: bool) -> None:
        queue = self.queue
        if queue is not None:
            queue.is_held = is_held
            queue.activate()
            self.rings.broker.schedule()

    def _stand(self, effect: Standing) -> None:
        self.sentence = effect.sentence
        self.rings.tell_waiting(self)
        desired = self.state.desired
        queue = self.queue
        if queue is not None:
            queue.is_enough = desired is None or len(self.state.view.ring) >= desired.min_in_sync

    # --- folding ----------------------------------------------------------------------------------------------------

    def _fold(self) -> None:
        """As far as it is stable."""
        trail = self.trail
        if trail is None:
            return
        unfolded = self.unfolded
        stable = self.state.stable if self.sum_wanted < 0 else min(self.state.stable, self.sum_wanted)
        while unfolded and unfolded[0][0] <= stable:
            last, chunk = unfolded.popleft()
            self.unfolded_bytes -= len(chunk)
            if last >= trail.next_index:
                trail.fold(chunk)
        if trail.state.orphans:
            self._keep_lost()

    def try_sum(self) -> None:
        """Say what the log comes to where that was asked for, if it is folded so far."""
        trail = self.trail
        if trail is None:
            self.sum_wanted = -1
        elif trail.next_index > self.sum_wanted:
            self.sum_wanted = -1
            state = trail.state
            self.rings.give(self, SumTaken(trail.next_index - 1, state.count, state.bytes, state.sum))
            self._fold()

    def _keep_lost(self) -> None:
        """Whoever took over by force has ended what it did not have, and this copy had it. It is still in the log here, until a
        state that knows of its end is given to the log."""
        trail = self.trail
        assert trail is not None
        rings = self.rings
        epoch = trail.state.lost_in
        why = f"it was here, and not with the node that took over in epoch {epoch} although it was not in sync"
        count = lives.keep_lost(rings.store, self.log_id, trail.state, why, rings.broker.wall(), epoch)
        if count and trail.next_index - 1 <= self.state.stable:
            self.saved = trail.snapshot()       # else a restart would put them there once more
            rings.store.put_snapshot(self.saved)
            rings.log.has_written()
        if count:
            rings.host.orphaned(self, epoch, count)

    def _keep_live(self, epoch: int) -> None:
        rings = self.rings
        nothing = Snapshot(self.log_id, 0, 1, 1, array("Q"), lost_in=epoch)
        if lives.has_orphans(rings.store, self.log_id, nothing):        # of a full sync that is not finished
            why = "it was in the copy that was set aside, and may not have been with the leader"
            if lives.keep_orphans(rings.store, self.log_id, nothing, why, rings.broker.wall()):
                rings.host.quarantined(self, why)
        if self.trail is None:
            return                              # nobody knows what in it is live
        self.catch_up(self.state.end)
        state = self.trail.state
        if state.lost_in >= epoch:
            return
        state.orphans = state.live_in(1, state.next_index - 1)
        why = f"it was here, and may not have been with the node that took over in epoch {epoch} although it was not in sync"
        count = lives.keep_lost(rings.store, self.log_id, state, why, rings.broker.wall(), epoch)
        if count:
            rings.host.orphaned(self, epoch, count)

    def _leave_to_log(self) -> None:
        self.is_behind = True
        self.unfolded.clear()
        self.unfolded_bytes = 0

    def catch_up(self, upto: int) -> None:
        """Fold everything up to there; raises QueueDamaged."""
        trail = self.trail
        assert trail is not None
        if not self.is_behind:
            while self.unfolded and self.unfolded[0][0] <= upto:
                last, chunk = self.unfolded.popleft()
                self.unfolded_bytes -= len(chunk)
                if last >= trail.next_index:
                    trail.fold(chunk)
        if trail.next_index <= upto:
            if not trail.catch_up(self.rings.store, upto):
                raise QueueDamaged(f"the log of '{self.front.name}' does not hold index {trail.next_index}")
            self._leave_to_log()
        if trail.state.orphans:
            self._keep_lost()
        if self.is_behind and trail.next_index > self.state.stable:
            self._reload(trail.next_index)

    def lacking(self, node: str) -> int | None:
        """Where this node leads: how many of its messages that mirror does not have. None where that is not known."""
        trail = self.trail
        point = self.state.learner_marks.get(node)
        if trail is None or point is None or self.is_behind or trail.next_index <= point.base:
            return None
        state = trail.state
        if point.whole:
            return 0 if point.durable >= self.state.end else None
        if sizes(state.live_in(1, trail.next_index - 1)) != state.count + len(state.transients) or state.light:
            return None             # what was folded before the newest snapshot is not known one by one
        return sizes(state.live_in(max(1, point.filled), point.base))

    def fold_on(self) -> None:
        """A piece of what was left to the log: it must not hold up anybody."""
        trail = self.trail
        if trail is not None:
            upto = min(self.state.stable, trail.next_index + (FOLD_ON if self.sum_wanted < 0 else FOLD_TO_COMPARE))
            self.catch_up(upto if self.sum_wanted < trail.next_index - 1 else min(upto, self.sum_wanted))
            if self.sum_wanted >= 0:
                self.try_sum()

    # --- keeping the log small ----------------------------------------------------------------------------------------

    def retain(self, now: float) -> None:
        """Entries of the last while are kept, though their messages are gone: who comes back soon catches up from them."""
        marks = self.marks
        next_index = self.state.end + 1
        if not marks or marks[-1].next_index != next_index:
            marks.append(Mark(now, next_index, self.appended_bytes))
        seconds, size = retention(self.front.effective_policy)
        while len(marks) > 1 and (marks[1].time < now - seconds or self.appended_bytes - marks[0].bytes > size):
            marks.popleft()
        lives.retain(self.rings.store, self.log_id, min(self.retained_from(), self.wanted_from))
        if self.appended_bytes - self.trimmed_at > TRIM_AFTER:
            self._trim()

    def retained_from(self) -> int:
        """For mirrors that may come back."""
        return self.marks[0].next_index if self.marks else 1

    def _trim(self) -> None:
        self.trimmed_at = self.appended_bytes
        if self.state.whole and self.rings.store.trim(self.log_id, self.snapshot()):
            self.rings.log.has_written()
            self.rings.give(self, Trimmed(lives.lineage(self.rings.store, self.log_id).first_kept))

    def _reload(self, first: int) -> None:
        """What the log has behind the trail, if it is not too much to keep."""
        for data in lives.read_chunks(self.rings.store, self.log_id, first, UNFOLDED // 2):
            chunk = decode_chunk(data, 0)
            first = chunk.next_index
            self.unfolded.append((first - 1, data))
            self.unfolded_bytes += len(data)
        if first > self.state.end:
            self.is_behind = False
        else:
            self._leave_to_log()

    def make_do(self) -> Trail:
        """Lead with a log that was never whole: what it has is all there is."""
        queue = self.rings.store.queue(self.log_id)
        self.saved = None if queue is None else unfilled(queue)
        self.makes_do = True
        self.trail = trail_from(self.log_id, self.saved)
        self._leave_to_log()
        return self.trail

    def _end_making_do(self) -> None:
        """The first entry of this lead names what the log lacks. Only now is the log called whole: after a crash between the two
        it would be served as if it had never lacked anything."""
        self.makes_do = False
        if self.saved is not None:
            lives.finish_install(self.rings.store, self.log_id, self.saved)
            self.rings.log.has_written()

    def snapshot(self) -> Snapshot:
        """Of what is stable: the newest that can be had."""
        trail = self.trail
        if trail is not None and self.state.whole:
            if self.is_behind and trail.next_index <= self.state.stable:
                with suppress(QueueDamaged):        # found out again by who folds on; as far as it came, it is a state
                    self.catch_up(self.state.stable)
            if trail.next_index - 1 <= self.state.stable:
                self.saved = trail.snapshot()
        saved = self.saved
        return saved if saved is not None else Snapshot(self.log_id, 0, 1, 1, array("Q"))

    # --- the log ----------------------------------------------------------------------------------------------------

    def _read_log(self, effect: ReadLog) -> None:
        batches: list[Batch] = []
        for data in lives.read_chunks(self.rings.store, self.log_id, effect.first, effect.limit):
            chunk = decode_chunk(data, 0)
            batches.append(Batch(chunk.epoch, chunk.first_index, chunk.count, data))
        if not batches:
            self.rings.give(self, Trimmed(lives.lineage(self.rings.store, self.log_id).first_kept))
        self.rings.give(self, LogRead(effect.to, effect.nonce, batches))

    def _cut(self, effect: CutTail) -> None:
        rings = self.rings
        live = self._live_behind(effect.keep) if self.state.view.forced else None
        try:
            path = lives.cut(rings.store, self.log_id, effect.keep, effect.why, rings.broker.wall())
        except CannotCut:
            self._spare_live(effect.keep, effect.why)
            raise                               # the copy is taken anew
        rings.log.has_written()
        self._rewind(effect.keep)
        if path is None:
            return
        rings.host.quarantined(self, effect.why)
        if live:
            self._note_missing(sum(entry.index in live for entry in quarantine.messages(path)))

    def spare(self, keep: int, why: str) -> None:
        """The log is about to be given up: what may be only here is kept in quarantine. Raises OSError where it cannot be."""
        rings = self.rings
        if lives.spare(rings.store, self.log_id, keep, why, rings.broker.wall()) is not None:
            rings.host.quarantined(self, why)

    def _live_behind(self, keep: int) -> RangeSet | None:
        """What may be live behind `keep`, to the end of the log; None where that is not known. The trail is folded so far, and
        must be thrown away after that."""
        trail = self.trail
        if trail is None:
            return None
        with suppress(QueueDamaged):            # what cannot be read is not there
            trail.catch_up(self.rings.store, self.rings.store.next_index(self.log_id) - 1)
        found = RangeSet()
        for low, high in pairs(trail.state.live_in(keep + 1, trail.next_index - 1)):
            found.add(low, high)
        return found

    def _spare_live(self, keep: int, why: str) -> None:
        """The log is about to be given up, and has holes: what is live behind `keep` is kept in quarantine."""
        rings = self.rings
        live = self._live_behind(keep)
        if live is None:
            self.spare(keep, why)
            return
        count = lives.spare_live(rings.store, self.log_id, live.flat(), why, rings.broker.wall())
        if count:
            rings.host.quarantined(self, why)
            self._note_missing(count)

    def _note_missing(self, count: int) -> None:
        """The record of a takeover by force is corrected. Later epochs do not know which one has cost these messages."""
        if count and self.state.view.forced:
            self.rings.host.orphaned(self, self.state.epoch, count)

    def spare_unsettled(self, why: str) -> None:
        """The same where it is not known what the others hold: they do hold what this log's state was made of."""
        rings = self.rings
        with suppress(LogError):                # what cannot be read cannot be kept
            self.spare(max(self.state.stable, lives.lineage(rings.store, self.log_id).floor), why)

    def _rewind(self, keep: int) -> None:
        """The log ends earlier than it did."""
        trail = self.trail
        self._leave_to_log()
        if trail is not None and trail.next_index > keep + 1:
            self.trail = trail_from(self.log_id, self.saved)

    def _begin(self, effect: BeginAt) -> None:
        rings = self.rings
        state = self.snapshot() if self.trail is not None and effect.first > 1 else None
        if effect.why:
            self._spare_live(effect.keep, effect.why)
        lives.begin_at(rings.store, self.log_id, effect.first, effect.before, state, differs=effect.differs)
        self.sum_wanted = -1
        rings.log.has_written()
        self.is_damaged = False
        self._leave_to_log()
        self.unfinished = None
        self.saved = None
        self.trail = None if effect.first > 1 else trail_from(self.log_id, None)
        self.is_behind = False

    def installed(self, piece: InstallPiece, state: Snapshot | None) -> None:
        """A piece of a full sync is on disk; the last one has brought the source's state."""
        if state is None:
            self.rings.give(self, PieceInstalled(piece.base, piece.next, piece.done))
        else:
            self.unfinished = state
            self.finish_sync()

    def finish_sync(self) -> None:
        """The log must have come as far as the state that was brought."""
        state = self.unfinished
        piece = self.last_piece
        store = self.rings.store
        if state is None or piece is None or store.next_index(self.log_id) < state.next_index:
            return
        if lives.has_orphans(store, self.log_id, state):
            is_lost = not store.asides[self.log_id].differs
            why = "it was here, and not with the leader"
            if is_lost:
                why = f"it was here, and not with the node that took over in epoch {state.lost_in} although it was not in sync"
            count = lives.keep_orphans(store, self.log_id, state, why, self.rings.broker.wall())
            if count and is_lost:
                self.rings.host.orphaned(self, state.lost_in, count)
            elif count:
                self.rings.host.quarantined(self, f"{count} messages were here, and not with the leader")
        if not lives.finish_install(store, self.log_id, state):
            return
        self.unfinished = None
        self.rings.log.has_written()
        self.saved = state
        self.trail = trail_from(self.log_id, state)
        self._leave_to_log()
        self.rings.give(self, PieceInstalled(piece.base, piece.next, piece.done))

    def _answer_backfills(self) -> None:
        trail = self.trail
        waiting = self.backfills
        self.backfills = []
        for wanted in waiting:
            if trail is None or self.state.role == OUTSIDE:
                continue
            if self.is_behind:
                self.catch_up(self.state.stable)
            if trail.next_index < wanted.base:
                self.backfills.append(wanted)
                continue
            state = trail.snapshot()
            piece = live_messages(self.rings.store, self.log_id, state, wanted.position, wanted.base, wanted.limit)
            self.rings.give(self, BackfillRead(wanted.to, wanted.nonce, wanted.base, piece.next, piece.data, piece.done,
                                               state.next_index - 1))


def retention(policy: dict[str, object]) -> tuple[float, int]:
    """For how many seconds, and how many bytes, entries are kept that nobody needs any more."""
    time = milliseconds(policy["log-retention"]) / 1000 if "log-retention" in policy else RETAIN_SECONDS
    size = policy.get("log-retention-bytes", RETAIN_BYTES)
    return time, size if isinstance(size, int) else RETAIN_BYTES
