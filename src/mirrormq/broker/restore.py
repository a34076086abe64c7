"""Rebuilding the broker from its records and its logs when the node starts."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING

from mirrormq.broker import registry
from mirrormq.broker.arguments import QueueArguments
from mirrormq.broker.auth import Permission, TopicPermission, User
from mirrormq.broker.bindings import Destination
from mirrormq.broker.metadata import Record, parts, unpack
from mirrormq.broker.policy import Policy

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

ORDER = ("vhost", "user", "permission", "topic_permission", "policy", "operator_policy", "parameter", "global_parameter",
         "exchange", "queue", "binding", "delay")


def restore_records(broker: Broker, records: dict[str, str]) -> None:
    """Bring back everything the records tell of. Nothing of it is noted in the journal again."""
    by_kind: dict[str, list[tuple[list[str], Record]]] = {kind: [] for kind in ORDER}
    for name, text in records.items():
        kind, *rest = parts(name)
        by_kind.setdefault(kind, []).append((rest, json.loads(text)))
    for kind in ORDER:
        for names, record in by_kind[kind]:
            _restore(broker, kind, names, record)
    broker.journal.take()
    broker.journal.written = 0
    broker.journal.stable = 0


def _restore(broker: Broker, kind: str, names: list[str], record: Record) -> None:
    if kind == "vhost":
        vhost = registry.put_vhost(broker, names[0], description=record["description"], tags=record["tags"],
                                   tracing=record["tracing"])
        vhost.limits = record["limits"]
    elif kind == "user":
        registry.put_user(broker, User(names[0], record["hash"], record["algorithm"], tuple(record["tags"]), record["limits"]))
    elif kind == "permission":
        broker.authority.set_permission(names[0], names[1], Permission(record["configure"], record["write"], record["read"]))
    elif kind == "topic_permission":
        broker.authority.set_topic_permission(names[0], names[1], names[2], TopicPermission(record["write"], record["read"]))
    elif kind in ("policy", "operator_policy"):
        policy = Policy(names[0], names[1], record["pattern"], record["apply_to"], record["definition"], record["priority"])
        registry.put_policy(broker, policy, operator=kind == "operator_policy")
    elif kind == "parameter":
        broker.parameters[names[0], names[1], names[2]] = record["value"]
    elif kind == "global_parameter":
        broker.global_parameters[names[0]] = record["value"]
    else:
        _restore_topology(broker, kind, names, record)


def _restore_topology(broker: Broker, kind: str, names: list[str], record: Record) -> None:
    vhost = broker.vhosts.get(names[0])
    if vhost is None:
        return              # left over from a virtual host that was deleted
    if kind == "exchange":
        registry.create_exchange(broker, vhost, names[1], record["type"], durable=True, auto_delete=record["auto_delete"],
                                 internal=record["internal"], arguments=unpack(record["arguments"]))
    elif kind == "queue":
        registry.create_queue(broker, vhost, names[1], QueueArguments(unpack(record["arguments"])), durable=True,
                              auto_delete=record["auto_delete"], owner=None, log_id=record["log"])
    elif kind == "binding":
        source = vhost.exchanges.get(names[1])
        found: Destination | None = vhost.queues.get(names[3]) if names[2] == "queue" else vhost.exchanges.get(names[3])
        if source is not None and found is not None:
            registry.bind(broker, vhost, source, found, names[4], unpack(record["arguments"]))
    elif kind == "delay" and names[1] in vhost.exchanges:
        broker.delays.open(vhost, vhost.exchanges[names[1]], record["log"])
