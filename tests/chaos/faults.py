"""The faults of a round, drawn from a seed: each begins at a time, and what it does is undone after a while.

A plan names nodes and members of etcd by number and does not look at the cluster, so a seed gives the same plan every time. A
fault that finds its node down already does nothing.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chaos.world import World

Json = dict[str, Any]
Undo = Callable[[], None]
FORCED = {"ha-promote-on-failure": "always", "ha-promote-on-shutdown": "always"}
QUIET = 3.0             # mean seconds from one fault to the next


@dataclass(frozen=True)
class Fault:
    at: float
    kind: str
    lasts: float
    nodes: tuple[int, ...]      # all nodes in a random order: a fault takes as many as it needs from the front
    member: int                 # of etcd
    policy: Json | None         # None: no policy
    choice: float               # from 0 to 1, for what remains to be chosen

    def __str__(self) -> str:
        return f"{self.kind} {self.lasts:.1f} s (nodes {self.nodes}, etcd {self.member})"


# How often each is drawn, compared with the others.
WEIGHTS = {
    "kill": 6, "stop": 3, "freeze": 5, "kill all": 1, "slow disk": 3,
    "cut": 4, "cut one way": 4, "isolate": 3, "cut from etcd": 2,
    "kill etcd": 2, "freeze etcd": 2, "etcd outage": 1, "policy": 5, "move": 5, "rebalance": 1,
}


def draw(seed: str, seconds: float, nodes: int, members: int, kinds: list[str]) -> list[Fault]:
    """A plan for a round of that length."""
    chance = random.Random(seed)
    names = [kind for kind in WEIGHTS if kind in kinds]
    weights = [WEIGHTS[kind] for kind in names]
    plan: list[Fault] = []
    at = chance.expovariate(1 / QUIET)
    while at < seconds:
        order = list(range(nodes))
        chance.shuffle(order)
        lasts = chance.choice((0.2, 1.0, 2.5, 5.0, 11.0)) * chance.uniform(0.7, 1.3)
        kind = chance.choices(names, weights)[0]
        plan.append(Fault(at, kind, min(lasts, seconds - at), tuple(order), chance.randrange(members), policy(chance, nodes),
                          chance.random()))
        at += chance.expovariate(1 / QUIET)
    return plan


def policy(chance: random.Random, nodes: int) -> Json | None:
    """A definition with the numbers of nodes in place of names; see `World.set_policy`."""
    mode = chance.choice(("all", "exactly", "nodes", "none"))
    if mode == "none":
        return None
    definition: Json = {"ha-mode": mode, "ha-sync-mode": chance.choice(("automatic", "manual"))}
    if mode == "exactly":
        definition["ha-params"] = chance.randint(1, nodes)
    elif mode == "nodes":
        definition["ha-params"] = chance.sample(range(nodes), chance.randint(1, nodes))
    return definition


def apply(world: World, fault: Fault) -> Undo | None:
    """Begin the fault. Returns what ends it."""
    return ACTIONS[fault.kind](world, fault)


def _kill(world: World, fault: Fault) -> Undo:
    node = world.nodes[fault.nodes[0]]
    node.kill()
    return node.start


def _kill_all(world: World, fault: Fault) -> Undo:
    for node in world.nodes:
        node.kill()

    def undo() -> None:
        for number in fault.nodes:
            world.nodes[number].start()

    return undo


def _stop(world: World, fault: Fault) -> Undo:
    node = world.nodes[fault.nodes[0]]
    node.send(signal.SIGCONT)
    node.send(signal.SIGTERM)
    node.is_stopping = True

    def undo() -> None:
        world.end_cleanly(node)
        node.start()

    return undo


def _freeze(world: World, fault: Fault) -> Undo:
    node = world.nodes[fault.nodes[0]]
    node.send(signal.SIGSTOP)
    return lambda: node.send(signal.SIGCONT)


def _slow_disk(world: World, fault: Fault) -> Undo:
    """Its disk stands still while the node answers: the processes that sync its files are frozen."""
    helpers = world.nodes[fault.nodes[0]].helpers()

    def send(number: int) -> None:
        for helper in helpers:
            with suppress(ProcessLookupError):
                os.kill(helper, number)

    send(signal.SIGSTOP)
    return lambda: send(signal.SIGCONT)


def _cut(world: World, fault: Fault) -> Undo:
    one, other = (world.nodes[number].machine for number in fault.nodes[:2])
    return world.cut([(one, other), (other, one)])


def _cut_one_way(world: World, fault: Fault) -> Undo:
    one, other = (world.nodes[number].machine for number in fault.nodes[:2])
    return world.cut([(one, other)])


def _isolate(world: World, fault: Fault) -> Undo:
    """From all nodes and from etcd; its clients still reach it."""
    alone = world.nodes[fault.nodes[0]].machine
    others = [machine for machine in world.network.machines if machine is not alone]
    return world.cut([(alone, other) for other in others] + [(other, alone) for other in others])


def _cut_from_etcd(world: World, fault: Fault) -> Undo:
    node = world.nodes[fault.nodes[0]].machine
    members = [member.machine for member in world.members]
    return world.cut([(node, member) for member in members] + [(member, node) for member in members])


def _kill_etcd(world: World, fault: Fault) -> Undo:
    member = world.members[fault.member]
    member.kill()
    return member.start


def _freeze_etcd(world: World, fault: Fault) -> Undo:
    member = world.members[fault.member]
    member.send(signal.SIGSTOP)
    return lambda: member.send(signal.SIGCONT)


def _etcd_outage(world: World, fault: Fault) -> Undo:
    def send(number: int) -> None:
        for member in world.members:
            member.send(number)

    send(signal.SIGSTOP)
    return lambda: send(signal.SIGCONT)


def _policy(world: World, fault: Fault) -> None:
    """Every third one is for the queue whose mirrors lead also where they are not in sync."""
    if fault.choice < 1 / 3 and fault.policy is not None:
        forced = fault.policy | FORCED
        world.later(lambda: world.set_policy("forced", forced))
    else:
        world.later(lambda: world.set_policy("mirrored", fault.policy))


def _move(world: World, fault: Fault) -> None:
    queue = world.mirrored[int(fault.choice * len(world.mirrored))]
    world.later(lambda: world.move(queue, world.nodes[fault.nodes[0]]))


def _rebalance(world: World, fault: Fault) -> None:
    world.later(lambda: world.ask("POST", "rebalance/queues", {}))


ACTIONS: dict[str, Callable[[World, Fault], Undo | None]] = {
    "kill": _kill, "stop": _stop, "freeze": _freeze, "kill all": _kill_all, "cut": _cut, "cut one way": _cut_one_way,
    "isolate": _isolate, "cut from etcd": _cut_from_etcd, "slow disk": _slow_disk, "kill etcd": _kill_etcd,
    "freeze etcd": _freeze_etcd, "etcd outage": _etcd_outage, "policy": _policy, "move": _move, "rebalance": _rebalance,
}
