"""Users, their tags, passwords and limits; and who is asking."""

from __future__ import annotations

import secrets
from contextlib import suppress

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import bad_request, not_found, unavailable
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.vhosts import as_tags
from mirrormq.broker import rules
from mirrormq.broker.auth import User
from mirrormq.broker.broker import Broker
from mirrormq.broker.limits import LimitFault, validate_user_limits
from mirrormq.broker.passwords import ALGORITHMS, SALT_SIZE, SHA256, hash_password, is_password_hash
from mirrormq.node.patience import StoreUnheard


def show(user: User) -> Json:
    return {
        "name": user.name, "password_hash": user.password_hash, "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags), "limits": user.limits,
    }  # fmt: skip


def _everyone(broker: Broker) -> list[User]:
    return sorted(broker.authority.users.values(), key=lambda user: user.name)


async def list_users(call: Call) -> Answer:
    return await answer_rows(call, Rows(_everyone(call.broker), show))


async def list_without_permissions(call: Call) -> Answer:
    permitted = {user for user, _ in call.broker.authority.permissions}
    users = [user for user in _everyone(call.broker) if user.name not in permitted]
    return await answer_rows(call, Rows(users, show))


def find(call: Call) -> User:
    user = call.broker.authority.users.get(call.args["user"])
    if user is None:
        raise not_found()
    return user


def show_user(call: Call) -> Answer:
    return answer_one(call, show(find(call)))


def whoami(call: Call) -> Answer:
    return Answer(200, {"name": call.principal.name, "tags": list(call.principal.user.tags)})


def put_user(call: Call) -> Answer:
    old = call.broker.authority.users.get(call.args["user"])
    rules.put_user(call.broker, parse_user(call.args["user"], call.body, old, default_algorithm(call)))
    return created(is_new=old is None)


def default_algorithm(call: Call) -> str:
    return f"rabbit_password_hashing_{call.runtime.config.hashing}"


def parse_user(name: str, body: Json, old: User | None, algorithm: str = SHA256) -> User:
    """A user as a body describes it. Limits that the body does not mention stay."""
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    if "tags" not in body:
        raise bad_request("tags_not_present")
    secret, algorithm = _secret(body, algorithm)
    limits = {} if old is None else old.limits
    if isinstance(body.get("limits"), dict):
        limits = _limits(body["limits"])
    return User(name, secret, algorithm, tuple(as_tags(body["tags"])), limits)


def _secret(body: Json, algorithm: str) -> tuple[str, str]:
    if "password" in body:
        if not isinstance(body["password"], str):
            raise bad_request(["not_string", body["password"]])
        if not body["password"]:
            return "", algorithm
        return hash_password(body["password"], secrets.token_bytes(SALT_SIZE), algorithm), algorithm
    given = body.get("password_hash", "")
    if not isinstance(given, str) or not is_password_hash(given):
        raise bad_request(["not_base64", given])
    named = body.get("hashing_algorithm", SHA256)
    if named not in ALGORITHMS:
        raise bad_request(["unsupported_hashing_algorithm", named])
    return given, named


def delete_user(call: Call) -> Answer:
    rules.delete_user(call.broker, find(call).name)
    return done()


async def delete_users(call: Call) -> Answer:
    """One after the other, up to a name that there is not."""
    names = call.need("users")
    if not isinstance(names, list):
        raise bad_request(["not_list", names])
    before = call.broker.journal.written
    for name in names:
        if not isinstance(name, str) or not rules.delete_user(call.broker, name):
            with suppress(StoreUnheard):
                await call.runtime.agreed(before)       # those before it are gone when the refusal is heard
            raise bad_request(["no_such_user", name])
    try:
        await call.runtime.agreed(before)
    except StoreUnheard as fault:
        raise unavailable(str(fault)) from None
    return done()


# --- limits ---------------------------------------------------------------------------------------------------------


async def list_limits(call: Call) -> Answer:
    users = [find(call)] if "user" in call.args else _everyone(call.broker)
    rows = [{"user": user.name, "value": user.limits} for user in users if user.limits]
    return await answer_rows(call, Rows(rows, lambda row: row))


def _limits(definition: object) -> dict[str, int]:
    try:
        return validate_user_limits(definition)
    except LimitFault as fault:
        raise bad_request(str(fault)) from None


def put_limit(call: Call) -> Answer:
    user = call.broker.authority.users.get(call.args["user"])
    if user is None:
        raise bad_request(["no_such_user", call.args["user"]])
    _replace_limits(call.broker, user, _limits(user.limits | {call.args["name"]: call.need("value")}))
    return done()


def delete_limit(call: Call) -> Answer:
    user = find(call)
    _replace_limits(call.broker, user, {key: value for key, value in user.limits.items() if key != call.args["name"]})
    return done()


def _replace_limits(broker: Broker, user: User, limits: dict[str, int]) -> None:
    rules.put_user(broker, User(user.name, user.password_hash, user.hashing_algorithm, user.tags, limits))
