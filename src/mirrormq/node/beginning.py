"""What a node begins with: the limits of its configuration, and, where nothing is there yet, somebody who may log in."""

from __future__ import annotations

import secrets

from mirrormq.broker import registry, rules
from mirrormq.broker.auth import Permission, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.events import EVENT
from mirrormq.broker.passwords import hash_password
from mirrormq.node.config import NodeConfig


def configure(broker: Broker, config: NodeConfig) -> None:
    limits = broker.limits
    limits.channel_max = config.channel_max
    limits.frame_max = config.frame_max
    limits.first_frame_max = config.initial_frame_max
    limits.heartbeat = config.heartbeat
    limits.max_message_size = config.max_message_size
    limits.channels = _or_none(config.channel_max_per_node)
    limits.consumers = _or_none(config.consumer_max_per_channel)
    limits.vhosts = _or_none(config.vhost_max)
    limits.queues = _or_none(config.cluster_queue_limit)
    broker.mechanisms = list(config.auth_mechanisms)
    broker.authority.loopback_users = config.loopback_users
    broker.cluster_name = config.cluster_name or default_cluster_name(config.node_name)


def default_cluster_name(node: str) -> str:
    """Of a new cluster, from its first node: that node's host, and no name of a node."""
    host = node.partition("@")[2]
    name = f"mirrormq@{host}"
    return name if name != node else f"mirrormq-cluster@{host}"


def is_blank(broker: Broker) -> bool:
    """Whether nobody could ever log in. Definitions that are to be loaded say themselves who may, as in RabbitMQ."""
    return not broker.vhosts and not broker.authority.users


def create_defaults(broker: Broker, config: NodeConfig) -> None:
    """As far as they are not there."""
    if config.default_vhost not in broker.vhosts:
        rules.put_vhost(broker, config.default_vhost, description="Default virtual host")
    if config.default_user not in broker.authority.users:
        secret = hash_password(config.default_pass, secrets.token_bytes(4))
        rules.put_user(broker, User(config.default_user, secret, tags=config.default_user_tags))
    if (config.default_user, config.default_vhost) not in broker.authority.permissions:
        permission = Permission(config.default_configure, config.default_write, config.default_read)
        rules.set_permission(broker, config.default_user, config.default_vhost, permission)


def offer_events(broker: Broker, config: NodeConfig) -> bool:
    """The exchange that events go to is in the default virtual host, if there is one. Whether it was proposed."""
    broker.events.vhost = config.default_vhost
    vhost = broker.vhosts.get(config.default_vhost)
    if vhost is None or EVENT in vhost.exchanges:
        return False
    registry.create_exchange(broker, vhost, EVENT, "topic", durable=True, auto_delete=False, internal=True, arguments={})
    return True


def _or_none(limit: int | None) -> int:
    return -1 if limit is None else limit
