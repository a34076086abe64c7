"""Sharded exchanges: a policy with `shards-per-node` gives an `x-modulus-hash` exchange its queues.

The queues are durable, named after exchange and node, and bound with the policy's routing key. A consumer that asks for a
queue of the exchange's name gets the shard with the fewest consumers.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.bindings import MODULUS_HASH
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.journal import Proposal
from mirrormq.broker.metadata import key
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def shard_names(broker: Broker, exchange: Exchange) -> list[str]:
    count = exchange.effective_policy.get("shards-per-node")
    if exchange.type != MODULUS_HASH or not isinstance(count, int):
        return []
    return [f"sharding: {exchange.name} - {broker.node_name} - {number}" for number in range(count)]


def ensure_shards(broker: Broker, vhost: VirtualHost, exchange: Exchange) -> None:
    """Propose the queues that the policy asks for. Fewer shards in a later policy remove none: they may hold messages."""
    routing_key = exchange.effective_policy.get("routing-key")
    for name in shard_names(broker, exchange):
        if name not in vhost.queues:
            _propose(broker, vhost, exchange, name, routing_key if isinstance(routing_key, str) else "")


def _propose(broker: Broker, vhost: VirtualHost, exchange: Exchange, name: str, routing_key: str) -> None:
    """A shard and its binding, in one."""
    id = broker.host.fresh_id()
    place = key("queue", vhost.name, name)
    proposal = Proposal()
    proposal.absent.append(place)
    proposal.unchanged.append((key("exchange", vhost.name, exchange.name), exchange.revision))
    proposal.put(place, {"id": id, "node": broker.node_name, "durable": True, "auto_delete": False, "exclusive": False,
                         "arguments": {}})
    proposal.put(key("binding", vhost.name, "queue", name, exchange.name, routing_key, ""),
                 {"ids": [exchange.id, id], "arguments": {}})
    broker.journal.propose(proposal)


def shard_for(broker: Broker, vhost: VirtualHost, name: str) -> Queue | None:
    """The shard of the exchange `name` that has the fewest consumers."""
    exchange = vhost.exchanges.get(name)
    if exchange is None or exchange.type != MODULUS_HASH:
        return None
    shards = [vhost.queues[shard] for shard in shard_names(broker, exchange) if shard in vhost.queues]
    return min(shards, key=lambda queue: len(queue.turns.everyone)) if shards else None
