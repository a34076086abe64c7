"""Policies as they apply to what exists: which queue and exchange has which, and what follows from it."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.arguments import effective_settings
from mirrormq.broker.policy import Policy, match, merge
from mirrormq.broker.queue import Queue
from mirrormq.broker.sharding import ensure_shards

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def policies_for(broker: Broker, vhost: str, name: str, kind: str) -> tuple[Policy | None, Policy | None]:
    return (match(broker.policies.values(), vhost, name, kind), match(broker.operator_policies.values(), vhost, name, kind))


def name_policies(queue: Queue, policy: Policy | None, operator: Policy | None) -> None:
    queue.policy = "" if policy is None else policy.name
    queue.operator_policy = "" if operator is None else operator.name
    queue.effective_policy = merge(policy, operator)


def apply_policies(broker: Broker, vhost_name: str) -> None:
    """Bring every queue and exchange of a virtual host to the policies as they are now."""
    vhost = broker.vhosts.get(vhost_name)
    if vhost is None:
        return
    for queue in vhost.queues.values():
        policy, operator = policies_for(broker, vhost_name, queue.name, "queue")
        name_policies(queue, policy, operator)
        settings = effective_settings(queue.arguments, queue.effective_policy)
        queue.apply_settings(settings)
        hosted = broker.queues_by_log.get(queue.log_id) if queue.is_away else None
        if hosted is not None:
            name_policies(hosted, policy, operator)
            hosted.apply_settings(settings)
    for exchange in list(vhost.exchanges.values()):
        policy, operator = policies_for(broker, vhost_name, exchange.name, "exchange")
        exchange.apply_policy(policy, operator)
        ensure_shards(broker, vhost, exchange)
