"""Events about what exists: told by the node that proposed a change, once the cluster has agreed to it."""
from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from mirrormq.broker.journal import HELD, Proposal
from mirrormq.broker.metadata import Record, parts, unpack
from mirrormq.wire.table import Table, Value

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

NAMES: Final = {
    "vhost": ("vhost.created", "vhost.deleted"), "user": ("user.created", "user.deleted"),
    "permission": ("permission.created", "permission.deleted"),
    "topic_permission": ("topic.permission.created", "topic.permission.deleted"), "policy": ("policy.set", "policy.cleared"),
    "operator_policy": ("parameter.set", "parameter.cleared"), "parameter": ("parameter.set", "parameter.cleared"),
    "global_parameter": ("parameter.set", "parameter.cleared"), "queue": ("queue.created", "queue.deleted"),
    "exchange": ("exchange.created", "exchange.deleted"), "binding": ("binding.created", "binding.deleted"),
}  # fmt: skip
CHANGED: Final = {"vhost": "vhost.metadata.updated", "user": "user.tags.set"}
KEYS: Final[dict[str, tuple[str, ...]]] = {
    "vhost": ("name",), "user": ("name",), "permission": ("user", "vhost"), "topic_permission": ("user", "vhost", "exchange"),
    "policy": ("vhost", "name"), "operator_policy": ("vhost", "name"), "parameter": ("vhost", "component", "name"),
    "global_parameter": ("name",), "queue": ("vhost", "name"), "exchange": ("vhost", "name"),
    "binding": ("vhost", "destination_kind", "destination_name", "source_name", "routing_key"),
}  # fmt: skip
SECRET: Final = ("hash", "algorithm", "id", "ids", "limits")


class AgreedEvents:
    def __init__(self, broker: Broker) -> None:
        self.broker: Broker = broker
        self.known: dict[str, None] = {}        # virtual hosts and users that are there: a change of one makes none

    def remember(self) -> None:
        for name in self.broker.vhosts:
            self.known["vhost " + name] = None
        for name in self.broker.authority.users:
            self.known["user " + name] = None

    def tell(self, proposals: list[Proposal]) -> None:
        is_heard = self.broker.events.is_heard()
        for proposal in proposals:
            if proposal.state == HELD:
                for write in proposal.writes:
                    self._tell_one(write.name, write.text, is_heard=is_heard)

    def _tell_one(self, name: str, text: str | None, *, is_heard: bool) -> None:
        names = parts(name)
        kind = names.pop(0)
        found = NAMES.get(kind)
        if found is None:
            return
        event = found[1] if text is None else found[0]
        if kind in CHANGED:
            place = kind + " " + names[0]
            if text is not None and place in self.known:
                event = CHANGED[kind]
            self._note(place, is_there=text is not None)
        if is_heard:
            self.broker.events.tell(event, _about(kind, names, text))

    def _note(self, place: str, *, is_there: bool) -> None:
        if is_there:
            self.known[place] = None
        else:
            self.known.pop(place, None)


def _about(kind: str, names: list[str], text: str | None) -> Table:
    about: Table = {}
    for at, place in enumerate(KEYS[kind]):
        if at < len(names):
            about[place] = names[at]
    if kind == "operator_policy":
        about["component"] = "operator_policy"
    if text is not None:
        record: Record = json.loads(text)
        for key in record:
            if key not in SECRET:
                about[key] = _value(key, record[key])
    return about


def _value(key: str, value: object) -> Value:
    """Arguments are field tables already; everything else is JSON, and shown as such where a table has no place for it."""
    if key == "arguments" and isinstance(value, dict):
        return unpack(value)
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return list(value)
    return json.dumps(value)
