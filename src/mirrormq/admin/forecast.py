"""What becomes of each queue if a node stops now: a sentence for each, worked out from what is known and not from hope."""

from __future__ import annotations

from typing import Final

from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.census import Scope
from mirrormq.admin.errors import not_found, unavailable
from mirrormq.admin.listing import Rows, answer_rows, in_slices
from mirrormq.admin.mirrors import Ring
from mirrormq.admin.queue_census import QUEUES
from mirrormq.broker.queue import Queue

MOVES: Final = "moves"
WAITS: Final = "waits"
ENDS: Final = "ends"
AT_RISK: Final = "at_risk"


def forecast(queue: Queue, ring: Ring | None, node: str) -> Json:
    """`outcome` is one of the words above; of a queue at risk the only copy in sync is on the node."""
    ready = int(queue.backlog.count) + int(queue.held)
    if queue.exclusive:
        outcome, sentence = ENDS, "its connection ends with the node, and it with the connection"
    elif ring is not None and ring.in_sync:
        outcome, sentence = MOVES, f"{ring.in_sync[0]} leads it, which is in sync"
    elif not queue.durable:
        outcome, sentence = ENDS, f"it is transient, and ends with its {ready} messages"
    elif ring is not None and ring.mirrors:
        outcome, sentence = AT_RISK, f"no mirror is in sync: its {ready} messages wait until {node} is back, or are given up"
    else:
        outcome, sentence = WAITS, f"it has no mirror: its {ready} messages wait until {node} is back"
    return {"vhost": queue.vhost, "name": queue.name, "messages": ready, "outcome": outcome, "sentence": sentence,
            "next_leader": ring.in_sync[0] if ring is not None and ring.in_sync and outcome == MOVES else None}


async def forecast_here(state: State) -> list[Json]:
    node, mirrors = state.broker.node_name, state.mirrors
    return await in_slices(QUEUES.find(state.broker, Scope()), lambda queue: forecast(queue, mirrors.ring(queue), node))


async def show_forecast(call: Call) -> Answer:
    node, cluster = call.args["node"], call.runtime.cluster
    if node not in cluster.membership.members:
        raise not_found()
    rows = await forecast_here(call.state) if node == call.broker.node_name else await cluster.ask(node, "forecast", {})
    if rows is None:
        raise unavailable(f"node {node} is down or does not answer")
    return await answer_rows(call, Rows(rows, lambda row: row, lambda row: str(row["name"]), lambda row: str(row["vhost"])),
                             is_paged=True)
