"""Virtual hosts and their limits."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import bad_request, missing
from mirrormq.admin.figures import DETAILS, Fields
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queue_view import LENGTHS
from mirrormq.admin.totals import OF_CHANNELS, OF_QUEUES, TRAFFIC, vhost_figures
from mirrormq.broker import rules
from mirrormq.broker.auth import Permission
from mirrormq.broker.broker import Broker
from mirrormq.broker.limits import LimitFault, check_vhosts, validate_vhost_limits
from mirrormq.broker.policy_validation import validation_failed
from mirrormq.broker.vhost import VirtualHost


def describe(vhost: VirtualHost) -> Json:
    return {
        "name": vhost.name, "description": vhost.description, "tags": vhost.tags, "default_queue_type": "classic",
        "metadata": {"description": vhost.description, "tags": vhost.tags}, "tracing": vhost.tracing,
    }  # fmt: skip


def _show(call: Call, vhost: VirtualHost, figures: Fields) -> Json:
    row = describe(vhost) | {"cluster_state": dict.fromkeys(sorted(call.runtime.cluster.membership.running), "running")}
    row |= {name: figures[name] for field in (*LENGTHS, *TRAFFIC) for name in (field, field + DETAILS)}
    if figures["publish"] or figures["deliver_get"]:
        row["message_stats"] = {name: figures[name] for field in (*OF_QUEUES, *OF_CHANNELS) for name in (field, field + DETAILS)}
    return row


async def list_vhosts(call: Call) -> Answer:
    everyone = sorted(call.broker.vhosts.values(), key=lambda vhost: vhost.name)
    seen = everyone if call.principal.is_monitor else call.principal.visible(everyone)
    figures = await vhost_figures(call.state, [vhost.name for vhost in seen], call.query)
    rows = Rows(seen, lambda vhost: _show(call, vhost, figures[vhost.name]), lambda vhost: vhost.name)
    return await answer_rows(call, rows, is_paged=True)


async def show_vhost(call: Call) -> Answer:
    vhost = call.vhost()
    figures = await vhost_figures(call.state, [vhost.name], call.query)
    return answer_one(call, _show(call, vhost, figures[vhost.name]))


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
        rules.set_permission(broker, principal.name, name, Permission(".*", ".*", ".*"))
    return created(is_new=is_new)


def update_vhost(broker: Broker, name: str, body: Json) -> None:
    """What the body does not say stays as it is."""
    metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
    assert isinstance(metadata, dict)
    old = broker.vhosts.get(name)
    if old is None:
        _check_count(broker, name)
    description = body.get("description", metadata.get("description", old.description if old is not None else ""))
    tags = as_tags(body.get("tags", metadata.get("tags", old.tags if old is not None else [])))
    tracing = body.get("tracing", old is not None and old.tracing) is True
    rules.put_vhost(broker, name, description=str(description), tags=tags, tracing=tracing,
                    limits={} if old is None else old.limits)


def _check_count(broker: Broker, name: str) -> None:
    try:
        check_vhosts(broker.limits.vhosts, name, len(broker.vhosts))
    except LimitFault as fault:
        raise bad_request(str(fault)) from None


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
    rules.delete_vhost(broker, vhost.name)
    return done()


def start_vhost(call: Call) -> Answer:
    """A virtual host runs as long as its node does."""
    call.vhost()
    node = call.args["node"]
    if node not in call.runtime.cluster.membership.running:
        raise bad_request(f"Request to node {node} failed with nodedown")
    return done()


# --- limits ---------------------------------------------------------------------------------------------------------


async def list_limits(call: Call) -> Answer:
    rows = [{"vhost": vhost.name, "value": vhost.limits} for vhost in call.vhosts() if vhost.limits]
    return await answer_rows(call, Rows(rows, lambda row: row))


def set_limits(broker: Broker, vhost: VirtualHost, definition: object) -> None:
    """All limits at once. LimitFault if they cannot be."""
    rules.put_vhost_limits(broker, vhost, validate_vhost_limits(definition))


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
