"""One simulated cluster, made and run from one seed."""

from __future__ import annotations

from random import Random

from mirrormq.mirror.machine import inputs as i
from mirrormq.mirror.machine.records import Desired, View
from mirrormq.mirror.machine.rules import Rules
from mirrormq.mirror.machine.state import LEADER, State
from sim.checks import Checks, Truth, Violation
from sim.clients import Clients
from sim.clock import Clock
from sim.faults import Faults
from sim.network import Network
from sim.node import Node
from sim.store import Store

HEALED_WITHIN = 40.0
"""Seconds after the last fault in which everything must be well again."""


class World:
    def __init__(self, seed: int, rules: Rules | None = None, *, tracing: bool = False) -> None:
        self.seed = seed
        self.random = random = Random(seed)
        self.rules = rules if rules is not None else Rules()
        self.tracing = tracing
        self.trace: list[str] = []
        self.clock = Clock()
        self.network = Network(self.clock, random)
        self.store = Store(self.clock, random)
        self.checks = self.store.checks = Checks(self)
        self.clients = Clients(self, random)
        self.desired: dict[int, Desired] = {}
        self.revision = 0
        self.interval = random.choice((0.02, 0.05, 0.1))
        self.transient = random.choice((0.0, 0.0, 0.3))
        names = [f"n{number}" for number in range(1, random.choice((3, 3, 4, 5)) + 1)]
        self.nodes = {name: Node(name, self, random) for name in names}
        self.store.nodes = list(self.nodes.values())
        self._make_links()
        self._make_queues(random.choice((1, 1, 1, 2)))

    def _make_links(self) -> None:
        nodes = self.store.nodes
        for position, one in enumerate(nodes):
            for other in nodes[position + 1 :]:
                self.network.add(one, other)

    def _make_queues(self, count: int) -> None:
        for queue in range(1, count + 1):
            members = self.random.sample(list(self.nodes), min(self.random.choice((2, 3, 3, 4, 5)), len(self.nodes)))
            self.desired[queue] = self.make_desired(tuple(members))
            truth = self.checks.truths[queue] = Truth()
            truth.lossy = self.desired[queue].asynchronous
            together = self.random.random() < 0.7
            ring, learners = (tuple(members), ()) if together else (tuple(members[:1]), tuple(members[1:]))
            self.store.views[queue] = self.checks.views[queue, 1] = View(1, ring, learners, "the queue was declared")

    def make_desired(self, members: tuple[str, ...]) -> Desired:
        chance = self.random.random
        return Desired(
            members,
            leader=members[0] if chance() < 0.2 else "",
            automatic=chance() < 0.8,
            min_in_sync=2 if chance() < 0.1 and len(members) > 1 else 1,
            asynchronous=chance() < 0.05,
            promote_after_crash=chance() < 0.08,
            rate=20 if chance() < 0.3 else 0,
            revision=self.next_revision(),
            order=tuple(sorted(members)) if self.revision % 3 == 0 else (),
        )

    def next_revision(self) -> int:
        self.revision += 1
        return self.revision

    def say(self, who: str, queue: int, what: str) -> None:
        if self.tracing:
            self.trace.append(f"{self.clock.now:9.4f} {who:>5} {f'q{queue}' if queue > 0 else '  '} {what}")

    def set_desired(self, queue: int, desired: Desired) -> None:
        """A policy has changed; each node hears of it when it does."""
        self.desired[queue] = desired
        self.checks.truths[queue].lossy |= desired.asynchronous
        self.say("cli", queue, f"wants {desired}")
        for node in self.nodes.values():
            delay = self.random.uniform(0.0, 0.1)
            self.clock.after(delay, self._give_desired, node, queue)

    def _give_desired(self, node: Node, queue: int) -> None:
        if node.up:
            node.later(node.incarnation, queue, i.SetDesired(self.desired[queue]))

    def run(self) -> None:
        self.network.open_all()
        for node in self.nodes.values():
            node.start()
        self.clients.start(list(self.desired), self.random.randint(1, 2))
        faults = Faults(self, self.random)
        self.clock.run_until(faults.spread())
        faults.heal()
        self.clock.run_until(self.clock.now + 0.3)
        self.clients.ended = True
        deadline = self.clock.now + HEALED_WITHIN
        if not self.clock.run_until(deadline, self._is_well):
            self.checks.fail(f"(5) not well {HEALED_WITHIN} s after healing: {self._complaint()}")
        for queue in self.desired:
            self.checks.in_the_end(queue)

    def _is_well(self) -> bool:
        return not self._complaint()

    def _complaint(self) -> str:
        if self.clients.waiting:
            return f"{self.clients.waiting} publishes were never answered; {self._states()}"
        for queue, desired in self.desired.items():
            view = self.store.views[queue]
            if set(view.ring) != set(desired.members) or view.learners:
                return f"queue {queue} has {view}, wanted is {desired}; {self._states()}"
            states = [self.nodes[name].states[queue] for name in view.ring if self.nodes[name].running]
            if len(states) < len(view.ring) or states[0].role != LEADER or not at_rest(states, view.epoch):
                return f"the ring of queue {queue} is not at rest; {self._states()}"
        return ""

    def _states(self) -> str:
        return "; ".join(f"q{queue} {state}" for node in self.nodes.values() for queue, state in sorted(node.states.items()))


def at_rest(states: list[State], epoch: int) -> bool:
    return all(state.end == states[0].stable and state.epoch == epoch for state in states)


def run_seed(seed: int, rules: Rules | None = None) -> str:
    """The violation that the seed leads to, or nothing."""
    world = World(seed, rules)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001  # whatever breaks is a finding, and names its seed
        return describe(error)
    return ""


def describe(error: Exception) -> str:
    if isinstance(error, Violation):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place is not None else ""
    return f"{type(error).__name__}: {error} at {where}"
