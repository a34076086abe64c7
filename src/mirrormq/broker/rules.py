"""Proposals about who may do what: virtual hosts, users, permissions, policies, parameters. `records` does what they say."""
from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker.auth import Permission, TopicPermission, User
from mirrormq.broker.journal import Proposal
from mirrormq.broker.metadata import Record, below, key
from mirrormq.broker.policy import Policy
from mirrormq.broker.vhost import VirtualHost

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

CLUSTER_NAME = "cluster_name"
TOPOLOGY = ("queue", "exchange", "binding", "guard")
IN_A_VHOST = ("policy", "operator_policy", "parameter")


def put_vhost(broker: Broker, name: str, *, description: str = "", tags: list[str] | None = None, tracing: bool = False,
              limits: dict[str, int] | None = None) -> None:
    record: Record = {"description": description, "tags": tags or [], "tracing": tracing, "limits": limits or {}}
    broker.journal.put(key("vhost", name), record)


def put_vhost_limits(broker: Broker, vhost: VirtualHost, limits: dict[str, int]) -> None:
    put_vhost(broker, vhost.name, description=vhost.description, tags=vhost.tags, tracing=vhost.tracing, limits=limits)


def delete_vhost(broker: Broker, name: str) -> None:
    """With everything in it, in one transaction; permissions are kept by user and follow one by one."""
    proposal = Proposal()
    proposal.delete(key("vhost", name))
    for kind in (*TOPOLOGY, *IN_A_VHOST):
        proposal.prefixes.append(below(kind, name))
    broker.journal.propose(proposal)
    for user, where in broker.authority.permissions:
        if where == name:
            broker.journal.delete(key("permission", user, name))
    for user, where, exchange in broker.authority.topic_permissions:
        if where == name:
            broker.journal.delete(key("topic_permission", user, name, exchange))


def put_user(broker: Broker, user: User) -> None:
    record: Record = {"hash": user.password_hash, "algorithm": user.hashing_algorithm, "tags": list(user.tags),
                      "limits": user.limits}
    broker.journal.put(key("user", user.name), record)


def delete_user(broker: Broker, name: str) -> bool:
    if name not in broker.authority.users:
        return False
    proposal = Proposal()
    proposal.delete(key("user", name))
    proposal.prefixes += [below("permission", name), below("topic_permission", name)]
    broker.journal.propose(proposal)
    return True


def set_permission(broker: Broker, user: str, vhost: str, permission: Permission) -> None:
    record: Record = {"configure": permission.configure, "write": permission.write, "read": permission.read}
    broker.journal.put(key("permission", user, vhost), record)


def clear_permission(broker: Broker, user: str, vhost: str) -> bool:
    if (user, vhost) not in broker.authority.permissions:
        return False
    broker.journal.delete(key("permission", user, vhost))
    return True


def set_topic_permission(broker: Broker, user: str, vhost: str, exchange: str, permission: TopicPermission) -> None:
    record: Record = {"write": permission.write, "read": permission.read}
    broker.journal.put(key("topic_permission", user, vhost, exchange), record)


def clear_topic_permissions(broker: Broker, user: str, vhost: str, exchange: str | None = None) -> None:
    for who, where, name in broker.authority.topic_permissions:
        if who == user and where == vhost and exchange in (None, name):
            broker.journal.delete(key("topic_permission", user, vhost, name))


def put_policy(broker: Broker, policy: Policy, *, operator: bool) -> None:
    record: Record = {"pattern": policy.pattern, "apply_to": policy.apply_to, "definition": policy.definition,
                      "priority": policy.priority}
    broker.journal.put(key(_kind(operator=operator), policy.vhost, policy.name), record)


def delete_policy(broker: Broker, vhost: str, name: str, *, operator: bool) -> bool:
    store = broker.operator_policies if operator else broker.policies
    if (vhost, name) not in store:
        return False
    broker.journal.delete(key(_kind(operator=operator), vhost, name))
    return True


def _kind(*, operator: bool) -> str:
    return "operator_policy" if operator else "policy"


def put_parameter(broker: Broker, component: str, vhost: str, name: str, value: object) -> None:
    broker.journal.put(key("parameter", vhost, component, name), {"value": value})


def delete_parameter(broker: Broker, component: str, vhost: str, name: str) -> None:
    broker.journal.delete(key("parameter", vhost, component, name))


def put_global_parameter(broker: Broker, name: str, value: object) -> None:
    broker.journal.put(key("global_parameter", name), {"value": value})


def name_cluster(broker: Broker, name: str) -> None:
    """Unless it has a name: the first node gives it one, which all others show too."""
    place = key("global_parameter", CLUSTER_NAME)
    proposal = Proposal()
    proposal.absent.append(place)
    proposal.put(place, {"value": name})
    broker.journal.propose(proposal)


def delete_global_parameter(broker: Broker, name: str) -> None:
    broker.journal.delete(key("global_parameter", name))
