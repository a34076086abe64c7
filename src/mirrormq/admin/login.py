"""Logging in and out with a browser: see `sessions` for the rules."""

from __future__ import annotations

import time

from mirrormq.admin.access import Principal
from mirrormq.admin.call import Answer, Call, Json, done
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


def show_session(call: Call) -> Answer:
    session = None if call.is_foreign else call.state.logins.find(call.broker.authority, call.headers.get("Cookie"))
    return Answer(200, {"name": None} if session is None else _about(session, call))


def log_in(call: Call) -> Answer:
    if call.is_foreign or PAGE_HEADER not in call.headers:
        raise not_authorised("logging in is for the page of this node; scripts send name and password with each request")
    name, password = call.need_text("username"), call.need_text("password")
    _refuse_guessers(call, name)
    user = _authenticate(call, name, password)
    cookie, session = call.state.logins.begin(user)
    return Answer(200, _about(session, call), {"set-cookie": _set_cookie(call, cookie, int(LIFETIME))})


def _refuse_guessers(call: Call, name: str) -> None:
    seconds = call.state.logins.attempts.wait(name, call.address, time.monotonic())
    if seconds > 0:
        raise ApiError(429, "too_many_attempts", f"too many failed logins; try again in {int(seconds) + 1} s",
                       {"retry-after": str(int(seconds) + 1)})


def _authenticate(call: Call, name: str, password: str) -> User:
    gate, authority = call.state.gate, call.broker.authority
    try:
        user = authority.authenticate(name, password)
        authority.check_origin(name, call.address)
    except LoginRefused as refusal:
        gate.failed += 1
        call.state.logins.attempts.failed(name, call.address, time.monotonic())
        call.broker.host.report("warning", f"HTTP access denied: {refusal}")
        raise ApiError(401, "not_authorized", "Login failed") from None
    if not Principal(user, authority).is_management:
        raise not_authorised("Not management user")
    gate.succeeded += 1
    call.state.logins.attempts.succeeded(name, call.address)
    return user


def log_out(call: Call) -> Answer:
    """Without a token: to be logged out harms nobody, and other sites cannot send the cookie."""
    if not call.is_foreign:
        call.state.logins.end(call.headers.get("Cookie"))
    answer = done()
    answer.headers["set-cookie"] = _set_cookie(call, "", 0)
    return answer


def _set_cookie(call: Call, value: str, age: int) -> str:
    path = call.runtime.config.management_path_prefix.rstrip("/") + "/"
    secure = "; Secure" if call.is_secure else ""
    return f"{call.state.logins.cookie}={value}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
