"""The values of the keys that ask for mirrored queues by configuration.

RabbitMQ has no such keys; tutorials describe them, and the forms that they use are accepted:

- `mirroring_policy = all`, `exactly:2`, `nodes:rabbit@a,rabbit@b`, or a definition as JSON: `{"ha-mode": "all"}`.
- `cluster_rebalance = timer | appoint | on-demand | run | off`.
"""

from __future__ import annotations

import json
from typing import Final

from mirrormq.node.config_format import names, one_of

_FORMS: Final = 'a mirroring policy: all, exactly:COUNT, nodes:NAME,NAME or a definition such as {"ha-mode": "all"}'


def mirroring_policy(value: str) -> dict[str, object]:
    """The definition of the policy that the node sets when it starts."""
    if value.startswith("{"):
        return _json_definition(value)
    mode, _, params = value.partition(":")
    match mode:
        case "all" if not params:
            return {"ha-mode": "all"}
        case "exactly" if params.isdecimal() and int(params) > 0:
            return {"ha-mode": "exactly", "ha-params": int(params)}
        case "nodes" if names(params):
            return {"ha-mode": "nodes", "ha-params": list(names(params))}
    raise ValueError(_FORMS)


def _json_definition(value: str) -> dict[str, object]:
    try:
        definition = json.loads(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"{_FORMS} ({error})") from None
    if not isinstance(definition, dict) or not definition:
        raise ValueError(_FORMS)
    return definition


_TRIGGER: Final = one_of("on_demand", "timer", "appoint", "off", run="timer", none="off")


def rebalance_trigger(value: str) -> str:
    """When leaders are spread anew: `run` is the tutorials' word for "by itself, from time to time"."""
    return _TRIGGER(value.replace("-", "_"))


_STRATEGY: Final = one_of("queues", "messages", "connections", "random", "round_robin")


def rebalance_strategy(value: str) -> str:
    """By what leaders are spread; `round-robin` is the same as `round_robin`."""
    return _STRATEGY(value.replace("-", "_"))
