"""Settings that are changed while the node runs, and last until it stops: log level, limits of the alarms, listeners."""

from __future__ import annotations

import gc

from mirrormq.admin.call import Json
from mirrormq.admin.errors import bad_request
from mirrormq.node.alarms import Limits
from mirrormq.node.logs import LEVELS, set_level
from mirrormq.node.resources import release_memory, total_memory
from mirrormq.node.runtime import Runtime


def set_log_level(_: Runtime, body: Json) -> None:
    if not set_level(str(body.get("level"))):
        raise bad_request(f"level {body.get('level')} is not supported. Try one of {', '.join(LEVELS)}")


def set_disk_limit(runtime: Runtime, body: Json) -> None:
    _limit(runtime, Limits(runtime.alarms.alarms.limits.memory, _bytes(runtime, body)))


def set_memory_limit(runtime: Runtime, body: Json) -> None:
    _limit(runtime, Limits(_bytes(runtime, body), runtime.alarms.alarms.limits.disk))


def _bytes(runtime: Runtime, body: Json) -> int:
    """So many bytes, or a part of the memory that there is."""
    relative, absolute = body.get("relative"), body.get("bytes")
    if isinstance(absolute, int) and not isinstance(absolute, bool) and absolute >= 0:
        return absolute
    if isinstance(relative, (int, float)) and not isinstance(relative, bool) and 0 <= relative <= 1000:
        return int((runtime.config.memory_total or total_memory()) * relative)
    raise bad_request("a limit is a number of bytes, or a part of the memory")


def _limit(runtime: Runtime, limits: Limits) -> None:
    runtime.alarms.alarms.limits = limits
    runtime.alarms.sample()


def suspend(runtime: Runtime, _: Json) -> None:
    runtime.close_listeners()


async def resume(runtime: Runtime) -> None:
    runtime.close_listeners()
    await runtime.listen()


def collect(_: Runtime, __: Json) -> None:
    gc.collect()
    release_memory()
