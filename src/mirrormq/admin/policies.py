"""Policies and operator policies."""

from __future__ import annotations

import html

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import ApiError, bad_request, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.broker import rules
from mirrormq.broker.broker import Broker
from mirrormq.broker.policy import Policy
from mirrormq.broker.policy_validation import PolicyFault, validate_policy, validation_failed


def _whole(priority: float) -> float:
    """Compiled code keeps every priority as a float; a whole number is shown as one."""
    return int(priority) if priority == int(priority) else priority


def store(broker: Broker, *, operator: bool) -> dict[tuple[str, str], Policy]:
    return broker.operator_policies if operator else broker.policies


def show(policy: Policy) -> Json:
    return {
        "vhost": policy.vhost, "name": policy.name, "pattern": policy.pattern, "apply-to": policy.apply_to,
        "definition": policy.definition, "priority": _whole(policy.priority),
    }  # fmt: skip


def parse_policy(vhost: str, name: str, body: Json, *, operator: bool) -> Policy:
    """PolicyFault if it cannot stand."""
    pattern, definition = body.get("pattern"), body.get("definition")
    priority, apply_to = body.get("priority", 0), body.get("apply-to", "all")
    validate_policy(pattern, definition, priority, apply_to, operator=operator)
    assert isinstance(pattern, str)
    assert isinstance(definition, dict)
    return Policy(vhost, name, pattern, apply_to, dict(sorted(definition.items())), priority)


def refusal(fault: object, *, operator: bool) -> ApiError:
    """RabbitMQ escapes the sentence for HTML, but not that of an operator policy."""
    text = validation_failed(fault)
    return bad_request(text if operator else html.escape(text, quote=False))


class Resource:
    """The handlers of one of the two kinds."""

    def __init__(self, *, operator: bool) -> None:
        self._operator = operator

    async def list_all(self, call: Call) -> Answer:
        names = {vhost.name for vhost in call.vhosts()}
        found = [policy for policy in store(call.broker, operator=self._operator).values() if policy.vhost in names]
        found.sort(key=lambda policy: (policy.vhost, policy.name))
        return await answer_rows(call, Rows(found, show))

    def _one(self, call: Call) -> Policy:
        call.vhost()
        policy = store(call.broker, operator=self._operator).get((call.args["vhost"], call.args["name"]))
        if policy is None:
            raise not_found()
        return policy

    def show_one(self, call: Call) -> Answer:
        return answer_one(call, show(self._one(call)))

    def put(self, call: Call) -> Answer:
        vhost, name = call.vhost_to_change().name, call.args["name"]
        call.need_all("pattern", "definition")
        try:
            policy = parse_policy(vhost, name, call.body, operator=self._operator)
        except PolicyFault as fault:
            raise refusal(fault, operator=self._operator) from None
        is_new = (vhost, name) not in store(call.broker, operator=self._operator)
        rules.put_policy(call.broker, policy, operator=self._operator)
        return created(is_new=is_new)

    def delete(self, call: Call) -> Answer:
        policy = self._one(call)
        rules.delete_policy(call.broker, policy.vhost, policy.name, operator=self._operator)
        return done()


POLICIES = Resource(operator=False)
OPERATOR_POLICIES = Resource(operator=True)
