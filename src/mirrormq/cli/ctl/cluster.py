"""Commands on the cluster and on the application of a node: start and stop it, join, leave, forget, maintenance."""

from __future__ import annotations

import time
from typing import Any, Final

from mirrormq.admin.rendezvous import full_name
from mirrormq.cli.ctl.client import Answer
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import DATA, SOFTWARE, UNAVAILABLE, Failure, Misuse, WrongState
from mirrormq.cli.ctl.node import START_PATIENCE, listener_line, listeners_of, partitions, print_sections

SHOWN: Final = 20           # names of lost queues; more would hide the sentence
CODES: Final = {"itself": SOFTWARE}
UNREACHABLE: Final = ("unreachable_node", "cookie")


# --- the application ------------------------------------------------------------------------------------------------


def stop_app(context: Context) -> None:
    context.out.banner(f"Stopping rabbit application on node {context.node} ...", at_once=True)
    _do(context, "stop")


def start_app(context: Context) -> None:
    context.out.banner(f"Starting node {context.node} ...", at_once=True)
    _do(context, "start")


def reset(context: Context) -> None:
    _require_stopped(context)
    context.out.banner(f"Resetting node {context.node} ...", at_once=True)
    _tell_lost(context, _do(context, "reset"))


def force_reset(context: Context) -> None:
    _require_stopped(context)
    context.out.banner(f"Forcefully resetting node {context.node} ...")
    _do(context, "force_reset")


def drain(context: Context) -> None:
    context.out.banner(f"Will put node {context.node} into maintenance mode. The node will no longer serve any client traffic!")
    _do(context, "drain")


def revive(context: Context) -> None:
    context.out.banner(f"Will put node {context.node} back into regular operating mode. The node will again serve client traffic "
                       "and host primary queue replicas.")
    _do(context, "revive")


def force_boot(context: Context) -> None:
    """A node starts without waiting for others, so nothing has to be forced."""
    _require_stopped(context)
    context.out.banner(f"Forcing boot for node {context.node} ...")


def post_upgrade(context: Context) -> None:
    context.out.banner("Executing post upgrade checks...")
    context.client.change("POST", "/api/rebalance/queues", {})
    context.done()


def _require_stopped(context: Context) -> None:
    """Before anything is said, as RabbitMQ does it; the node checks once more."""
    if context.client.get("/api/app")["state"] != "stopped":
        raise WrongState("this command requires the 'rabbit' app to be stopped on the target node. Stop it with "
                         "'mirrormqctl stop_app'.")


def _do(context: Context, deed: str, body: object = None) -> dict[str, Any]:
    answer = context.client.request("POST", f"/api/app/{deed}", body)
    if not answer.is_good:
        raise _failure(answer, body)
    told: dict[str, Any] = answer.body
    context.done()
    return told


def _failure(answer: Answer, body: object) -> Failure:
    reason = str(answer.reason or f"the node answered {answer.status}")
    if answer.word in UNREACHABLE and isinstance(body, dict):
        return Failure(UNAVAILABLE, is_bare=True, text=(
            f"Error: unable to perform an operation on node '{full_name(body['node'])}'. "
            "Please see diagnostics information and suggestions below.\n\n"
            "Most common reasons for this are:\n\n * Target node is not running\n * Its cookie is another one\n"
            f" * It is on another machine, and port 25672 there cannot be reached\n\nDIAGNOSTICS\n===========\n\n{reason}"))
    if answer.word == "not_a_cluster_node":
        reason = f"{{:not_a_cluster_node, '{reason}'}}"
    return Failure(CODES.get(answer.word, UNAVAILABLE), reason)


def _tell_lost(context: Context, told: dict[str, Any]) -> None:
    lost: list[list[str]] = told["lost_queues"]
    if lost:
        names = ", ".join(f"'{name}' in vhost '{vhost}'" for vhost, name in lost[:SHOWN])
        more = f" and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        context.out.banner(f"With the node went {len(lost)} queue(s) that had no other copy: {names}{more}")


# --- members --------------------------------------------------------------------------------------------------------


def join_cluster(context: Context) -> None:
    if context.flag("disc") and context.flag("ram"):
        raise Misuse("Bad argument: The node type must be either disc or ram.", DATA)
    _require_stopped(context)
    context.out.banner(f"Clustering node {context.node} with {context.arg(0)}", at_once=True)
    told = _do(context, "join", {"node": context.arg(0)})
    if told["message"]:
        context.out.banner(told["message"])
    if context.flag("ram"):
        context.out.banner("Every node keeps its data on disk: --ram changes nothing")


def forget_cluster_node(context: Context) -> None:
    context.out.banner(f"Removing node {context.arg(0)} from the cluster")
    _tell_lost(context, _do(context, "forget", {"node": context.arg(0)}))


def rename_cluster_node(_: Context) -> None:
    raise Failure(UNAVAILABLE, "a node cannot be renamed: what it has is kept under its name. Let a node with the new name join, "
                  "then forget the old one")


def change_cluster_node_type(context: Context) -> None:
    kind = context.arg(0)
    if kind not in ("disc", "disk", "ram"):
        raise Misuse("Bad argument: The node type must be either disc or ram.", DATA)
    _require_stopped(context)
    context.out.banner(f"Turning {context.node} into a {kind} node")
    if kind == "ram":
        raise Failure(UNAVAILABLE, "there are no ram nodes here: every node keeps its data on disk")
    context.out.banner("Node type is already disc")


def await_online_nodes(context: Context) -> None:
    wanted = context.arg(0)
    if not wanted.isdecimal() or int(wanted) < 1:
        raise Misuse("Bad argument: Argument must be a positive integer", DATA)
    given = context.values.get("timeout")
    patience = given if isinstance(given, float) else START_PATIENCE
    until = time.monotonic() + patience
    online = len(context.client.get("/api/cluster")["running"])
    context.out.banner(f"Will wait for at least {wanted} nodes to join the cluster of {context.node}. "
                       f"Timeout: {patience:g} seconds.", at_once=True)
    while online < int(wanted):
        if time.monotonic() > until:
            raise Failure(SOFTWARE, f"Error: timed out while waiting. Not enough nodes joined {context.node}'s cluster.")
        time.sleep(0.1)
        online = len(context.client.get("/api/cluster")["running"])


# --- cluster_status -------------------------------------------------------------------------------------------------


def cluster_status(context: Context) -> None:
    cluster: dict[str, Any] = context.client.get("/api/cluster")
    overview = context.client.get("/api/overview?columns=product_name")
    context.out.banner(f"Cluster status of node {cluster['node']} ...")
    flags = context.client.get("/api/feature-flags")
    product = overview["product_name"]
    if context.out.is_json:
        context.out.document(_document(cluster, flags, product))
        return
    print_sections(context, [
        ("Basics", [f"Cluster name: {cluster['name']}"]), ("Disk Nodes", cluster["members"]),
        ("Running Nodes", cluster["running"]),
        ("Versions", [f"{name}: {product} {version}" for name, version in cluster["versions"].items()]),
        ("Maintenance status", [f"Node: {name}, status: {_maintenance(is_on)}"
                                for name, is_on in cluster["maintenance"].items()]),
        ("Alarms", _alarms(cluster)),
        ("Network Partitions", partitions(cluster)),
        *clocks(cluster),
        ("Listeners", [f"Node: {name}, {listener_line(item)}" for name, items in cluster["listeners"].items()
                       for item in listeners_of({"listeners": items})]),
        ("Feature flags", [f"Flag: {flag['name']}, state: {flag['state']}" for flag in flags]),
    ])  # fmt: skip


def _document(cluster: dict[str, Any], flags: list[Any], product: str) -> dict[str, Any]:
    return {
        "alarms": _alarms(cluster), "cluster_name": cluster["name"], "disk_nodes": cluster["members"], "feature_flags": flags,
        "listeners": {name: listeners_of({"listeners": items}) for name, items in cluster["listeners"].items()},
        "maintenance_status": {name: _maintenance(is_on) for name, is_on in cluster["maintenance"].items()},
        "partitions": cluster["partitions"], "ram_nodes": [], "running_nodes": cluster["running"],
        "versions": {name: {"rabbitmq_name": product, "rabbitmq_version": version}
                     for name, version in cluster["versions"].items()},
    }  # fmt: skip


def clocks(cluster: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Only when they differ; a node of an earlier release does not tell."""
    apart: dict[str, float] = cluster.get("clocks_apart", {})
    lines = [f"The clock of node {name} is {abs(seconds):.1f} seconds {'ahead of' if seconds > 0 else 'behind'} that of node "
             f"{cluster['node']}" for name, seconds in apart.items()]
    return [("Clocks", lines)] if lines else []


def _maintenance(is_on: bool) -> str:  # noqa: FBT001 - a value of a table
    return "marked for maintenance" if is_on else "not under maintenance"


def _alarms(cluster: dict[str, Any]) -> list[str]:
    return [f"{alarm['resource']} alarm on node {alarm['node']}" for alarm in cluster["alarms"]]
