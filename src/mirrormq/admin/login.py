"""Logging in and out with a browser: see `sessions` for the rules."""

from __future__ import annotations

import asyncio

from mirrormq.admin.access import Principal
from mirrormq.admin.browse import HERE
from mirrormq.admin.call import Answer, Call, Json, State, done
from mirrormq.admin.errors import ApiError, not_authorised
from mirrormq.admin.sessions import LIFETIME, PAGE_HEADER, Session
from mirrormq.broker.auth import LoginRefused, User


def _about(session: Session, call: Call) -> Json:
    authority = call.broker.authority
    user = authority.users[session.user]
    permissions = {vhost: {"configure": one.configure, "write": one.write, "read": one.read}
                   for (name, vhost), one in authority.permissions.items() if name == user.name}
    return {"name": user.name, "tags": list(user.tags), "token": session.token, "permissions": permissions,
            "node": call.broker.node_name}


def _session(call: Call) -> Session | None:
    return call.state.logins.find(call.broker.authority, call.headers.get("Cookie"), call.broker.now / 1000)


def show_session(call: Call) -> Answer:
    session = None if call.is_foreign else _session(call)
    return Answer(200, {"name": None} if session is None else _about(session, call))


async def log_in(call: Call) -> Answer:
    if call.is_foreign or PAGE_HEADER not in call.headers:
        raise not_authorised("logging in is for the page of this node; scripts send name and password with each request")
    name, password = call.need_text("username"), call.need_text("password")
    call.state.gate.attempts.check(call.address)
    user = await _authenticate(call, name, password)
    cookie, session = call.state.logins.begin(user, call.broker.now / 1000)
    return Answer(200, _about(session, call), {"set-cookie": _set_cookie(call, cookie, LIFETIME)})


async def _authenticate(call: Call, name: str, password: str) -> User:
    gate, authority = call.state.gate, call.broker.authority
    try:
        user = authority.authenticate(name, password)
        authority.check_origin(name, call.address)
    except LoginRefused as refusal:
        gate.failed += 1
        call.broker.host.report("warning", f"HTTP access denied: {refusal}")
        await gate.attempts.delay(name, call.address)
        raise ApiError(401, "not_authorized", "Login failed") from None
    if not Principal(user, authority).is_management:
        raise not_authorised("Not management user")
    gate.succeeded += 1
    gate.attempts.succeeded(name, call.address)
    return user


async def log_out(call: Call) -> Answer:
    """Without a token: to be logged out harms nobody, and other sites cannot send the cookie."""
    session = None if call.is_foreign else _session(call)
    if session is not None:
        await _revoke(call, session)
    answer = done()
    answer.headers["set-cookie"] = _set_cookie(call, "", 0)
    return answer


async def _revoke(call: Call, session: Session) -> None:
    """Everywhere; a node that does not answer knows the session until it ends by itself."""
    about, cluster = {"id": session.id, "until": session.until}, call.runtime.cluster
    await revoke_here(call.state, about)
    others = [node for node in cluster.membership.running if node != call.broker.node_name]
    await asyncio.gather(*(cluster.ask(node, "revoke_session", about) for node in others))


async def revoke_here(state: State, about: Json) -> bool:
    state.logins.end(about["id"], about["until"], state.broker.now / 1000)
    return True


def _set_cookie(call: Call, value: str, age: int) -> str:
    path = call.runtime.config.management_path_prefix.rstrip("/") + "/"
    secure = "; Secure" if call.is_secure else ""
    return f"{call.state.logins.cookie}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"


HERE["revoke_session"] = revoke_here
