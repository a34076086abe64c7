"""Commands on policies, operator policies and parameters."""

from __future__ import annotations

import json
from typing import Any

from mirrormq.cli.ctl.client import Answer, part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import UNAVAILABLE, Failure, refused
from mirrormq.cli.ctl.users import parse_json

COLUMNS = ("vhost", "name", "pattern", "apply-to", "definition", "priority")


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _finish(context: Context, answer: Answer) -> None:
    if not answer.is_good:
        raise refused(answer.reason)
    context.done()


def _list(context: Context, path: str) -> None:
    context.require_vhost()
    rows: list[dict[str, Any]] = context.client.get(f"/api/{path}/{context.vhost_part}")
    rows.sort(key=lambda row: (row["priority"], row["name"]))
    context.out.table(COLUMNS, [row | {"definition": compact(row["definition"])} for row in rows])


def _set(context: Context, path: str, what: str) -> None:
    name, pattern, text = context.args
    priority, apply_to = context.values.get("priority", 0), context.text("apply-to") or "all"
    context.out.banner(f'Setting {what} "{name}" for pattern "{pattern}" to "{text}" with priority "{priority}" '
                       f'for vhost "{context.vhost}" ...')
    definition = parse_json(text)
    context.require_vhost()
    body = {"pattern": pattern, "definition": definition, "priority": priority, "apply-to": apply_to}
    _finish(context, context.client.request("PUT", f"/api/{path}/{context.vhost_part}/{part(name)}", body))


def _clear(context: Context, path: str) -> None:
    answer = context.client.request("DELETE", path)
    if answer.status == 404:
        raise Failure(UNAVAILABLE, "Parameter does not exist")
    _finish(context, answer)


def list_policies(context: Context) -> None:
    context.out.banner(f'Listing policies for vhost "{context.vhost}" ...')
    _list(context, "policies")


def list_operator_policies(context: Context) -> None:
    context.out.banner(f'Listing operator policy overrides for vhost "{context.vhost}" ...')
    _list(context, "operator-policies")


def set_policy(context: Context) -> None:
    _set(context, "policies", "policy")


def set_operator_policy(context: Context) -> None:
    _set(context, "operator-policies", "operator policy override")


def clear_policy(context: Context) -> None:
    context.out.banner(f'Clearing policy "{context.arg(0)}" on vhost "{context.vhost}" ...')
    _clear(context, f"/api/policies/{context.vhost_part}/{part(context.arg(0))}")


def clear_operator_policy(context: Context) -> None:
    context.out.banner(f'Clearing operator policy "{context.arg(0)}" on vhost "{context.vhost}" ...')
    _clear(context, f"/api/operator-policies/{context.vhost_part}/{part(context.arg(0))}")


# --- parameters -----------------------------------------------------------------------------------------------------


def list_parameters(context: Context) -> None:
    context.out.banner(f'Listing runtime parameters for vhost "{context.vhost}" ...')
    context.require_vhost()
    rows = [row for row in context.client.get("/api/parameters") if row["vhost"] == context.vhost]
    context.out.table(("component", "name", "value"), [row | {"value": compact(row["value"])} for row in rows])


def _parameter_path(context: Context) -> str:
    component, name = context.args[:2]
    return f"/api/parameters/{part(component)}/{context.vhost_part}/{part(name)}"


def set_parameter(context: Context) -> None:
    component, name, text = context.args
    context.out.banner(f'Setting runtime parameter "{name}" for component "{component}" to "{text}" '
                       f'in vhost "{context.vhost}" ...')
    value = parse_json(text)
    context.require_vhost()
    _finish(context, context.client.request("PUT", _parameter_path(context), {"value": value}))


def clear_parameter(context: Context) -> None:
    component, name = context.args
    context.out.banner(
        f'Clearing runtime parameter "{name}" for component "{component}" on vhost "{context.vhost}" ...')
    _clear(context, _parameter_path(context))


def list_global_parameters(context: Context) -> None:
    context.out.banner("Listing global runtime parameters ...")
    rows = [row | {"value": compact(row["value"])} for row in context.client.get("/api/global-parameters")]
    context.out.table(("name", "value"), rows)


def set_global_parameter(context: Context) -> None:
    name, text = context.args
    context.out.banner(f'Setting global runtime parameter "{name}" to "{text}" ...')
    value = parse_json(text)
    _finish(context, context.client.request("PUT", f"/api/global-parameters/{part(name)}", {"value": value}))


def clear_global_parameter(context: Context) -> None:
    context.out.banner(f'Clearing global runtime parameter "{context.arg(0)}" ...')
    _clear(context, f"/api/global-parameters/{part(context.arg(0))}")


def set_cluster_name(context: Context) -> None:
    context.out.banner(f"Setting cluster name to {context.arg(0)} ...")
    _finish(context, context.client.request("PUT", "/api/cluster-name", {"name": context.arg(0)}))
