"""What must hold when everything is healed and nobody does anything any more."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mirrormq.log.entries import TRANSIENT
from mirrormq.log.snapshot import Snapshot, is_live
from mirrormq.mirror.machine.state import LEADER
from simnodes.node import SimNode

if TYPE_CHECKING:
    from simnodes.world import World

PLACE = "meta/"


def record_of(world: World, queue: str) -> dict[str, Any] | None:
    item = world.server.items.get(PLACE + json.dumps(["queue", "/", queue], separators=(",", ":")))
    if item is None:
        item = world.server.items.get(PLACE + json.dumps(["queue", "/", queue]))
    record: dict[str, Any] | None = None if item is None else json.loads(item.value)
    return record


def by_name(world: World, name: str) -> SimNode:
    return world.machines[name]


def not_in_sync(world: World, queue: str, size: int) -> str:
    """Why the queue does not have so many copies in sync, or nothing."""
    record = record_of(world, queue)
    if record is None:
        return "it does not exist"
    if "view" not in record:
        return "it is not mirrored" if size > 1 else ""
    ring, learners = record["view"]["ring"], record["view"]["learners"]
    if len(ring) < size:
        return f"its ring is {ring}, its learners {learners}"
    for name in ring:
        node = by_name(world, name)
        holding = node.holdings().get(record["id"])
        if holding is None:
            return f"{name} of its ring {ring} does not hold it"
        if (holding.state.role == LEADER) != (name == ring[0]):
            return f"{name} of its ring {ring} has the role {holding.state.role} in epoch {holding.state.epoch}"
    leader = by_name(world, ring[0]).holdings()[record["id"]]
    if leader.state.stable < leader.state.end:
        return f"its leader {ring[0]} has {leader.state.end} entries, of which {leader.state.stable} are stable"
    return ""


def contents(node: SimNode, log_id: int, snapshot: Snapshot) -> list[tuple[int, bytes]]:
    """The persistent messages that are live in a node's own log."""
    assert node.runtime is not None
    store = node.runtime.log.store
    found: list[tuple[int, bytes]] = []
    index = 1
    while index < snapshot.next_index:
        entries = store.read(log_id, index, 1 << 20)
        if not entries:
            break
        found += [(entry.index, bytes(entry.content)) for entry in entries
                  if not entry.flags & TRANSIENT and entry.index < snapshot.next_index
                  and is_live(snapshot, entry.index, entry.index + 1)]
        index = entries[-1].index + 1
    return found


def compare_members(world: World, queue: str) -> str:
    """How the members that count as in sync differ, or nothing."""
    record = record_of(world, queue)
    if record is None or "view" not in record:
        return ""
    ring, log_id = record["view"]["ring"], record["id"]
    first: tuple[int, list[tuple[int, bytes]]] | None = None
    for name in ring:
        node = by_name(world, name)
        holding = node.holdings().get(log_id)
        if holding is None or node.loop is None:
            return f"{name} counts as in sync and holds nothing"
        snapshot = node.loop.run_inside(holding.snapshot)
        mine = (snapshot.next_index, node.loop.run_inside(contents, node, log_id, snapshot))
        if first is None:
            first = mine
        elif mine[0] != first[0]:
            return f"{ring[0]} has {first[0] - 1} entries and {name} has {mine[0] - 1}"
        elif mine[1] != first[1]:
            ours, theirs = {i for i, _ in first[1]}, {i for i, _ in mine[1]}
            return (f"{ring[0]} has {len(first[1])} messages and {name} has {len(mine[1])}; only the first has "
                    f"{sorted(ours - theirs)[:5]}, only the second {sorted(theirs - ours)[:5]}")
    return ""


def orphans(node: SimNode) -> list[int]:
    """Logs on a node's disk that belong to nothing."""
    assert node.runtime is not None
    broker, log = node.runtime.broker, node.runtime.log
    mirrored = {front.log_id for front in broker.forwarding.mirrored.values()}
    held = set(node.holdings())
    known = {log_id for log_id in broker.queues_by_log if log_id not in mirrored} | held | set(log.graves)
    return sorted(log_id for log_id in log.store._queues if log_id not in known)


def verdicts(world: World, log_id: int) -> list[dict[str, Any]]:
    """The records of a queue's failovers, oldest first."""
    place = f"failover/{log_id:016x}/"
    return [json.loads(item.value) for key, item in sorted(world.server.items.items()) if key.startswith(place)]
