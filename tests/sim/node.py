"""A simulated node: its machines, its disk, its forwarded publishes; it can crash, freeze and be slow."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from mirrormq.mirror.deadlines import NEVER
from mirrormq.mirror.machine import effects as e
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.state import State
from mirrormq.mirror.machine.step import step
from sim.server import Server
from sim.storage import Log, Packed, pack

if TYPE_CHECKING:
    from sim.world import World


class Node:
    def __init__(self, name: str, world: World, random: Random) -> None:
        self.name = name
        self.world = world
        self.random = random
        self.up = False
        self.frozen = False
        self.freezes = 0
        self.incarnation = 0
        self.crashed_at = -1.0
        self.disk_delay = 0.002
        self.disk: dict[int, Log] = {}          # what survives a crash
        self.logs: dict[int, Log] = {}
        self.states: dict[int, State] = {}
        self.servers: dict[int, Server] = {}
        self.wakes: dict[int, float] = {}
        self.dirty: set[int] = set()
        self.installed: dict[int, list[i.PieceInstalled]] = {}
        self.syncing = False
        self.backlog: list[tuple[Any, ...]] = []
        self.released: set[int] = set()

    @property
    def running(self) -> bool:
        return self.up and not self.frozen

    # coming and going

    def start(self) -> None:
        """Open the log, ask the store what is agreed, begin. Without the store it waits."""
        if self.up:
            return
        if not self.world.store.answers(self):
            self.world.clock.after(0.1, self.start)
            return
        self.up = True
        self.world.say(self.name, -1, "starts")
        for queue, view in self.world.store.views.items():
            self._start_queue(queue, view)
        self.world.network.node_returned(self)

    def _start_queue(self, queue: int, view: Any) -> None:
        fresh = queue not in self.disk
        log = self.logs[queue] = self.disk[queue].copy() if not fresh else Log()
        if fresh:
            self.disk[queue] = Log()
        self.states[queue] = State(self.name, self.world.rules)
        self.servers[queue] = Server(self, queue)
        self.wakes[queue] = NEVER
        fresh = fresh and (view.epoch == 1 or self.name not in view.ring)
        for peer in self.world.network.peers_of(self):
            self.give(queue, i.LinkUp(peer))
        self.give(queue, i.Started(view, log.lineage(), log.whole, fresh))
        self.give(queue, i.Trimmed(log.first_kept))
        self.give(queue, i.SetDesired(self.world.desired[queue]))

    def crash(self, *, silently: bool) -> None:
        self.world.say(self.name, -1, "crashes")
        self.up = False
        self.frozen = False
        self.incarnation += 1
        self.crashed_at = self.world.clock.now
        self.states, self.servers, self.logs = {}, {}, {}
        self.dirty, self.installed, self.backlog, self.syncing = set(), {}, [], False
        self.world.network.node_died(self, silently=silently)
        self.world.clients.node_died(self)

    def freeze(self) -> None:
        if self.running:
            self.world.say(self.name, -1, "freezes")
            self.frozen = True
            self.freezes += 1
            self.world.network.node_froze(self)

    def thaw(self) -> None:
        if self.up and self.frozen:
            self.world.say(self.name, -1, "thaws")
            self.frozen = False
            backlog, self.backlog = self.backlog, []
            for do, *args in backlog:
                do(*args)
            self.world.network.node_returned(self)

    # inputs

    def hear(self, sender: str, number: int, what: tuple[Any, ...]) -> None:
        if self.frozen:
            self.backlog.append((self._heard, sender, what))
        else:
            self._heard(sender, what)

    def _heard(self, sender: str, what: tuple[Any, ...]) -> None:
        kind = what[0]
        if kind == "ring":
            self.give(what[1], i.Received(sender, what[2]))
        elif kind == "up" or kind == "down":
            for queue in list(self.states):
                self.give(queue, i.LinkUp(sender) if kind == "up" else i.LinkDown(sender))
            self.world.clients.link_changed(self, sender, up=kind == "up")
        elif kind == "publish":
            self.servers[what[1]].publish(*what[2:])
        elif kind == "answer":
            self.world.clients.answered(self, *what[1:])

    def later(self, incarnation: int, queue: int, given: i.Input) -> None:
        """An input that was under way: it is lost if the node has died since."""
        if incarnation != self.incarnation or not self.up:
            return
        if self.frozen:
            self.backlog.append((self.later, incarnation, queue, given))
        else:
            self.give(queue, given)

    def give(self, queue: int, given: i.Input) -> None:
        state = self.states.get(queue)
        if state is None:
            return
        epoch = state.epoch
        effects = step(state, given, self.world.clock.now)
        if self.world.tracing:
            self.world.say(self.name, queue, f"{given!r} -> {effects}")
        for effect in effects:
            self._do(queue, state, effect)
        if state.wake_at < self.wakes[queue]:
            self.wakes[queue] = state.wake_at
            self.world.clock.at(state.wake_at, self._wake, self.incarnation, queue, state.wake_at)
        if state.epoch != epoch:
            self.world.clients.view_changed(self, queue)

    def _wake(self, incarnation: int, queue: int, time: float) -> None:
        if incarnation != self.incarnation or not self.up:
            return
        if self.frozen:
            self.backlog.append((self._wake, incarnation, queue, time))
            return
        if time == self.wakes[queue]:
            self.wakes[queue] = NEVER
        state = self.states[queue]
        if state.wake_at <= self.world.clock.now:
            self.give(queue, i.Tick())
            assert state.wake_at > self.world.clock.now, "a tick leaves nothing behind that is due"
        elif state.wake_at < self.wakes[queue]:
            self.wakes[queue] = state.wake_at
            self.world.clock.at(state.wake_at, self._wake, incarnation, queue, state.wake_at)

    def store_noticed(self, *, reachable: bool) -> None:
        self.world.say(self.name, -1, f"sees the store {'again' if reachable else 'no longer'}")

    # effects

    def _do(self, queue: int, state: State, effect: e.Effect) -> None:
        do = EFFECTS.get(type(effect))
        if do is not None:
            do(self, queue, effect)

    def _send(self, queue: int, effect: e.Send) -> None:
        self.world.network.send(self, effect.to, ("ring", queue, effect.message))

    def _append(self, queue: int, effect: e.Append) -> None:
        self.logs[queue].append(effect.batch)
        self.world.checks.appended(self, queue, effect.batch)
        self.touch(queue)

    def _cut(self, queue: int, effect: e.CutTail) -> None:
        gone = self.logs[queue].cut(effect.keep)
        self.world.checks.cut(self, queue, gone)
        self.touch(queue)

    def _begin_at(self, queue: int, effect: e.BeginAt) -> None:
        self.logs[queue].begin_at(effect.first, effect.before)
        self.touch(queue)

    def _propose(self, queue: int, effect: e.ProposeView) -> None:
        self.world.store.propose(self, queue, effect.view)

    def _read_log(self, queue: int, effect: e.ReadLog) -> None:
        batches = self.logs[queue].read(effect.first, 8)
        answer = i.LogRead(effect.to, effect.nonce, batches)
        self.world.clock.after(0.001, self.later, self.incarnation, queue, answer)

    def _take_sum(self, queue: int, effect: e.TakeSum) -> None:
        """When the log has come so far."""
        log = self.logs[queue]
        if log.end < effect.index:
            self.world.clock.after(0.005, self._again, self.incarnation, queue, effect)
            return
        live = log.live(effect.index)
        answer = i.SumTaken(effect.index, len(live), 0, sum(index * index for index in live))
        self.world.clock.after(0.001, self.later, self.incarnation, queue, answer)

    def _again(self, incarnation: int, queue: int, effect: e.TakeSum) -> None:
        if incarnation == self.incarnation and self.up and queue in self.states:
            self._take_sum(queue, effect)

    def _compared(self, queue: int, effect: e.Compared) -> None:
        if not effect.are_equal:
            self.world.checks.differs(self, queue, effect)

    def _read_backfill(self, queue: int, effect: e.ReadBackfill) -> None:
        log = self.logs[queue]
        found = sorted((index, entry) for index, entry in log.live().items() if effect.position <= index < effect.base)[:4]
        done = len(found) < 4
        data = pack(found, self.servers[queue].dump() if done else [])
        following = found[-1][0] + 1 if found else effect.base
        answer = i.BackfillRead(effect.to, effect.nonce, effect.base, following, data, done, log.end)
        self.world.clock.after(0.001, self.later, self.incarnation, queue, answer)

    def _install(self, queue: int, effect: e.InstallPiece) -> None:
        assert isinstance(effect.data, Packed)
        found, ledger = effect.data.content
        log = self.logs[queue]
        log.below.update(found)
        if effect.done:
            log.whole = True
            log.ledger = ledger
        self.installed.setdefault(queue, []).append(i.PieceInstalled(effect.base, effect.next, effect.done))
        self.touch(queue)

    def _lead(self, queue: int, effect: e.BecameLeader) -> None:
        self.logs[queue].whole = True
        self.world.checks.leads(self, queue, effect.epoch, forced=effect.forced)
        self.servers[queue].begin()

    def _new_epoch(self, queue: int, effect: e.NewEpoch) -> None:
        self.world.checks.leads(self, queue, effect.epoch, forced=False)

    def _stable(self, queue: int, effect: e.Stable) -> None:
        self.servers[queue].stable(effect.durable, effect.received)

    def _step_down(self, queue: int, effect: e.SteppedDown) -> None:
        self.servers[queue].end()

    def _released(self, queue: int, effect: e.Released) -> None:
        self.released.add(queue)

    # the disk

    def touch(self, queue: int) -> None:
        self.dirty.add(queue)
        if not self.syncing:
            self.syncing = True
            self.world.clock.after(0.0002, self._sync, self.incarnation)

    def _sync(self, incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        taken = [(queue, self.states[queue].generation, self.logs[queue].copy(), self.installed.pop(queue, [])) for queue in
                 sorted(self.dirty)]
        self.dirty.clear()
        self.world.clock.after(self.random.uniform(0.5, 1.5) * self.disk_delay, self._synced, incarnation, taken)

    def _synced(self, incarnation: int, taken: list[tuple[int, int, Log, list[i.PieceInstalled]]]) -> None:
        if incarnation != self.incarnation:
            return
        for queue, _, log, _ in taken:
            self.disk[queue] = log
        if self.dirty:
            self._sync(incarnation)
        else:
            self.syncing = False
        for queue, generation, log, installed in taken:
            self.later(incarnation, queue, i.Durable(log.end, generation))
            for piece in installed:
                self.later(incarnation, queue, piece)


EFFECTS: dict[type, Any] = {
    e.Send: Node._send,
    e.Append: Node._append,
    e.CutTail: Node._cut,
    e.BeginAt: Node._begin_at,
    e.ProposeView: Node._propose,
    e.ReadLog: Node._read_log,
    e.TakeSum: Node._take_sum,
    e.Compared: Node._compared,
    e.ReadBackfill: Node._read_backfill,
    e.InstallPiece: Node._install,
    e.BecameLeader: Node._lead,
    e.NewEpoch: Node._new_epoch,
    e.Stable: Node._stable,
    e.SteppedDown: Node._step_down,
    e.Released: Node._released,
}
