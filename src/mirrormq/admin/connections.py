"""Connections and channels of all nodes: list, show, close. Whoever is no monitor sees their own."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call, Json, State, done
from mirrormq.admin.census import Census, Kind, Place, Scope, collect, find_one
from mirrormq.admin.connection_view import CHANNELS, CONNECTIONS, NAMES_OF_CONNECTIONS
from mirrormq.admin.consumers import CONSUMERS
from mirrormq.admin.errors import not_authorised, not_found
from mirrormq.admin.listing import answer_one
from mirrormq.broker.connection import RUNNING, Connection


def _scope(call: Call) -> Scope:
    """All, or the caller's own; of the path's virtual host, if it names one."""
    vhosts = [call.vhost().name] if "vhost" in call.args else None
    return Scope(vhosts=vhosts, user=None if call.principal.is_monitor else call.principal.name)


async def list_connections(call: Call) -> Answer:
    return await Census(call.state, call.query, CONNECTIONS, _scope(call), is_paged=True).answer()


async def _one(call: Call, kind: Kind[Connection]) -> Json:
    return _visible(call, await find_one(call.state, kind, (call.args["name"],), call.query))


def _visible(call: Call, row: Json | None) -> Json:
    if row is None:
        raise not_found()
    call.principal.require_own(row["user"])
    return row


async def show_connection(call: Call) -> Answer:
    return answer_one(call, await _one(call, CONNECTIONS))


async def list_of_user(call: Call) -> Answer:
    """Somebody else's are for monitors; for others that list is empty."""
    user, principal = call.args["user"], call.principal
    is_allowed = principal.is_monitor or principal.name == user
    scope = Scope(user=user, vhosts=None if is_allowed else [])
    return await Census(call.state, call.query, NAMES_OF_CONNECTIONS, scope, is_paged=True).answer()


# --- closing --------------------------------------------------------------------------------------------------------


async def close_connection(call: Call) -> Answer:
    row = await _one(call, NAMES_OF_CONNECTIONS)
    if not call.principal.is_administrator and row["user"] != call.principal.name:
        raise not_authorised("User not authorised to access object")
    scope = Scope(connection=row["name"])
    if row["node"] == call.broker.node_name:
        close_here(call.state, scope, _reason(call))
    else:
        await call.runtime.cluster.ask(row["node"], "close", {"scope": scope._asdict(), "reason": _reason(call)})
    return done()


async def close_of_user(call: Call) -> Answer:
    scope = Scope(user=call.args["user"])
    close_here(call.state, scope, _reason(call))
    await call.runtime.cluster.ask_all("close", {"scope": scope._asdict(), "reason": _reason(call)})
    return done()


def _reason(call: Call) -> str:
    return call.headers.get("X-Reason") or "Closed via management plugin"


def close_here(state: State, scope: Scope, reason: str) -> int:
    """Close the connections that are meant, as far as they are this node's."""
    found = [connection for connection in CONNECTIONS.find(state.broker, scope) if connection.state == RUNNING]
    for connection in found:
        connection.close_with(320, f"CONNECTION_FORCED - {reason}", 0, 0)
    state.runtime.schedule()
    return len(found)


# --- channels -------------------------------------------------------------------------------------------------------


async def list_channels(call: Call) -> Answer:
    return await Census(call.state, call.query, CHANNELS, _scope(call), is_paged=True).answer()


async def list_of_connection(call: Call) -> Answer:
    row = await _one(call, NAMES_OF_CONNECTIONS)
    return await Census(call.state, call.query, CHANNELS, Scope(connection=row["name"])).answer()


async def show_channel(call: Call) -> Answer:
    place = _channel_place(call.args["name"])
    row = _visible(call, None if place is None else await find_one(call.state, CHANNELS, place, call.query))
    consumers = await collect(call.state, CONSUMERS, Scope(channel=row["name"]))
    return answer_one(call, {"consumer_details": consumers, "deliveries": [], "publishes": [], **row})


def _channel_place(name: str) -> Place | None:
    connection, _, number = name.rpartition(" (")
    digits = number.removesuffix(")")
    return (connection, int(digits)) if digits.isascii() and digits.isdecimal() and name.endswith(")") else None
