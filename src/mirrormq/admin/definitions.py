"""Definitions: everything but messages, as one JSON document, in RabbitMQ's format."""

from __future__ import annotations

from email import message_from_bytes
from typing import Final

from mirrormq import __version__
from mirrormq.admin.call import Answer, Call, Json, done, parse_object
from mirrormq.admin.definitions_import import import_definitions
from mirrormq.admin.errors import bad_request
from mirrormq.admin.parameters import global_rows
from mirrormq.admin.parameters import rows as parameter_rows
from mirrormq.admin.permissions import rows as permission_rows
from mirrormq.admin.permissions import topic_rows
from mirrormq.admin.policies import show as show_policy
from mirrormq.admin.users import show as show_user
from mirrormq.admin.values import from_table
from mirrormq.broker.bindings import Binding
from mirrormq.broker.broker import Broker
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.handshake import COMPATIBLE_VERSION
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost

UNPARSED: Final = "failed_to_parse_json"


def export_definitions(broker: Broker) -> Json:
    vhosts = list(broker.vhosts.values())
    return {
        "rabbit_version": COMPATIBLE_VERSION, "rabbitmq_version": COMPATIBLE_VERSION, "product_name": "MirrorMQ",
        "product_version": __version__,
        "users": [show_user(user) for user in broker.authority.users.values()],
        "vhosts": [_vhost(vhost) for vhost in vhosts],
        "permissions": permission_rows(broker.authority), "topic_permissions": topic_rows(broker.authority),
        "parameters": parameter_rows(broker), "global_parameters": global_rows(broker),
        "policies": [show_policy(policy) for policy in broker.policies.values()],
        "queues": [_queue(queue) | {"vhost": queue.vhost} for vhost in vhosts for queue in _queues(vhost)],
        "exchanges": [_exchange(item) | {"vhost": item.vhost} for vhost in vhosts for item in _exchanges(vhost)],
        "bindings": [_binding(item) | {"vhost": vhost.name} for vhost in vhosts for item in _bindings(vhost)],
    }  # fmt: skip


def export_vhost(broker: Broker, vhost: VirtualHost) -> Json:
    return {
        "rabbit_version": COMPATIBLE_VERSION,
        "parameters": [row for row in parameter_rows(broker) if row["vhost"] == vhost.name],
        "policies": [show_policy(policy) for policy in broker.policies.values() if policy.vhost == vhost.name],
        "queues": [_queue(queue) for queue in _queues(vhost)],
        "exchanges": [_exchange(exchange) for exchange in _exchanges(vhost)],
        "bindings": [_binding(binding) for binding in _bindings(vhost)],
    }  # fmt: skip


def _vhost(vhost: VirtualHost) -> Json:
    metadata = {"description": vhost.description, "tags": vhost.tags}
    return {"name": vhost.name, **metadata, "metadata": metadata}


def _queues(vhost: VirtualHost) -> list[Queue]:
    """Those that outlive their connection."""
    return [queue for queue in vhost.queues.values() if not queue.exclusive]


def _queue(queue: Queue) -> Json:
    return {"name": queue.name, "durable": queue.durable, "auto_delete": queue.auto_delete,
            "arguments": from_table(queue.arguments.table)}


def _exchanges(vhost: VirtualHost) -> list[Exchange]:
    """Those that somebody declared."""
    return [item for item in vhost.exchanges.values() if item.name and not item.name.startswith("amq.")]


def _exchange(exchange: Exchange) -> Json:
    return {"name": exchange.name, "type": exchange.type, "durable": exchange.durable,
            "auto_delete": exchange.auto_delete, "internal": exchange.internal,
            "arguments": from_table(exchange.arguments)}


def _bindings(vhost: VirtualHost) -> list[Binding]:
    everything = [binding for exchange in vhost.exchanges.values() for binding in exchange.bindings()]
    return [item for item in everything if not (isinstance(item.destination, Queue) and item.destination.exclusive)]


def _binding(binding: Binding) -> Json:
    return {"source": binding.source.name, "destination": binding.destination.name,
            "destination_type": binding.destination.kind, "routing_key": binding.routing_key,
            "arguments": from_table(binding.arguments)}


# --- requests -------------------------------------------------------------------------------------------------------


def _download(call: Call) -> dict[str, str]:
    name = call.query.get("download")
    return {"content-disposition": f'attachment; filename="{name}"'} if name and name.isprintable() and '"' not in name else {}


def show_definitions(call: Call) -> Answer:
    return Answer(200, export_definitions(call.broker), _download(call))


def show_vhost_definitions(call: Call) -> Answer:
    return Answer(200, export_vhost(call.broker, call.vhost()), _download(call))


async def post_definitions(call: Call) -> Answer:
    await import_definitions(call.runtime, _document(call))
    return done()


async def post_vhost_definitions(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    await import_definitions(call.runtime, _document(call), vhost.name)
    return done()


def _document(call: Call) -> Json:
    kind = call.headers.get("Content-Type", "")
    if not kind.startswith("multipart/form-data"):
        return parse_object(call.raw, UNPARSED)
    form = message_from_bytes(b"Content-Type: " + kind.encode("latin-1") + b"\r\n\r\n" + call.raw)
    for part in form.walk():
        if part.get_param("name", header="content-disposition") == "file":
            content = part.get_payload(decode=True)
            return parse_object(content if isinstance(content, bytes) else b"", UNPARSED)
    raise bad_request(UNPARSED)
