"""What was purged or deleted and can be had back, wherever in the cluster it is."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call
from mirrormq.admin.errors import ApiError, bad_request
from mirrormq.admin.rings import NOTHING, require
from mirrormq.node.quarantine_room import NoSuchItem
from mirrormq.node.undo import CannotUndo


async def list_undo(call: Call) -> Answer:
    """Newest first."""
    wanted = call.query.get("name")
    found = await call.runtime.undo.items(call.vhost().name)
    return Answer(200, [item for item in reversed(found) if wanted is None or item["name"] == wanted])


async def undo(call: Call) -> Answer:
    """Who may declare the queue and write to it may have it back."""
    vhost, wanted = call.vhost().name, call.args["item"]
    names = [item["name"] for item in await call.runtime.undo.items(vhost) if item["id"] == wanted]
    if not names:
        raise ApiError(404, "not_found", NOTHING)
    require(call, names[0], "configure", "write")
    try:
        count = await call.runtime.undo.undo(vhost, wanted)
    except NoSuchItem:
        raise ApiError(404, "not_found", NOTHING) from None
    except CannotUndo as fault:
        raise bad_request(str(fault)) from None
    return Answer(200, {"messages": count})
