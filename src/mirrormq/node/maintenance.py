"""Maintenance mode: a node that serves no clients, and stays a member with its queues. It ends with `revive` or a restart."""

from __future__ import annotations

from mirrormq.cluster.coordination import CoordinationError
from mirrormq.node.runtime import Runtime

REASON = "Node was put into maintenance mode"


async def drain(runtime: Runtime) -> int:
    """Give every lead away, close the listeners and the clients, tell the other nodes. Returns how many clients there were."""
    if runtime.is_drained:
        return 0
    runtime.is_drained = True
    count = len(runtime.broker.connections)
    runtime.report("warning", "this node is being put into maintenance mode: it serves no clients any more")
    staying = await runtime.orders.move_away()
    if staying:
        runtime.report("warning", f"{len(staying)} mirrored queues have no other mirror in sync and stay here")
    await runtime.turn_out(REASON)
    runtime.report("warning", f"closed the listeners and {count} client connections")
    await _tell(runtime, maintenance=True)
    return count


async def revive(runtime: Runtime) -> None:
    if not runtime.is_drained:
        return
    if not runtime.partition.reason:        # a paused node listens when it is not cut off any more
        await runtime.listen()
    runtime.is_drained = False
    runtime.report("info", "this node serves clients again")
    await _tell(runtime, maintenance=False)


async def introduce(runtime: Runtime) -> None:
    """Tell the other nodes where this one listens, now that it does."""
    listeners = [*runtime.addresses, ("clustering", runtime.cluster.link_host or "::", runtime.cluster.links.port)]
    await _tell(runtime, listeners=listeners)


async def _tell(runtime: Runtime, **more: object) -> None:
    try:
        await runtime.cluster.membership.tell(**more)
    except CoordinationError as fault:
        runtime.report("warning", f"the other nodes do not hear about this: {fault}")
