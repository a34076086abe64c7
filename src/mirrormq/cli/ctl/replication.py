"""Commands on mirrors: bring them in sync, spread leaders, and ask whether a node may be stopped."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any, Final

from mirrormq.cli.ctl.client import Answer, part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import UNAVAILABLE, Failure, Misuse, refused
from mirrormq.cli.ctl.objects import queue_path
from mirrormq.cli.ctl.progress import follow

KINDS: Final = ("all", "classic", "quorum")
PATIENCE: Final = 120.0
CRITICAL: Final = "/api/health/checks/node-is-mirror-sync-critical"
ALONE: Final = "seems to be the only one in a single node cluster, the {what} does not apply"
HEADS: Final = ("Node name", "Number of quorum queues", "Number of replicated classic queues")


def sync_queue(context: Context) -> None:
    context.out.banner(f"Synchronising queue '{context.arg(0)}' in vhost '{context.vhost}' ...")
    result = _act(context, "sync")
    if result != "ok":
        raise Failure(UNAVAILABLE, result)
    context.out.flush()
    follow(context)
    context.done()


def cancel_sync_queue(context: Context) -> None:
    context.out.banner(f"Stopping synchronising queue '{context.arg(0)}' in vhost '{context.vhost}' ...")
    result = _act(context, "cancel_sync")
    if result != "ok":
        context.out.banner(result)
    context.done()


def _act(context: Context, action: str) -> str:
    answer = context.client.request("POST", queue_path(context) + "/actions", {"action": action, "tell": True})
    if answer.status == 404:
        raise Failure(UNAVAILABLE, "not_found")
    if not answer.is_good:
        raise refused(answer.reason)
    return str(answer.body["result"])


def move_leader(context: Context) -> None:
    """Ours: one queue's lead, to a mirror in sync."""
    name, to = context.arg(0), context.arg(1)
    context.out.banner(f"Moving the leader of queue '{name}' in vhost '{context.vhost}' to node {to} ...")
    context.require_vhost()
    answer = context.client.request("POST", queue_path(context) + "/actions", {"action": "move", "node": to})
    if answer.status == 404:
        raise Failure(UNAVAILABLE, f"there is no queue '{name}' in vhost '{context.vhost}'")
    if not answer.is_good:
        raise Failure(UNAVAILABLE, str(answer.reason))
    context.done(leader=to)


def rebalance(context: Context) -> None:
    kind = context.arg(0)
    if kind not in KINDS:
        raise Failure(UNAVAILABLE, f"type {kind} is not supported. Try one of {', '.join(KINDS)}.")
    plan = context.text("plan")
    if plan:
        _carry_out(context, plan)
        return
    patterns = {"vhost_pattern": context.text("vhost-pattern") or ".*", "queue_pattern": context.text("queue-pattern") or ".*"}
    for pattern in patterns.values():
        _check_pattern(pattern)
    context.out.banner(f"Re-balancing leaders of {kind} queues...")
    shares: list[dict[str, Any]] = context.client.change("POST", "/api/rebalance/queues", {**patterns, "tell": True}) \
        if kind != "quorum" else []
    rows = [dict(zip(HEADS, (share["node"], 0, share["leaders"]), strict=True)) for share in shares]
    context.out.table(HEADS, rows, is_boxed=True)


def _carry_out(context: Context, file: str) -> None:
    """Ours: the moves that `mirrormq lake report --plan` has written down."""
    try:
        moves = json.loads(Path(file).read_text(encoding="utf-8"))["moves"]
    except OSError as fault:
        raise Misuse(f"{file} cannot be read: {fault.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise Misuse(f"{file} is no plan: it should be JSON with a list of 'moves'") from None
    context.out.banner(f"Moving leaders as {file} says...")
    told = context.client.change("POST", "/api/rebalance/queues", {"moves": moves})
    if told["left"]:
        raise Failure(UNAVAILABLE, "\n".join([f"{told['moved']} queues have moved", *told["left"]]), is_bare=True)
    context.out.say(f"{told['moved']} queues have moved")


def _check_pattern(text: str) -> None:
    try:
        re.compile(text)
    except re.error as fault:
        raise Misuse(f"Bad argument: {text} is not a regular expression: {fault}") from None


# --- may this node be stopped? --------------------------------------------------------------------------------------


def check_mirror_critical(context: Context) -> None:
    node = context.node
    context.out.banner(f"Checking if node {node} is critical for data safety of any classic mirrored queues ...")
    answer = context.client.request("GET", CRITICAL)
    if not answer.is_good:
        raise Failure(UNAVAILABLE, "\n".join(
            f"{queue['readable_name']} would lose its only synchronised replica (master) if node {node} is stopped"
            for queue in answer.body["queues"]), is_bare=True)
    _not_critical(context, answer, f"Node {node} reported no classic mirrored queues without online synchronised mirrors")


def check_quorum_critical(context: Context) -> None:
    node = context.node
    context.out.banner(f"Checking if node {node} is critical for quorum of any quorum queues ...")
    answer = context.client.request("GET", "/api/health/checks/node-is-quorum-critical")
    _not_critical(context, answer, f"Node {node} reported no quorum queues with minimum quorum")


def _not_critical(context: Context, answer: Answer, sentence: str) -> None:
    is_alone = "reason" in answer.body
    reason = ALONE.format(what="check")
    if not context.out.is_json:
        context.out.say(f"Node {context.node} {reason}" if is_alone else sentence)
    else:
        context.out.document({"message": f"Target node {reason}", "result": "ok"} if is_alone else {"result": "ok"})


def await_synchronized_mirror(context: Context) -> None:
    patience = _patience(context)
    context.out.banner("Will wait for a synchronised mirror be online for all classic mirrored queues for "
                       f"{patience:g} seconds...", at_once=True)
    until = time.monotonic() + patience
    while not (answer := context.client.request("GET", CRITICAL)).is_good:
        if time.monotonic() > until:
            raise Failure(UNAVAILABLE, "time is up, no synchronised mirror came online for at least some classic mirrored queues")
        time.sleep(0.2)
    _say_alone(context, answer)


def await_quorum_plus_one(context: Context) -> None:
    """There are no quorum queues, so there is nothing to wait for."""
    context.out.banner("Will wait for a quorum + 1 of nodes to be online for all quorum queues for "
                       f"{_patience(context):g} seconds...")
    _say_alone(context, context.client.request("GET", "/api/health/checks/node-is-quorum-critical"))


def _say_alone(context: Context, answer: Answer) -> None:
    if "reason" in answer.body:
        context.out.say(f"Target node {ALONE.format(what='command')}")
    else:
        context.done()


def _patience(context: Context) -> float:
    given = context.values.get("timeout")
    return given if isinstance(given, float) else PATIENCE


def stop_forecast(context: Context) -> None:
    """Ours: RabbitMQ has nothing like it."""
    node = context.node
    context.out.banner(f"What becomes of the queues of node {node} if it stops now ...")
    told = context.client.get(f"/api/nodes/{part(node)}/stop-forecast")
    context.out.table(("vhost", "name", "messages", "verdict", "sentence"), told["queues"])


# --- what is not here -------------------------------------------------------------------------------------------------


def peek(context: Context) -> None:
    context.out.banner(f"Peeking at quorum queue {context.arg(0)} at position {context.arg(1)} on node {context.node} ...")
    if not context.client.exists(queue_path(context)):
        raise Failure(UNAVAILABLE, "Queue was not found")
    raise Failure(UNAVAILABLE, "Cannot peek into a classic queue")


def list_unresponsive_queues(context: Context) -> None:
    """A queue answers as long as its node does; damaged ones do not."""
    context.out.banner(f"Listing unresponsive queues for vhost {context.vhost} ...")
    answer = context.client.request("GET", f"/api/queues/{context.vhost_part}?columns=name,state")
    rows = answer.body if answer.is_good else []
    context.out.table(("name",), [{"name": row["name"]} for row in rows if row["state"] in ("down", "crashed")])
