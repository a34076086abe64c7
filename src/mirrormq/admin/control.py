"""The control door: what `mirrormqctl` asks of the node itself, answered also while its application is stopped.

Rules
 1. Only tools of this machine come in, with the node's token: users are not known while the application is stopped, and a
    password of the management API must not be enough to reset a node.
 2. A refusal has a short word, by which the tool chooses its exit code, and a sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from mirrormq.admin import joining, tuning
from mirrormq.admin.app import START_FAULTS, App, GivenUp
from mirrormq.admin.call import Json, parse_object
from mirrormq.admin.errors import ApiError, key_missing
from mirrormq.cluster.coordination import CoordinationError
from mirrormq.cluster.keepsake import WrongDirectory
from mirrormq.node import maintenance
from mirrormq.node.runtime import Runtime, StartError
from mirrormq.node.secret import SecretError

Deed = Callable[[App, Json], Awaitable[Json]]


def show(app: App) -> Json:
    """For anybody who asks."""
    return {"node": app.config.node_name, "state": app.state}


async def _stop(app: App, _: Json) -> Json:
    await app.stop()
    return {}


async def _start(app: App, _: Json) -> Json:
    try:
        await app.start()
    except (*START_FAULTS, GivenUp) as fault:
        raise ApiError(400, "cannot_start", str(fault)) from None
    return {}


async def _reset(app: App, _: Json) -> Json:
    return {"lost_queues": await joining.reset(app)}


async def _force_reset(app: App, _: Json) -> Json:
    await joining.force_reset(app)
    return {}


async def _join(app: App, body: Json) -> Json:
    return {"message": await joining.join(app, _node(body))}


async def _forget(app: App, body: Json) -> Json:
    return {"lost_queues": await joining.forget(app, _node(body))}


async def _drain(app: App, _: Json) -> Json:
    return {"closed": await maintenance.drain(app.running())}


async def _revive(app: App, _: Json) -> Json:
    await maintenance.revive(app.running())
    return {}


async def _tune(deed: Callable[[Runtime, Json], None], app: App, body: Json) -> Json:
    deed(app.running(), body)
    return {}


async def _resume(app: App, _: Json) -> Json:
    await tuning.resume(app.running())
    return {}


def _node(body: Json) -> str:
    name = body.get("node")
    if not isinstance(name, str) or not name:
        raise key_missing("node")
    return name


PREFIX: Final = ("api", "app")
DEEDS: Final[dict[str, Deed]] = {
    "stop": _stop, "start": _start, "reset": _reset, "force_reset": _force_reset, "join": _join, "forget": _forget,
    "drain": _drain, "revive": _revive, "suspend": partial(_tune, tuning.suspend), "resume": _resume,
    "log_level": partial(_tune, tuning.set_log_level), "disk_limit": partial(_tune, tuning.set_disk_limit),
    "memory_limit": partial(_tune, tuning.set_memory_limit), "collect": partial(_tune, tuning.collect),
}  # fmt: skip


async def act(app: App, deed: str, raw: bytes) -> Any:
    """Carry out what the last part of the path names."""
    try:
        return await DEEDS[deed](app, parse_object(raw, "not_json"))
    except (CoordinationError, WrongDirectory, SecretError, StartError) as fault:
        raise ApiError(400, "cannot", str(fault)) from None
