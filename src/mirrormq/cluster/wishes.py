"""What a queue's policy wants of its mirrors, as RabbitMQ chooses them: a pure function of the policy and of who is there.

Rules
 1. `all`: every member of the cluster. `exactly`: so many, first those that are mirrors already, oldest first. `nodes`:
    those that are named; the leader stays if it is among them, or if nothing else is in sync. Whenever the lead is given away,
    the order of the names is the order of preference.
 2. Nodes that are down do not count. But one that holds a copy and is still wanted keeps it, to catch up when it is back; with
    `exactly` only where nobody else can have one.
 3. Mirroring that the policy does not ask for ends: the leader goes on alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirrormq.broker.arguments import UNSET, milliseconds
from mirrormq.mirror.machine.records import Desired

_WISHES: Final = ("members", "leader", "automatic", "min_in_sync", "asynchronous", "gather", "promote_after_crash",
                  "promote_after_stop", "rate", "order")

Pick = Callable[[Sequence[str], int], list[str]]
"""So many of these, at random."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A queue as it is: who leads, its mirrors from the oldest, and which of them are in sync."""

    leader: str
    mirrors: tuple[str, ...] = ()
    synced: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Nodes:
    members: tuple[str, ...]
    running: tuple[str, ...]


def choose(definition: Mapping[str, object], now: Standing, running: Sequence[str], pick: Pick) -> tuple[str, tuple[str, ...]]:
    """(leader, mirrors) that the policy suggests, of nodes that run."""
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    if mode == "all":
        return now.leader, tuple(name for name in running if name != now.leader)
    if mode == "exactly" and isinstance(params, int):
        return now.leader, _exactly(params - 1, now, running, pick)
    if mode == "nodes" and isinstance(params, list):
        return _named([str(name) for name in params], now, running)
    return now.leader, ()


def _exactly(count: int, now: Standing, running: Sequence[str], pick: Pick) -> tuple[str, ...]:
    kept = [name for name in now.mirrors if name in running and name != now.leader][:count]
    others = [name for name in running if name != now.leader and name not in kept]
    return (*kept, *pick(others, min(count - len(kept), len(others))))


def _named(named: list[str], now: Standing, running: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    wanted = named if now.synced or now.leader in named else [now.leader, *named]
    there = [name for name in wanted if name in running]
    if not there:
        return now.leader, ()
    if now.leader in there:
        leader = now.leader
    else:
        listed = [name for name in there if name in now.synced]
        leader = listed[0] if listed else (now.synced[0] if now.synced else now.leader)
    return leader, tuple(name for name in there if name != leader)


def desired(definition: Mapping[str, object], now: Standing, nodes: Nodes, pick: Pick, *, rate: int, revision: int,
            gather: float = 0.0) -> Desired:
    """All that the policy says of a queue's ring. `gather` is for policies without `sync-interval`, in seconds."""
    leader, mirrors = choose(definition, now, nodes.running, pick)
    members = (leader, *mirrors, *_absent(definition, now, nodes, len(mirrors)))
    if now.leader not in members and leader == now.leader:
        members = (now.leader, *members)
    after_failure = definition.get("ha-promote-on-failure")
    after_stop = definition.get("ha-promote-on-shutdown")
    least = definition.get("ha-min-in-sync")
    interval = milliseconds(definition.get("sync-interval"))
    return Desired(
        members, leader if leader != now.leader else "",
        automatic=definition.get("ha-sync-mode") == "automatic",
        min_in_sync=least if isinstance(least, int) and "ha-mode" in definition else 1,
        asynchronous=definition.get("ha-replication") == "async",
        promote_after_crash=after_failure == "always",
        promote_after_stop=after_stop == "always" and after_failure != "when-synced",
        rate=rate, revision=revision, order=_order(definition), gather=gather if interval == UNSET else interval / 1000,
    )


def is_same(one: Desired, other: Desired | None) -> bool:
    """Whatever the revision."""
    return other is not None and all(getattr(one, name) == getattr(other, name) for name in _WISHES)


def _order(definition: Mapping[str, object]) -> tuple[str, ...]:
    params = definition.get("ha-params")
    if definition.get("ha-mode") == "nodes" and isinstance(params, list):
        return tuple([str(name) for name in params])
    return ()


def _absent(definition: Mapping[str, object], now: Standing, nodes: Nodes, mirrors: int) -> list[str]:
    """Mirrors that are down and still wanted."""
    away = [name for name in now.mirrors if name not in nodes.running and name in nodes.members]
    mode, params = definition.get("ha-mode"), definition.get("ha-params")
    if mode == "all":
        return away
    if mode == "nodes" and isinstance(params, list):
        return [name for name in away if name in params]
    if mode == "exactly" and isinstance(params, int):
        return away[:max(0, params - 1 - mirrors)]
    return []


def first_ring(definition: Mapping[str, object], home: str, running: Sequence[str], pick: Pick) -> list[str]:
    """A new queue's leader and mirrors; empty if it is not mirrored."""
    if "ha-mode" not in definition:
        return []
    leader, mirrors = choose(definition, Standing(home), running, pick)
    return [leader, *mirrors]
