"""Permissions and topic permissions of users in virtual hosts."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.users import find
from mirrormq.broker import rules
from mirrormq.broker.auth import Authority, Permission, TopicPermission
from mirrormq.broker.broker import Broker
from mirrormq.broker.policy import PatternError

PATTERNS = ("configure", "write", "read")


def rows(authority: Authority) -> list[Json]:
    """All of them, by virtual host and user."""
    found = sorted(authority.permissions.items(), key=lambda item: (item[0][1], item[0][0]))
    return [show(user, vhost, permission) for (user, vhost), permission in found]


def show(user: str, vhost: str, permission: Permission) -> Json:
    return {"user": user, "vhost": vhost, "configure": permission.configure, "write": permission.write,
            "read": permission.read}


def topic_rows(authority: Authority) -> list[Json]:
    found = sorted(authority.topic_permissions.items(), key=lambda item: (item[0][1], item[0][0], item[0][2]))
    return [
        {"user": user, "vhost": vhost, "exchange": exchange, "write": permission.write, "read": permission.read}
        for (user, vhost, exchange), permission in found
    ]


def _of_path(call: Call, everything: list[Json]) -> list[Json]:
    """Of the user or the virtual host that the path names, both of which must exist."""
    if "user" in call.args:
        find(call)
    if "vhost" in call.args:
        call.vhost()
    wanted = {name: call.args[name] for name in ("user", "vhost") if name in call.args}
    return [row for row in everything if all(row[name] == value for name, value in wanted.items())]


async def list_permissions(call: Call) -> Answer:
    return await answer_rows(call, Rows(_of_path(call, rows(call.broker.authority)), lambda row: row))


def show_permission(call: Call) -> Answer:
    permission = call.broker.authority.permissions.get((call.args["user"], call.args["vhost"]))
    if permission is None:
        raise not_found()
    return answer_one(call, show(call.args["user"], call.args["vhost"], permission))


def _check_both(call: Call) -> None:
    if call.args["vhost"] not in call.broker.vhosts or call.args["user"] not in call.broker.authority.users:
        raise bad_request("vhost_or_user_not_found")


def put_permission(call: Call) -> Answer:
    call.need_all(*PATTERNS)
    patterns = [call.need_text(name) for name in PATTERNS]
    _check_both(call)
    user, vhost = call.args["user"], call.args["vhost"]
    is_new = (user, vhost) not in call.broker.authority.permissions
    grant(call.broker, user, vhost, patterns)
    return created(is_new=is_new)


def grant(broker: Broker, user: str, vhost: str, patterns: list[str]) -> None:
    try:
        permission = Permission(*patterns)
    except PatternError as fault:
        raise invalid_pattern(fault) from None
    rules.set_permission(broker, user, vhost, permission)


def invalid_pattern(fault: PatternError) -> Exception:
    return bad_request(["invalid_regexp", fault.pattern, [fault.reason, fault.position]])


def delete_permission(call: Call) -> Answer:
    if not rules.clear_permission(call.broker, call.args["user"], call.args["vhost"]):
        raise not_found()
    return done()


# --- topic permissions ----------------------------------------------------------------------------------------------


async def list_topic_permissions(call: Call) -> Answer:
    return await answer_rows(call, Rows(_of_path(call, topic_rows(call.broker.authority)), lambda row: row))


async def show_topic_permissions(call: Call) -> Answer:
    found = _of_path(call, topic_rows(call.broker.authority))
    if not found:
        raise not_found()
    return await answer_rows(call, Rows(found, lambda row: row))


def put_topic_permission(call: Call) -> Answer:
    exchange, write, read = (call.need_text(name) for name in ("exchange", "write", "read"))
    _check_both(call)
    user, vhost = call.args["user"], call.args["vhost"]
    is_new = not any(key[:2] == (user, vhost) for key in call.broker.authority.topic_permissions)
    grant_topic(call.broker, user, vhost, exchange, write, read)
    return created(is_new=is_new)


def grant_topic(broker: Broker, user: str, vhost: str, exchange: str, write: str, read: str) -> None:
    try:
        permission = TopicPermission(write, read)
    except PatternError as fault:
        raise invalid_pattern(fault) from None
    rules.set_topic_permission(broker, user, vhost, exchange, permission)


def delete_topic_permissions(call: Call) -> Answer:
    user, vhost, exchange = call.args["user"], call.args["vhost"], call.args.get("exchange")
    held = [key for key in call.broker.authority.topic_permissions if key[:2] == (user, vhost)]
    if not any(exchange in (None, key[2]) for key in held):
        raise not_found()
    rules.clear_topic_permissions(call.broker, user, vhost, exchange)
    return done()
