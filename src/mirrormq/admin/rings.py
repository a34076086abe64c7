"""Rings, failovers and quarantine of queues, asked of the node that leads each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from mirrormq.admin.browse import HERE, at_home, queue_here, why_not_here
from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.errors import ApiError, bad_request, not_authorised, not_found
from mirrormq.admin.ring_view import Failover, NoSuchItem, as_json
from mirrormq.broker.queue import Queue

NOTHING: Final = "there is nothing by that name any more"
NO_ITEM: Final[Json] = {"refused": 404, "error": "not_found", "reason": NOTHING}
DEEDS: Final = {"requeue": True, "discard": False}


def _one(call: Call) -> Queue:
    queue = call.vhost().queues.get(call.args["name"])
    if queue is None:
        raise not_found()
    return queue


def require(call: Call, name: str, *operations: str) -> None:
    """Permissions of the caller, unless it is a tool that holds the node's token."""
    who, vhost, allowed = call.principal, call.args["vhost"], call.broker.authority.allowed
    if not who.is_local and not all(allowed(who.name, vhost, "queue", name, operation) for operation in operations):
        raise not_authorised("Access refused.")


async def show_ring(call: Call) -> Answer:
    return Answer(200, await _ask_leader(call, "ring", _waiting_ring))


async def list_failovers(call: Call) -> Answer:
    return Answer(200, await _ask_leader(call, "failovers", _waiting_failovers))


async def list_quarantine(call: Call) -> Answer:
    return Answer(200, await _ask_leader(call, "quarantine", _quarantine))


async def _ask_leader(call: Call, what: str, without_leader: Callable[[State, Queue, Json], Awaitable[Any]]) -> Any:
    """Of a mirrored queue that nobody leads, this node tells what it knows."""
    queue = _one(call)
    front = call.broker.forwarding.mirrored.get(queue.log_id)
    if front is not None and (front.lost_copy or front.is_hopeless()):
        return await without_leader(call.state, front, {})
    try:
        return await at_home(call, queue, what, {})
    except ApiError as refusal:
        if front is None or front.is_deleted or refusal.status not in (404, 503):
            raise
        return await without_leader(call.state, front, {})


async def settle_quarantine(call: Call) -> Answer:
    """Messages that come back are written to the queue; what is thrown away is lost for good."""
    queue, action = _one(call), call.need("action")
    if action not in DEEDS:
        raise bad_request(["unknown action: requeue or discard", action])
    require(call, queue.name, "write" if DEEDS[action] else "configure")
    about = {"item": call.args["item"], "requeue": DEEDS[action]}
    return Answer(200, await at_home(call, queue, "settle_quarantine", about, is_change=True))


# --- on the node that leads the queue -------------------------------------------------------------------------------


def _about_queue(tell: Callable[[State, Queue, Json], Awaitable[Any]]) -> Callable[[State, Json], Awaitable[Any]]:
    async def answer(state: State, about: Json) -> Any:
        queue = queue_here(state, about)
        if queue is None:
            return why_not_here(state, about)
        try:
            return await tell(state, queue, about)
        except NoSuchItem:
            return NO_ITEM

    return answer


async def _ring(state: State, queue: Queue, _: Json) -> Json:
    ring = await state.rings.show_ring(queue)
    return as_json(ring) | {"leader": ring.leader, "policy": queue.policy or None,
                            "messages": int(queue.backlog.count + queue.held)}


async def _waiting_ring(state: State, queue: Queue, _: Json) -> Json:
    ring = await state.rings.show_waiting(queue)
    assert ring is not None, "only mirrored queues are waited for"
    return as_json(ring) | {"leader": None, "policy": queue.policy or None, "messages": None}


async def _waiting_failovers(state: State, queue: Queue, about: Json) -> list[Json]:
    """Above those that are over, the one that is not."""
    ring = await state.rings.show_waiting(queue)
    assert ring is not None, "only mirrored queues are waited for"
    pending = Failover(None, None, ring.leader, None, ring.sentence, None, None, None, None, None, {},
                          tuple(member.node for member in ring.members), tuple(member.node for member in ring.learners))
    return [as_json(pending), *await _failovers(state, queue, about)]


async def _failovers(state: State, queue: Queue, _: Json) -> list[Json]:
    return [as_json(item) for item in await state.rings.failovers(queue)]


async def _quarantine(state: State, queue: Queue, _: Json) -> list[Json]:
    return [as_json(item) for item in await state.rings.quarantine(queue)]


async def _settle(state: State, queue: Queue, about: Json) -> Json:
    return {"messages": await state.rings.settle_quarantine(queue, about["item"], requeue=about["requeue"])}


HERE.update({
    "ring": _about_queue(_ring), "failovers": _about_queue(_failovers), "quarantine": _about_queue(_quarantine),
    "settle_quarantine": _about_queue(_settle),
})  # fmt: skip
