"""The cluster at a glance, and what would happen: leaders by node, a plan to even them out, what stopping a node would do.

Rules
 1. A plan is that of `cluster.rebalance`. It is a preview: nothing is moved by asking.
 2. A forecast says for each queue that a node leads what its clients would see. It holds for this moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from mirrormq.admin.browse import HERE
from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.census import Scope
from mirrormq.admin.errors import not_found, unavailable
from mirrormq.admin.listing import in_slices
from mirrormq.admin.queue_census import known_queues
from mirrormq.admin.ring_view import Heir, Placement
from mirrormq.broker.queue import Queue
from mirrormq.cluster.rebalance import QUEUES

MAX_ROWS: Final = 500
LOST: Final = "lost"
WAITS: Final = "waits"
MOVES: Final = "moves"
PARTLY: Final = "partly"
SEVERITY: Final = {LOST: 0, PARTLY: 1, WAITS: 2, MOVES: 3}


class Move(NamedTuple):
    vhost: str
    name: str
    leader: str
    target: str
    mirrored: str       # the nodes of its ring, for the reader


def _everything(call: Call) -> list[Queue]:
    return known_queues(call.broker, Scope())


async def show_map(call: Call) -> Answer:
    cluster = call.runtime.cluster
    counts = {name: {"leaders": 0, "mirrors": 0, "learners": 0} for name in cluster.membership.members}
    placement = call.state.rings.placement
    for place in await in_slices(_everything(call), placement):
        _count(counts, place)
    running = cluster.membership.running
    nodes = [{"name": name, "running": name in running, "maintenance": _is_closed(call, name), **counts[name]}
             for name in sorted(counts)]
    return Answer(200, {"node": call.broker.node_name, "cluster_name": call.broker.cluster_name, "nodes": nodes})


def _is_closed(call: Call, name: str) -> bool:
    info = call.runtime.cluster.membership.running.get(name)
    return info is not None and bool(info.about.get("maintenance"))


def _count(counts: dict[str, dict[str, int]], place: Placement) -> None:
    for what, nodes in (("leaders", (place.leader,)), ("mirrors", place.mirrors), ("learners", place.learners)):
        for node in nodes:
            if node in counts:
                counts[node][what] += 1


# --- evening out ----------------------------------------------------------------------------------------------------


async def preview_rebalance(call: Call) -> Answer:
    """The very plan that a rebalance would carry out now."""
    orders, forwarding = call.runtime.orders, call.broker.forwarding
    plan = await orders.plan(".*", ".*", QUEUES)
    fronts = {move.id: forwarding.mirrored[move.id] for move in plan if move.id in forwarding.mirrored}
    moves = [Move(fronts[move.id].vhost, fronts[move.id].name, move.leader, move.to, ", ".join(fronts[move.id].holders))
             for move in plan if move.id in fronts]
    before = orders.shares()
    after = Counter(before)
    for move in moves:
        after.update({move.leader: -1, move.target: 1})
    alone = sum(1 for front in forwarding.mirrored.values() if len(front.holders) < 2)
    return Answer(200, {"moves": [move._asdict() for move in moves[:MAX_ROWS]], "count": len(moves), "before": before,
                        "after": {name: after[name] for name in before}, "cannot_move": alone,
                        "sentence": _plan_sentence(len(moves), sum(before.values()), alone)})


def _plan_sentence(moves: int, queues: int, alone: int) -> str:
    if moves:
        return f"{moves} of {queues} queues would be led by another node; {alone} have no mirror in sync and stay"
    if alone == queues:
        return "no queue has a mirror in sync, so none can be led by another node"
    return "the leaders are as even as they can be"


# --- stopping a node ------------------------------------------------------------------------------------------------


def verdict(queue: Queue, place: Placement, heir: Heir | None = None) -> tuple[str, str]:
    """What happens to a queue when the node that leads it stops now, and the sentence that says so."""
    count = int(queue.backlog.count + queue.held)
    if place.mirrors:
        return MOVES, f"{place.mirrors[0]} takes over; its clients see a short pause and nothing is lost"
    if queue.exclusive:
        return LOST, f"it is exclusive and ends with its connection, with {_messages(count)}"
    if not queue.durable:
        return LOST, f"it is transient and ends with the node, with {_messages(count)}"
    if heir is not None:
        return PARTLY, f"{heir.node} takes over although it is not in sync, as the policy says; {_lack(heir, count)}"
    kept = int(queue.kept)
    transient = f"; {_messages(count - kept)}, not persistent, would be lost" if count > kept else ""
    waiting = "no mirror is in sync" if place.learners else "it has no mirror"
    return WAITS, f"{waiting}: nobody can use it until the node is back, with {_messages(kept)}{transient}"


def _lack(heir: Heir, count: int) -> str:
    if heir.lacks is None:
        return f"how many of {_messages(count)} it has is not known"
    if not heir.lacks:
        return f"it has {_messages(count)}, as this node does"
    return (f"it has {max(0, count - heir.lacks):,} of {_messages(count)}. The others go to quarantine on this node when it is "
            f"back")


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


async def forecast_here(state: State, _: Json) -> Json:
    own = state.broker.node_name
    placement = state.rings.placement
    rings = state.rings
    led = [here for queue in known_queues(state.broker, Scope())
           if (here := state.broker.serving(queue)) is not None and placement(queue).leader == own]
    rows = await in_slices(led, lambda queue: _row(queue, rings.reachable(queue), rings.heir(queue)))
    rows.sort(key=lambda row: (SEVERITY[row["verdict"]], -row["messages"]))
    counts = {word: sum(1 for row in rows if row["verdict"] == word) for word in SEVERITY}
    return {"node": own, **counts, "connections": len(state.broker.connections), "queues": rows[:MAX_ROWS], "count": len(rows),
            "sentence": _forecast_sentence(own, counts, len(state.broker.connections))}


def _row(queue: Queue, place: Placement, heir: Heir | None) -> Json:
    word, sentence = verdict(queue, place, heir)
    return {"vhost": queue.vhost, "name": queue.name, "messages": int(queue.backlog.count + queue.held),
            "consumers": len(queue.turns.everyone), "verdict": word, "sentence": sentence}


def _forecast_sentence(node: str, counts: Mapping[str, int], connections: int) -> str:
    if not any(counts.values()):
        return f"{node} leads no queue; clients connected to it: {connections}"
    partly = f"{counts[PARTLY]} by a mirror that is not in sync, " if counts[PARTLY] else ""
    return (f"stopping {node} now: {counts[MOVES]} queues are taken over, {partly}{counts[WAITS]} cannot be used until it is "
            f"back, {counts[LOST]} end; clients connected to it: {connections}")


HERE["stop_forecast"] = forecast_here


async def show_forecast(call: Call) -> Answer:
    node, cluster = call.args["node"], call.runtime.cluster
    if node not in cluster.membership.members:
        raise not_found()
    told = await forecast_here(call.state, {}) if node == call.broker.node_name else await cluster.ask(node, "stop_forecast", {})
    if told is None:
        raise unavailable(f"node {node} does not answer")
    return Answer(200, told)
