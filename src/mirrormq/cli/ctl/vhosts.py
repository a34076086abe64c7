"""Commands on virtual hosts and their limits."""

from __future__ import annotations

import json
from typing import Any

from mirrormq.cli.ctl.client import part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import SOFTWARE, UNAVAILABLE, Failure, no_vhost, refused
from mirrormq.cli.ctl.objects import Column, wanted
from mirrormq.cli.ctl.terms import Tags
from mirrormq.cli.ctl.users import parse_json


def _cluster_state(row: dict[str, Any]) -> str:
    return "[" + ", ".join(f"{{{node}, {state}}}" for node, state in row["cluster_state"].items()) + "]"


COLUMNS: dict[str, Column] = {
    "name": lambda row: row["name"], "description": lambda row: row.get("description", ""),
    "tags": lambda row: Tags(row.get("tags", [])), "tracing": lambda row: row.get("tracing", False),
    "default_queue_type": lambda row: row.get("default_queue_type", ""),
    "cluster_state": _cluster_state,
}  # fmt: skip


def list_vhosts(context: Context) -> None:
    names = wanted(context, COLUMNS, ("name",))
    context.out.banner("Listing vhosts ...")
    rows = context.client.get("/api/vhosts")
    context.out.table(names, [{name: COLUMNS[name](row) for name in names} for row in rows])


def add_vhost(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Adding vhost "{name}" ...')
    context.client.change("PUT", f"/api/vhosts/{part(name)}", _metadata(context))
    context.done()


def _metadata(context: Context) -> dict[str, Any]:
    names = {"description": "description", "tags": "tags", "default-queue-type": "default_queue_type"}
    return {key: context.values[option] for option, key in names.items() if option in context.values}


def update_vhost_metadata(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Updating metadata of vhost "{name}" ...')
    _change_existing(context, name, _metadata(context))


def set_vhost_tags(context: Context) -> None:
    name, tags = context.arg(0), context.args[1:]
    context.out.banner(f'Setting tags for virtual host "{name}" to [{", ".join(tags)}] ...')
    _change_existing(context, name, {"tags": tags})


def _change_existing(context: Context, name: str, body: dict[str, Any]) -> None:
    if not context.client.exists(f"/api/vhosts/{part(name)}"):
        raise no_vhost(name)
    context.client.change("PUT", f"/api/vhosts/{part(name)}", body)
    context.done()


def delete_vhost(context: Context) -> None:
    name = context.arg(0)
    context.out.banner(f'Deleting vhost "{name}" ...')
    answer = context.client.request("DELETE", f"/api/vhosts/{part(name)}")
    if answer.status == 404:
        raise no_vhost(name)
    if not answer.is_good:
        raise refused(answer.reason)
    context.done()


def restart_vhost(context: Context) -> None:
    node, vhost = context.node, context.vhost
    context.out.banner(f"Trying to restart vhost '{vhost}' on node '{node}' ...")
    answer = context.client.request("POST", f"/api/vhosts/{context.vhost_part}/start/{part(node)}")
    if not answer.is_good:
        text = f"Failed to start vhost '{vhost}' on node '{node}'Reason: {{:no_such_vhost, \"{vhost}\"}}"
        raise Failure(SOFTWARE, text)
    context.out.say(f"Vhost '{vhost}' is already running on node '{node}'")


# --- limits ---------------------------------------------------------------------------------------------------------


def list_vhost_limits(context: Context) -> None:
    if context.flag("global"):
        context.out.banner("Listing limits for all vhosts ...")
        found = context.client.get("/api/vhost-limits")
        rows = [{"vhost": row["vhost"], "limits": json.dumps(row["value"], separators=(",", ":"))} for row in found]
        context.out.table(("vhost", "limits"), rows)
        return
    context.out.banner(f'Listing limits for vhost "{context.vhost}" ...')
    context.require_vhost()
    found = context.client.get(f"/api/vhost-limits/{context.vhost_part}")
    if context.out.is_json:
        context.out.document(found[0]["value"] if found else [])
    elif found:
        context.out.say(json.dumps(found[0]["value"], separators=(",", ":")))


def set_vhost_limits(context: Context) -> None:
    text = context.arg(0)
    context.out.banner(f'Setting vhost limits to "{text}" for vhost "{context.vhost}" ...')
    limits = parse_json(text)
    context.require_vhost()
    context.client.change("PUT", _limits_path(context), {"value": limits})
    context.done()


def clear_vhost_limits(context: Context) -> None:
    context.out.banner(f'Clearing vhost "{context.vhost}" limits ...')
    answer = context.client.request("DELETE", _limits_path(context))
    if not answer.is_good:
        raise Failure(UNAVAILABLE, "Parameter does not exist")
    context.done()


def _limits_path(context: Context) -> str:
    return f"/api/parameters/vhost-limits/{context.vhost_part}/limits"
