"""What was purged or deleted and can be had back."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.node.quarantine_room import NoSuchItem
from mirrormq.node.undo import CannotUndo


async def list_undo(call: Call) -> Answer:
    return Answer(200, await call.runtime.undo.items(call.vhost().name))


async def undo(call: Call) -> Answer:
    try:
        count = await call.runtime.undo.undo(call.vhost().name, call.args["item"])
    except NoSuchItem:
        raise not_found() from None
    except CannotUndo as fault:
        raise bad_request(str(fault)) from None
    return Answer(200, {"messages": count})
