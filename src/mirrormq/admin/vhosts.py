"""Virtual hosts and their limits."""

from __future__ import annotations

from typing import Final

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.connections import channel_counters
from mirrormq.admin.errors import bad_request, missing
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queue_view import LENGTHS, queue_counters, span_of
from mirrormq.broker import registry
from mirrormq.broker.auth import Permission
from mirrormq.broker.broker import Broker
from mirrormq.broker.limits import LimitFault, validate_vhost_limits
from mirrormq.broker.metadata import key
from mirrormq.broker.policy_validation import validation_failed
from mirrormq.broker.vhost import VirtualHost

OF_QUEUES: Final = ("ack", "deliver", "deliver_get", "deliver_no_ack", "get", "get_empty", "get_no_ack", "redeliver")
OF_CHANNELS: Final = ("confirm", "drop_unroutable", "publish", "return_unroutable")
TRAFFIC: Final = ("recv_oct", "send_oct")


def totals(broker: Broker, vhosts: list[VirtualHost]) -> dict[str, int]:
    """Sums over the queues, channels and connections of some virtual hosts."""
    names = (*LENGTHS, *OF_QUEUES, *OF_CHANNELS, *TRAFFIC)
    sums = dict.fromkeys(names, 0)
    for vhost in vhosts:
        for queue in vhost.queues.values():
            _add(sums, queue_counters(queue), (*LENGTHS, *OF_QUEUES))
    for connection in broker.connections:
        if connection.vhost in vhosts:
            sums["recv_oct"] += connection.received_bytes
            sums["send_oct"] += connection.sent_bytes
            for channel in connection.channels.values():
                _add(sums, channel_counters(channel), OF_CHANNELS)
    return sums


def _add(sums: dict[str, int], counters: dict[str, int], names: tuple[str, ...]) -> None:
    for name in names:
        sums[name] += counters[name]


def describe(vhost: VirtualHost) -> Json:
    return {
        "name": vhost.name, "description": vhost.description, "tags": vhost.tags, "default_queue_type": "classic",
        "metadata": {"description": vhost.description, "tags": vhost.tags}, "tracing": vhost.tracing,
    }  # fmt: skip


def _show(call: Call, vhost: VirtualHost) -> Json:
    counters = totals(call.broker, [vhost])
    lengths, flows, traffic = (span_of(call.query, name) for name in ("lengths", "msg_rates", "data_rates"))
    keep = lengths is not None or flows is not None or traffic is not None
    figures = call.state.rates.look(("vhost", vhost.name), counters, call.broker.now, keep=keep)
    row = describe(vhost) | {"cluster_state": {call.broker.node_name: "running"}}
    row |= figures.fields(LENGTHS, lengths) | figures.fields(TRAFFIC, traffic)
    if counters["publish"] or counters["deliver_get"]:
        row["message_stats"] = figures.fields((*OF_QUEUES, *OF_CHANNELS), flows)
    return row


async def list_vhosts(call: Call) -> Answer:
    everyone = sorted(call.broker.vhosts.values(), key=lambda vhost: vhost.name)
    seen = everyone if call.principal.is_monitor else call.principal.visible(everyone)
    rows = Rows(seen, lambda vhost: _show(call, vhost), lambda vhost: vhost.name)
    return await answer_rows(call, rows, is_paged=True)


def show_vhost(call: Call) -> Answer:
    return answer_one(call, _show(call, call.vhost()))


def put_vhost(call: Call) -> Answer:
    """Whoever makes a virtual host by HTTP may use it."""
    name, body, broker = call.args["vhost"], call.body, call.broker
    is_new = name not in broker.vhosts
    _check_queue_type(body)
    if "tracing" in body:
        body["tracing"] = call.boolean("tracing", default=False)
    update_vhost(broker, name, body)
    principal = call.principal
    if is_new and not principal.is_local:
        registry.set_permission(broker, principal.name, name, Permission(".*", ".*", ".*"))
    return created(is_new=is_new)


def update_vhost(broker: Broker, name: str, body: Json) -> None:
    """What the body does not say stays as it is."""
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    old = broker.vhosts.get(name)
    description = body.get("description", metadata.get("description", old.description if old is not None else ""))
    tags = as_tags(body.get("tags", metadata.get("tags", old.tags if old is not None else [])))
    tracing = body.get("tracing", old is not None and old.tracing) is True
    registry.put_vhost(broker, name, description=str(description), tags=tags, tracing=tracing)


def as_tags(value: object) -> list[str]:
    """A list, or one text with commas."""
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise bad_request(["invalid_tags", value])
    return [word.strip() for word in words if word.strip()]


def _check_queue_type(body: Json) -> None:
    wanted = body.get("default_queue_type", body.get("defaultqueuetype", "classic"))
    if wanted not in ("classic", "undefined", "", None):
        raise bad_request(f"Unsupported default queue type: {wanted}; queues are classic, and mirrored by policy")


def delete_vhost(call: Call) -> Answer:
    vhost, broker = call.vhost(), call.broker
    _unbind_everything(broker, vhost)
    registry.delete_vhost(broker, vhost.name)
    for component, where, name in [entry for entry in broker.parameters if entry[1] == vhost.name]:
        del broker.parameters[component, where, name]
        broker.journal.delete(key("parameter", component, where, name))
    return done()


def _unbind_everything(broker: Broker, vhost: VirtualHost) -> None:
    """The exchanges that every virtual host has are never deleted, so nothing else would drop the records of bindings
    between them; at the next start those would name a virtual host that is gone.
    """
    for exchange in list(vhost.exchanges.values()):
        for binding in exchange.bindings():
            broker.unbind(vhost, exchange, binding.destination, binding.routing_key, binding.arguments)


def start_vhost(call: Call) -> Answer:
    """A virtual host runs as long as its node does."""
    call.vhost()
    node = call.args["node"]
    if node != call.broker.node_name:
        raise bad_request(f"Request to node {node} failed with nodedown")
    return done()


# --- limits ---------------------------------------------------------------------------------------------------------


async def list_limits(call: Call) -> Answer:
    rows = [{"vhost": vhost.name, "value": vhost.limits} for vhost in call.vhosts() if vhost.limits]
    return await answer_rows(call, Rows(rows, lambda row: row))


def set_limits(broker: Broker, vhost: VirtualHost, definition: object) -> None:
    """All limits at once. LimitFault if they cannot be."""
    vhost.limits = validate_vhost_limits(definition)
    registry.note_vhost(broker, vhost)


def put_limit(call: Call) -> Answer:
    vhost = call.broker.vhosts.get(call.args["vhost"])
    if vhost is None:
        raise missing("vhost_not_found")
    try:
        set_limits(call.broker, vhost, vhost.limits | {call.args["name"]: call.need("value")})
    except LimitFault as fault:
        raise bad_request(validation_failed(fault)) from None
    return done()


def delete_limit(call: Call) -> Answer:
    vhost = call.vhost()
    rest = {name: value for name, value in vhost.limits.items() if name != call.args["name"]}
    if vhost.limits != rest:
        set_limits(call.broker, vhost, rest)
    return done()
