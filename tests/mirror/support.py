"""A few machines side by side, with every step in the test's hands: links, disks, the store, the clock."""

from __future__ import annotations

from collections import deque

from mirrormq.mirror.machine import effects as e
from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.lineage import Lineage
from mirrormq.mirror.machine.records import Batch, Desired, View
from mirrormq.mirror.machine.state import LEADER, State
from mirrormq.mirror.machine.step import step


class Cluster:
    """Messages arrive at once, unless the link is down; disks sync at once, unless held; the store swaps at once, unless down."""

    def __init__(self, view: View, *names: str, desired: Desired | None = None) -> None:
        self.view = view
        self.desired = desired or Desired(view.ring + view.learners)
        self.names = names or view.ring + view.learners
        self.now = 0.0
        self.states: dict[str, State] = {}
        self.logs: dict[str, list[Batch]] = {name: [] for name in self.names}
        self.quarantine: dict[str, list[Batch]] = {name: [] for name in self.names}
        self.sums: dict[str, tuple[int, int, int]] = {}     # what copies come to, where that is not all the same
        self.held_disks: set[str] = set()
        self.held_sums: set[str] = set()
        self.store_down = False
        self.down: set[str] = set()
        self.happened: list[tuple[str, e.Effect]] = []
        self.pieces: list[tuple[str, e.InstallPiece]] = []
        self.inbox: deque[tuple[str, i.Input]] = deque()
        for name in self.names:
            self.states[name] = State(name)
            self.states[name].linked = set(self.names) - {name}
        for name in self.names:
            self._begin(name, fresh=True, amnesiac=False)

    def start(self, name: str, *, amnesiac: bool = False) -> None:
        """Again, after a crash."""
        self.down.discard(name)
        self.states[name] = State(name)
        self._begin(name, fresh=False, amnesiac=amnesiac)
        for peer in self.names:
            if peer != name and peer not in self.down:
                self.link(name, peer)

    def _begin(self, name: str, *, fresh: bool, amnesiac: bool) -> None:
        lineage = Lineage()
        for batch in self.logs[name]:
            lineage.extend(batch.epoch, batch.count)
        self.give(name, i.Started(self.view, lineage, True, fresh, amnesiac))
        self.give(name, i.SetDesired(self.desired))

    def crash(self, name: str, *, lose: int = 0) -> None:
        """The process dies; `lose` batches at the end of its log were not on disk."""
        self.down.add(name)
        del self.logs[name][len(self.logs[name]) - lose :]
        for peer in self.names:
            if peer != name and peer not in self.down:
                self.give(peer, i.LinkDown(name))

    def link(self, one: str, other: str) -> None:
        self.give_all((one, i.LinkUp(other)), (other, i.LinkUp(one)))

    def cut(self, one: str, other: str) -> None:
        self.give(one, i.LinkDown(other))
        self.give(other, i.LinkDown(one))

    def want(self, desired: Desired) -> None:
        """The leader hears of it last, so that all know when it acts."""
        self.desired = desired
        leader = self.leader
        for name in (*[name for name in self.names if name != leader], leader):
            self.give(name, i.SetDesired(desired))

    def append(self, *, waits: bool = False) -> Batch:
        leader = self.leader
        state = self.states[leader]
        batch = Batch(state.epoch, state.end + 1, 1, b"x", waits)
        self.logs[leader].append(batch)
        self.give(leader, i.Appended(batch))
        self.sync(leader)
        return batch

    def sync(self, name: str) -> None:
        if name not in self.held_disks and name not in self.down:
            state = self.states[name]
            self.give(name, i.Durable(state.end, state.generation))

    def release_disk(self, name: str) -> None:
        self.held_disks.discard(name)
        self.sync(name)

    def wait(self, seconds: float) -> None:
        """Time passes; machines are woken when they want to be."""
        until = self.now + seconds
        while True:
            wakes = [(state.wake_at, name) for name, state in self.states.items() if name not in self.down]
            at, name = min(wakes)
            if at > until:
                break
            self.now = max(self.now, at)
            self.give(name, i.Tick())
            assert self.states[name].wake_at > self.now, "a tick leaves nothing behind that is due"
        self.now = until

    @property
    def leader(self) -> str:
        leaders = [name for name, state in self.states.items() if state.role == LEADER and name not in self.down]
        return max(leaders, key=lambda name: self.states[name].epoch)

    @property
    def stable(self) -> int:
        return self.answers(self.leader)[-1].durable if self.answers(self.leader) else 0

    def answers(self, name: str) -> list[e.Stable]:
        return [effect for who, effect in self.happened if who == name and isinstance(effect, e.Stable)]

    def did(self, name: str, kind: type[e.Effect]) -> list[e.Effect]:
        return [effect for who, effect in self.happened if who == name and isinstance(effect, kind)]

    def give(self, name: str, given: i.Input) -> None:
        self.give_all((name, given))

    def give_all(self, *inputs: tuple[str, i.Input]) -> None:
        idle = not self.inbox
        self.inbox.extend(inputs)
        while idle and self.inbox:
            who, what = self.inbox[0]
            if who not in self.down and not (isinstance(what, i.Received) and what.sender not in self.states[who].linked):
                for effect in step(self.states[who], what, self.now):
                    self.happened.append((who, effect))
                    self._do(who, effect)
            self.inbox.popleft()

    def later(self, name: str, given: i.Input) -> None:
        self.inbox.append((name, given))

    def _do(self, who: str, effect: e.Effect) -> None:
        if isinstance(effect, e.Send):
            if effect.to in self.states[who].linked:
                self.later(effect.to, i.Received(who, effect.message))
        elif isinstance(effect, e.Append):
            self.logs[who].append(effect.batch)
            if who not in self.held_disks:
                self.later(who, i.Durable(effect.batch.last, effect.generation))
        elif isinstance(effect, e.CutTail):
            self.quarantine[who] += [batch for batch in self.logs[who] if batch.first > effect.keep]
            self.logs[who] = [batch for batch in self.logs[who] if batch.first <= effect.keep]
        elif isinstance(effect, e.BeginAt):
            self.logs[who] = []
        elif isinstance(effect, e.ProposeView):
            self._propose(who, effect.view)
        elif isinstance(effect, e.ReadLog):
            batches = [batch for batch in self.logs[who] if batch.first >= effect.first]
            self.later(who, i.LogRead(effect.to, effect.nonce, batches))
        elif isinstance(effect, e.ReadBackfill):
            upto = self.states[who].end
            following = min(effect.position + 1, effect.base)
            done = following == effect.base
            self.later(who, i.BackfillRead(effect.to, effect.nonce, effect.base, following, b"m", done, upto))
        elif isinstance(effect, e.TakeSum) and who not in self.held_sums:
            self.later(who, i.SumTaken(effect.index, *self.sums.get(who, (0, 0, 0))))
        elif isinstance(effect, e.InstallPiece):
            self.pieces.append((who, effect))
            self.later(who, i.PieceInstalled(effect.base, effect.next, effect.done))

    def _propose(self, who: str, view: View) -> None:
        if self.store_down:
            self.later(who, i.ProposalFailed(view.epoch))
            return
        if view.epoch == self.view.epoch + 1:
            self.view = view
        for name in self.names:
            self.later(name, i.ViewSeen(self.view))


def three(**wishes: object) -> Cluster:
    desired = Desired(("a", "b", "c"), **wishes)  # type: ignore[arg-type]  # each test names its own
    return Cluster(View(1, ("a", "b", "c")), desired=desired)
