"""Bodies of requests, as JSON schemas, by method and path of the route."""

from __future__ import annotations

from typing import Any, Final

from mirrormq.cluster.rebalance import STRATEGIES

Schema = dict[str, Any]
TEXT: Final = {"type": "string"}
WHOLE: Final = {"type": "integer"}
TABLE: Final = {"type": "object"}
FLAG: Final = {"type": "boolean"}
ANY: Final[Schema] = {}
MESSAGES: Final = ("/api/queues/{vhost}/{name}/get", "/api/exchanges/{vhost}/{name}/publish")
"""Paths whose POST is answered with something."""


def _body(*required: str, **properties: Schema) -> Schema:
    found: Schema = {"type": "object", "properties": {name.replace("__", "-"): schema for name, schema in properties.items()}}
    return (found | {"required": list(required)}) if required else found


_POLICY: Final = _body("pattern", "definition", pattern=TEXT, definition=TABLE, priority=WHOLE,
                       apply__to={"type": "string", "enum": ["all", "queues", "exchanges", "classic_queues"]})
_LIMIT: Final = _body("value", value=WHOLE)
_VALUE: Final = _body("value", value=ANY)
_DEFINITIONS: Final = _body(**{name: {"type": "array", "items": TABLE} for name in (
    "users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "queues", "exchanges",
    "bindings")})  # fmt: skip
BODIES: Final[dict[str, Schema]] = {
    "PUT /api/cluster-name": _body("name", name=TEXT),
    "POST /api/definitions": _DEFINITIONS,
    "POST /api/definitions/{vhost}": _DEFINITIONS,
    "POST /api/rebalance/queues": _body(
        vhost_pattern=TEXT, queue_pattern=TEXT, strategy={"type": "string", "enum": [*STRATEGIES, "round-robin"]}, tell=FLAG,
        moves={"type": "array", "items": TABLE}),
    "PUT /api/exchanges/{vhost}/{name}": _body(type=TEXT, durable=FLAG, auto_delete=FLAG, internal=FLAG, arguments=TABLE),
    "POST /api/exchanges/{vhost}/{name}/publish": _body(
        "properties", "routing_key", "payload", "payload_encoding", properties=TABLE, routing_key=TEXT, payload=TEXT,
        payload_encoding={"type": "string", "enum": ["string", "base64"]}),
    "PUT /api/lake-mirrors/{vhost}/{name}": _body(pattern=TEXT, lease=WHOLE, max__bytes=WHOLE, queues=TABLE, rewind=FLAG),
    "POST /api/session": _body("username", "password", username=TEXT, password=TEXT),
    "POST /api/queues/{vhost}/{name}/quarantine/{item}": _body(
        "action", action={"type": "string", "enum": ["requeue", "discard"]}),
    "PUT /api/queues/{vhost}/{name}": _body(
        durable=FLAG, auto_delete=FLAG, arguments=TABLE, node=TEXT, mirrored=FLAG, copy_from=TEXT, routing_key=TEXT),
    "POST /api/queues/{vhost}/{name}/actions": _body(
        "action", action={"type": "string", "enum": ["sync", "cancel_sync", "move"]}, node=TEXT, tell=FLAG),
    "POST /api/queues/{vhost}/{name}/get": _body(
        "count", "ackmode", "encoding", count=WHOLE, truncate=WHOLE, encoding={"type": "string", "enum": ["auto", "base64"]},
        ackmode={"type": "string", "enum": ["ack_requeue_true", "ack_requeue_false", "reject_requeue_true",
                                            "reject_requeue_false"]}),
    "POST /api/bindings/{vhost}/e/{source}/{kind:e|q}/{destination}": _body(routing_key=TEXT, arguments=TABLE),
    "PUT /api/vhosts/{vhost}": _body(description=TEXT, tags=ANY, tracing=FLAG, default_queue_type=TEXT),
    "PUT /api/vhost-limits/{vhost}/{name}": _LIMIT,
    "PUT /api/user-limits/{user}/{name}": _LIMIT,
    "POST /api/users/bulk-delete": _body("users", users={"type": "array", "items": TEXT}),
    "PUT /api/users/{user}": _body("tags", tags=ANY, password=TEXT, password_hash=TEXT, hashing_algorithm=TEXT),
    "PUT /api/permissions/{vhost}/{user}": _body("configure", "write", "read", configure=TEXT, write=TEXT, read=TEXT),
    "PUT /api/topic-permissions/{vhost}/{user}": _body("exchange", "write", "read", exchange=TEXT, write=TEXT, read=TEXT),
    "PUT /api/parameters/{component}/{vhost}/{name}": _VALUE,
    "PUT /api/global-parameters/{name}": _VALUE,
    "PUT /api/policies/{vhost}/{name}": _POLICY,
    "PUT /api/operator-policies/{vhost}/{name}": _POLICY,
}
NO_BODY: Final = ("POST /api/vhosts/{vhost}/start/{node}", "POST /api/undo/{vhost}/{item}",
                  "POST /api/feed/{vhost}/{name}/publish")
"""Requests that take none, or none in JSON, although their method may have one."""
