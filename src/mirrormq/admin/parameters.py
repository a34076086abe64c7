"""Parameters of virtual hosts and global parameters, the name of the cluster among them.

Operator policies and limits of virtual hosts are parameters too, under `operator_policy` and `vhost-limits`; policies
are shown under `policy` to those who ask for it by name, and are set only as policies. Parameters of plugins that
RabbitMQ has (federation, shovels) are kept, so that definitions can be carried over, and mean nothing here. Lake mirrors, which
are kept as parameters too, are not shown as such: they belong to a cluster and not to its definitions.
"""

from __future__ import annotations

import html
from typing import Final

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.policies import parse_policy, refusal, show, store
from mirrormq.admin.vhosts import set_limits
from mirrormq.broker import rules
from mirrormq.broker.broker import Broker
from mirrormq.broker.limits import LimitFault
from mirrormq.broker.policy_validation import PolicyFault, validation_failed
from mirrormq.broker.records import CLUSTER_NAME
from mirrormq.node.feed import COMPONENT as LAKE_MIRROR

KEPT: Final = ("federation", "federation-upstream", "federation-upstream-set", "shovel")
LIMITS: Final = "vhost-limits"
OPERATOR: Final = "operator_policy"
POLICY: Final = "policy"


def _row(component: str, vhost: str, name: str, value: object) -> Json:
    return {"value": value, "vhost": vhost, "component": component, "name": name}


def rows(broker: Broker, *, with_policies: bool = False) -> list[Json]:
    """Everything that counts as a parameter, by component, virtual host and name."""
    found = [_row(component, vhost, name, value) for (component, vhost, name), value in broker.parameters.items()
             if component != LAKE_MIRROR]
    found += [_row(LIMITS, vhost.name, "limits", vhost.limits) for vhost in broker.vhosts.values() if vhost.limits]
    found += _policy_rows(broker, OPERATOR)
    if with_policies:
        found += _policy_rows(broker, POLICY)
    return sorted(found, key=lambda row: (row["component"], row["vhost"], row["name"]))


def _policy_rows(broker: Broker, component: str) -> list[Json]:
    found: list[Json] = []
    for policy in store(broker, operator=component == OPERATOR).values():
        body = show(policy)
        value = {name: body[name] for name in ("pattern", "definition", "priority", "apply-to")}
        found.append(_row(component, policy.vhost, policy.name, value))
    return found


async def list_parameters(call: Call) -> Answer:
    component = call.args.get("component")
    names = {vhost.name for vhost in call.vhosts()}
    found = [
        row for row in rows(call.broker, with_policies=component == POLICY)
        if component in (None, row["component"]) and row["vhost"] in names
    ]  # fmt: skip
    return await answer_rows(call, Rows(found, lambda row: row))


def _one(call: Call) -> Json:
    call.vhost()
    for row in rows(call.broker, with_policies=True):
        if all(row[part] == call.args[part] for part in ("component", "vhost", "name")):
            return row
    raise not_found()


def show_parameter(call: Call) -> Answer:
    return answer_one(call, _one(call))


def put_parameter(call: Call) -> Answer:
    component, vhost, name = call.args["component"], call.vhost_to_change().name, call.args["name"]
    value = call.need("value")
    if component == POLICY:
        raise bad_request("policies may not be set using this method")
    is_new = not any((row["component"], row["vhost"], row["name"]) == (component, vhost, name) for row in rows(call.broker))
    set_parameter(call.broker, component, vhost, name, value)
    return created(is_new=is_new)


def set_parameter(broker: Broker, component: str, vhost: str, name: str, value: object) -> None:
    """ApiError if the component does not take the value."""
    if component == LIMITS:
        try:
            set_limits(broker, broker.vhosts[vhost], value)
        except LimitFault as fault:
            raise bad_request(html.escape(validation_failed(fault), quote=False)) from None
    elif component == OPERATOR:
        try:
            policy = parse_policy(vhost, name, value if isinstance(value, dict) else {}, operator=True)
        except PolicyFault as fault:
            raise refusal(fault, operator=False) from None
        rules.put_policy(broker, policy, operator=True)
    elif component in KEPT:
        rules.put_parameter(broker, component, vhost, name, value)
    else:
        raise bad_request(validation_failed(f"component {component} not found"))


def delete_parameter(call: Call) -> Answer:
    row = _one(call)
    component, vhost, name = row["component"], row["vhost"], row["name"]
    if component == LIMITS:
        set_limits(call.broker, call.vhost(), {})
    elif component in (OPERATOR, POLICY):
        rules.delete_policy(call.broker, vhost, name, operator=component == OPERATOR)
    else:
        rules.delete_parameter(call.broker, component, vhost, name)
    return done()


# --- global parameters ----------------------------------------------------------------------------------------------



def global_rows(broker: Broker) -> list[Json]:
    return [{"name": name, "value": value} for name, value in sorted(broker.global_parameters.items())]


async def list_global_parameters(call: Call) -> Answer:
    return await answer_rows(call, Rows(global_rows(call.broker), lambda row: row))


def show_global_parameter(call: Call) -> Answer:
    name = call.args["name"]
    if name not in call.broker.global_parameters:
        raise not_found()
    return answer_one(call, {"name": name, "value": call.broker.global_parameters[name]})


def put_global_parameter(call: Call) -> Answer:
    is_new = call.args["name"] not in call.broker.global_parameters
    set_global_parameter(call.broker, call.args["name"], call.need("value"))
    return created(is_new=is_new)


def set_global_parameter(broker: Broker, name: str, value: object) -> None:
    rules.put_global_parameter(broker, name, value)


def delete_global_parameter(call: Call) -> Answer:
    if call.args["name"] not in call.broker.global_parameters:
        raise not_found()
    rules.delete_global_parameter(call.broker, call.args["name"])
    return done()


def show_cluster_name(call: Call) -> Answer:
    return Answer(200, {"name": call.broker.cluster_name})


def put_cluster_name(call: Call) -> Answer:
    set_global_parameter(call.broker, CLUSTER_NAME, call.need_text("name"))
    return done()
