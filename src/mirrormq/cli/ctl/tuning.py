"""Commands that change a running node until it stops: log level, limits of the alarms, listeners; and tracing, which stays."""

from __future__ import annotations

import re
from typing import Final

from mirrormq.cli.ctl.client import part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import DATA, UNAVAILABLE, Failure, Misuse, refused
from mirrormq.node.config_format import information_unit
from mirrormq.node.logs import LEVELS

BAD: Final = "Bad argument."


def _do(context: Context, deed: str, body: object = None) -> None:
    answer = context.client.request("POST", f"/api/app/{deed}", body)
    if not answer.is_good:
        raise refused(answer.reason)
    context.done()


def set_log_level(context: Context) -> None:
    """A category before the level, as in `connection.debug`, is taken and means all of them: there is one log."""
    level = context.args[-1]
    if level not in LEVELS:
        raise Failure(UNAVAILABLE, f"level {level} is not supported. Try one of {', '.join(LEVELS)}")
    context.out.banner(f'Setting log level to "{level}" ...')
    _do(context, "log_level", {"level": level})


def _size(text: str) -> int:
    try:
        return information_unit(text)
    except ValueError:
        raise Misuse(BAD, DATA) from None


def _fraction(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text) is None:
        raise Misuse(BAD, DATA)
    return float(text)


def set_disk_free_limit(context: Context) -> None:
    node = context.node
    if context.arg(0) == "mem_relative":
        if len(context.args) < 2:
            raise Misuse("not enough arguments.")
        relative = _fraction(context.arg(1))
        context.out.banner(f"Setting disk free limit on {node} to {context.arg(1)} times the total RAM ...")
        _do(context, "disk_limit", {"relative": relative})
        return
    size = _size(context.arg(0))
    context.out.banner(f"Setting disk free limit on {node} to {context.arg(0)} bytes ...")
    _do(context, "disk_limit", {"bytes": size})


def set_vm_memory_high_watermark(context: Context) -> None:
    node = context.node
    if context.arg(0) == "absolute":
        if len(context.args) < 2:
            raise Misuse("not enough arguments.")
        size = _size(context.arg(1))
        context.out.banner(f"Setting memory threshold on {node} to {context.arg(1)} bytes ...")
        _do(context, "memory_limit", {"bytes": size})
        return
    relative = _fraction(context.arg(0))
    context.out.banner(f"Setting memory threshold on {node} to {context.arg(0)} ...")
    _do(context, "memory_limit", {"relative": relative})


def suspend_listeners(context: Context) -> None:
    context.out.banner(f"Will suspend client connection listeners on node {context.node}. The node will no longer accept client "
                       "connections!")
    _do(context, "suspend")


def resume_listeners(context: Context) -> None:
    context.out.banner(f"Will resume client connection listeners on node {context.node}. The node will now accept "
                       "client connections")
    _do(context, "resume")


def force_gc(context: Context) -> None:
    context.out.banner(f"Will ask all processes on node {context.node} to schedule a full sweep GC")
    _do(context, "collect")


def rotate_logs(_: Context) -> None:
    raise Failure(UNAVAILABLE, "This command does not rotate logs anymore [deprecated]")


def enable_feature_flag(context: Context) -> None:
    """Every feature of this version is on."""
    name = context.arg(0)
    context.out.banner("Enabling all feature flags ..." if name == "all" else f'Enabling feature flag "{name}" ...')
    known = {flag["name"] for flag in context.client.get("/api/feature-flags")}
    if name not in known | {"all"}:
        raise Failure(UNAVAILABLE, f"Error: the feature flag '{name}' is unknown", is_bare=True)


# --- tracing --------------------------------------------------------------------------------------------------------


def trace_on(context: Context) -> None:
    context.out.banner(f'Starting tracing for vhost "{context.vhost}" ...')
    _trace(context, is_on=True)
    context.out.say(f"Trace enabled for vhost {context.vhost}")


def trace_off(context: Context) -> None:
    context.out.banner(f'Stopping tracing for vhost "{context.vhost}" ...')
    _trace(context, is_on=False)
    context.out.say(f"Trace disabled for vhost {context.vhost}")


def _trace(context: Context, *, is_on: bool) -> None:
    context.require_vhost()
    context.client.change("PUT", f"/api/vhosts/{part(context.vhost)}", {"tracing": is_on})
