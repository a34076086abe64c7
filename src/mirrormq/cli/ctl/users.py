"""Commands on users: passwords, tags and limits."""

from __future__ import annotations

import base64
import getpass
import json
import secrets
import sys
from typing import Any

from mirrormq.broker.passwords import SALT_SIZE, hash_password
from mirrormq.cli.ctl.client import part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import DATA, SOFTWARE, UNAVAILABLE, Failure, Misuse, no_user, refused
from mirrormq.cli.ctl.terms import Tags

ADVICE = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'mirrormqctl help set_permissions' to learn more."
)


def _path(name: str) -> str:
    return f"/api/users/{part(name)}"


def _find(context: Context, name: str) -> dict[str, Any] | None:
    answer = context.client.request("GET", _path(name))
    return answer.body if answer.is_good else None


def _password(context: Context, at: int, code: int) -> str:
    """From the command line, or asked for, or from a pipe."""
    if len(context.args) > at:
        return context.arg(at)
    line = _asked(context)
    if not line:
        raise Failure(code, "Password is not provided via argument or stdin")
    return line.rstrip("\r\n")


def _asked(context: Context) -> str:
    """A line; nothing at the end of the input."""
    if not sys.stdin.isatty():
        context.out.banner("Password: ")
        return sys.stdin.readline()
    try:
        return getpass.getpass("Password: ") + "\n"
    except EOFError:
        return ""


def list_users(context: Context) -> None:
    context.out.banner("Listing users ...")
    rows = [{"user": row["name"], "tags": Tags(row["tags"])} for row in context.client.get("/api/users")]
    context.out.table(("user", "tags"), rows)


def add_user(context: Context) -> None:
    name = context.arg(0)
    if not name:
        raise Misuse("Bad argument: user cannot be an empty string", DATA)
    context.out.banner(f'Adding user "{name}" ...')
    password = _password(context, 1, DATA)
    if _find(context, name) is not None:
        raise Failure(SOFTWARE, f'User "{name}" already exists')
    context.client.change("PUT", _path(name), {"password": password, "tags": ""})
    if context.out.is_json:
        context.out.document({"message": ADVICE, "node": context.node, "status": "ok"})
    else:
        context.out.banner(ADVICE)


def delete_user(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Deleting user "{name}" ...')
    answer = context.client.request("DELETE", _path(name))
    if answer.status == 404:
        raise no_user(name)
    if not answer.is_good:
        raise refused(answer.reason)
    context.done()


def change_password(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Changing password for user "{name}" ...')
    password = _password(context, 1, SOFTWARE)
    user = _find(context, name)
    if user is None:
        raise no_user(name)
    context.client.change("PUT", _path(name), {"password": password, "tags": user["tags"]})
    context.done()


def clear_password(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Clearing password for user "{name}" ...')
    user = _find(context, name)
    if user is None:
        raise refused(["no_such_user", name])
    context.client.change("PUT", _path(name), {"password_hash": "", "tags": user["tags"]})
    context.done()


def authenticate_user(context: Context) -> None:
    """Whether the node would let this user in, not whether this user may use the API."""
    name = context.arg(0)
    context.out.banner(f'Authenticating user "{name}" ...')
    password = _password(context, 1, DATA)
    context.client.get("/api/auth")
    if not password:
        raise _not_authentic(name, f"user '{name}' attempted to log in with a blank password, which is prohibited")
    login = base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape")).decode("ascii")
    if context.client.ask_as(f"Basic {login}", "/api/whoami").reason == "Login failed":
        raise _not_authentic(name, f"user '{name}' - invalid credentials")
    context.out.say("Success")


def _not_authentic(name: str, why: str) -> Failure:
    return Failure(DATA, f'Error: failed to authenticate user "{name}"\n{why}')


def set_user_tags(context: Context) -> None:
    name, tags = context.arg(0), context.args[1:]
    context.out.banner(f'Setting tags for user "{name}" to [{", ".join(tags)}] ...')
    user = _find(context, name)
    if user is None:
        raise no_user(name)
    context.client.change("PUT", _path(name), {
        "password_hash": user["password_hash"], "hashing_algorithm": user["hashing_algorithm"],
        "tags": [word.strip() for tag in tags for word in tag.split(",") if word.strip()]})
    context.done()


def hash_password_command(context: Context) -> None:
    context.out.banner("Will hash password ...")
    context.out.say(hash_password(_password(context, 0, DATA), secrets.token_bytes(SALT_SIZE)))


# --- limits ---------------------------------------------------------------------------------------------------------


def parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Failure(UNAVAILABLE, "JSON decoding error. Reason: badarg") from None


def list_user_limits(context: Context) -> None:
    if context.flag("global"):
        context.out.banner("Listing limits for all users ...")
        found = context.client.get("/api/user-limits")
        rows = [{"user": row["user"], "limits": _compact(row["value"])} for row in found]
        context.out.table(("user", "limits"), rows)
        return
    name = context.text("user") or "guest"
    context.out.banner(f'Listing limits for user "{name}" ...')
    user = _find(context, name)
    if user is None:
        raise refused(["no_such_user", name])
    context.out.say(_compact(user["limits"]))


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def set_user_limits(context: Context) -> None:
    name, text = context.args
    context.out.banner(f'Setting user limits to "{text}" for user "{name}" ...')
    limits = parse_json(text)
    if not isinstance(limits, dict):
        raise Failure(UNAVAILABLE, f"user-limits not a list {text}")
    if _find(context, name) is None:
        raise refused(["no_such_user", name])
    for key, value in limits.items():
        context.client.change("PUT", f"/api/user-limits/{part(name)}/{part(key)}", {"value": value})
    context.done()


def clear_user_limits(context: Context) -> None:
    name, which = context.args
    what = "all limits" if which == "all" else f'"{which}" limit'
    context.out.banner(f'Clearing {what} for user "{name}" ...')
    user = _find(context, name)
    if user is None:
        raise refused(["no_such_user", name])
    for key in list(user["limits"]) if which == "all" else [which]:
        context.client.change("DELETE", f"/api/user-limits/{part(name)}/{part(key)}")
    context.done()
