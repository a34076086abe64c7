"""Commands on one queue, and on connections."""

from __future__ import annotations

import json
import time
from typing import Any, Final

from mirrormq.cli.ctl.client import Answer, part
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import UNAVAILABLE, USAGE, Failure, Misuse, no_vhost, refused
from mirrormq.cli.ctl.objects import connection_pid, queue_path


def purge_queue(context: Context) -> None:
    context.out.banner(f"Purging queue '{context.arg(0)}' in vhost '{context.vhost}' ...")
    _on_queue(context, "DELETE", "/contents")


def _on_queue(context: Context, method: str, action: str, body: object = None) -> None:
    answer = context.client.request(method, queue_path(context) + action, body)
    if _is_unknown(answer):
        raise Failure(UNAVAILABLE, "not_found")
    if not answer.is_good:
        raise refused(answer.reason)
    context.done()


def _is_unknown(answer: Answer) -> bool:
    """There is no such queue. One that is there and not served is answered with 404 too, and a sentence."""
    return answer.status == 404 and answer.reason == "Not Found"


def delete_queue(context: Context) -> None:
    conditions = [word for word in ("empty", "unused") if context.flag(f"if-{word}")]
    clause = " " + " and ".join(f"if queue is {word}" for word in conditions) if conditions else ""
    context.out.banner(f"Deleting queue '{context.arg(0)}' on vhost '{context.vhost}'{clause} ...")
    path = queue_path(context)
    queue = context.client.request("GET", path)
    query = "&".join(f"if-{word}=true" for word in conditions)
    answer = context.client.request("DELETE", f"{path}?{query}")
    if _is_unknown(answer):
        raise Failure(USAGE, "Queue not found")
    if not answer.is_good:
        raise Failure(USAGE, _why_kept(str(answer.reason)))
    ready = queue.body.get("messages_ready") if queue.is_good else None
    context.out.say("Queue was successfully deleted. How many messages it had is not known" if ready is None else
                    f"Queue was successfully deleted with {ready} ready messages")


def _why_kept(reason: str) -> str:
    if reason.endswith("in use"):
        return "Queue is in use"
    return "Queue is not empty" if reason.endswith("not empty") else reason


ADD_WORDS: Final = ("durable", "auto_delete", "node", "mirrored", "copy_from", "routing_key", "arguments", "mirroring")


def add_queue(context: Context) -> None:
    """Tutorials know this command; RabbitMQ has none. `mirroring` names queues that get everything that enters this one."""
    given = _words(context.args[1:])
    copies = _copies(given.pop("mirroring", None))
    if "arguments" in given:
        given["arguments"] = _json("arguments", given["arguments"])
    context.out.banner(f"Adding queue '{context.arg(0)}' in vhost '{context.vhost}' ...")
    body = {"durable": True, **given}
    _declare(context, context.arg(0), body)
    for copy in copies:
        _declare(context, copy, {"durable": body["durable"], "copy_from": context.arg(0)})
    context.done()


def _words(args: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in args:
        name, equals, value = word.partition("=")
        if not equals or name not in ADD_WORDS:
            raise Misuse(f"'{word}' is not one of {', '.join(f'{known}=…' for known in ADD_WORDS)}")
        found[name] = value
    return found


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as fault:
        raise Misuse(f"{name} is not JSON: {fault}") from None


def _copies(text: str | None) -> list[str]:
    """The names in `{"copies": [{"src_name": "other", "dst_tag": ""}]}`. A tag has no meaning here."""
    if text is None:
        return []
    asked = _json("mirroring", text)
    copies = asked.get("copies") if isinstance(asked, dict) else None
    if not isinstance(copies, list) or not all(isinstance(copy, dict) and copy.get("src_name") for copy in copies):
        raise Misuse('mirroring is such as {"copies": [{"src_name": "other-queue", "dst_tag": ""}]}; for mirrors on other nodes '
                     "use mirrored=true, or set_policy")
    if any(copy.get("dst_tag") for copy in copies):
        raise Misuse("a dst_tag has no meaning here: leave it empty")
    return [str(copy["src_name"]) for copy in copies]


def _declare(context: Context, name: str, body: dict[str, Any]) -> None:
    answer = context.client.request("PUT", f"/api/queues/{context.vhost_part}/{part(name)}", body)
    if answer.status == 404:
        raise no_vhost(context.vhost)
    if not answer.is_good:
        raise refused(answer.reason)


# --- connections ----------------------------------------------------------------------------------------------------


def close_connection(context: Context) -> None:
    """By name, or by what `list_connections pid` shows."""
    wanted, reason = context.args
    context.out.banner(f"Closing connection {wanted}, reason: {reason}...")
    known = context.client.get("/api/connections?columns=name,node")
    matching = [row["name"] for row in known if wanted in (row["name"], connection_pid(row))]
    if not matching:
        raise Failure(UNAVAILABLE, f'Error:\n{{:invalid_pid_syntax, "{wanted}"}}')
    for name in matching:
        _close(context, name, reason)
    context.done()


def _close(context: Context, name: str, reason: str) -> None:
    answer = context.client.request("DELETE", f"/api/connections/{part(name)}", headers={"X-Reason": reason})
    if not answer.is_good and answer.status != 404:
        raise refused(answer.reason)


def close_all_connections(context: Context) -> None:
    everywhere = context.flag("global")
    where = "" if everywhere else f" in vhost {context.vhost}"
    reason = context.arg(0)
    context.out.banner(f"Closing all connections{where}, reason: {reason}...")
    path = "/api/connections" if everywhere else f"/api/vhosts/{context.vhost_part}/connections"
    answer = context.client.request("GET", path + "?columns=name")
    names = [row["name"] for row in answer.body] if answer.is_good else []
    limit, delay = context.values.get("limit"), context.values.get("per-connection-delay")
    if isinstance(limit, int) and limit > 0:
        names = names[:limit]
    for name in names:
        _close(context, name, reason)
        if isinstance(delay, (int, float)) and delay > 0:
            time.sleep(delay / 1000)
    context.out.say(f"Closed {len(names)} connections")


def close_all_user_connections(context: Context) -> None:
    user, reason = context.args
    context.out.banner(f"Closing connections of user {user}, reason: {reason}...")
    rows: list[dict[str, Any]] = context.client.get(f"/api/connections/username/{part(user)}")
    for row in rows:
        _close(context, row["name"], reason)
    context.done()
