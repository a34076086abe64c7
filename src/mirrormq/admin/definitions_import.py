"""Importing definitions, from a request or from a file at the start.

Everything is read and checked first; nothing is changed unless all of it can be. Then it is applied in slices, between
which the broker goes on. What exists stays as it is: a queue or exchange that is declared otherwise is kept without a
word, a binding whose end is missing is passed over, as RabbitMQ does; so is an exchange with a reserved name. Users,
permissions, policies and parameters are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from mirrormq.admin.call import Json, as_boolean, parse_json
from mirrormq.admin.errors import ApiError, Reason, bad_request, from_broker
from mirrormq.admin.parameters import KEPT, LIMITS, OPERATOR, POLICY, set_global_parameter, set_parameter
from mirrormq.admin.permissions import grant, grant_topic, invalid_pattern
from mirrormq.admin.policies import parse_policy
from mirrormq.admin.users import parse_user
from mirrormq.admin.values import to_table
from mirrormq.admin.vhosts import as_tags, update_vhost
from mirrormq.broker import registry, rules
from mirrormq.broker.arguments import QueueArguments, parse_queue_arguments
from mirrormq.broker.auth import User
from mirrormq.broker.broker import Broker
from mirrormq.broker.exchange import create_exchange
from mirrormq.broker.limits import LimitFault, validate_vhost_limits
from mirrormq.broker.policy import PatternError, Policy, compile_pattern
from mirrormq.broker.policy_validation import PolicyFault, validation_failed
from mirrormq.node.runtime import Runtime
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.table import Table

Step = Callable[[], None]
TOPOLOGY: Final = 3     # the last sections: exchanges, queues, bindings; what exists of them is not proposed again
SLICE: Final = 200      # steps between which others get their turn


class DefinitionsError(Exception):
    """The file cannot be imported; the sentence says why."""


async def load_file(runtime: Runtime, path: Path) -> None:
    """What `load_definitions` in the configuration names: one file, or all `.json` files of a directory in order."""
    for file in _files(path):
        try:
            document = parse_json(file.read_bytes())
            if not isinstance(document, dict):
                raise DefinitionsError(f"{file} holds no JSON object")
            await runtime.cluster.until_heard(partial(import_definitions, runtime, document))
        except (OSError, ValueError) as fault:
            raise DefinitionsError(f"definitions cannot be read from {file}: {fault}") from None
        except ApiError as fault:
            raise DefinitionsError(f"definitions in {file} cannot be imported: {words_of(fault.reason)}") from None


def words_of(reason: Reason) -> str:
    """As a sentence has it: `["no_such_vhost", "shop"]` is 'no such vhost: shop'."""
    if isinstance(reason, str):
        return reason
    name, *values = map(str, reason)
    return f"{name.replace('_', ' ')}: {', '.join(values)}"


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


async def import_definitions(runtime: Runtime, document: Json, vhost: str | None = None) -> None:
    """Into one virtual host, or everywhere. ApiError if the document is at fault; then nothing is changed."""
    sections = Plan(runtime.broker, document, vhost).sections()
    for number, section in enumerate(sections):
        is_topology = number >= len(sections) - TOPOLOGY
        for start in range(0, len(section), SLICE):
            await _agree(runtime, section[start:start + SLICE], is_topology=is_topology)


async def _agree(runtime: Runtime, steps: list[Step], *, is_topology: bool) -> None:
    """Until the cluster has all of it: what comes next may stand on this. Exchanges, queues and bindings are proposed again while
    they are missing, since proposals that touch the same exchange may beat each other."""
    journal = runtime.broker.journal
    for _ in range(len(steps) + 1):
        before = journal.written
        _take(steps)
        is_done = journal.written == before or not is_topology
        await runtime.agreed(before)
        runtime.tick()
        if is_done:
            return


def _take(steps: list[Step]) -> None:
    for step in steps:
        try:
            step()
        except AMQPError as error:
            raise from_broker(error) from None


class Plan:
    """What a document asks for, checked, as steps to take."""

    def __init__(self, broker: Broker, document: Json, vhost: str | None) -> None:
        self._broker = broker
        self._document = document
        self._only = vhost
        self._vhosts = {*broker.vhosts, *(str(item.get("name")) for item in self._items("vhosts"))}
        self._users = {*broker.authority.users, *(str(item.get("name")) for item in self._items("users"))}

    def sections(self) -> list[list[Step]]:
        """Steps that need nothing of each other are in one section; all are checked before the first is taken."""
        sections: list[list[Step]] = []
        if self._only is None:
            for section, read in (("users", self._user), ("vhosts", self._vhost), ("permissions", self._permission),
                                  ("topic_permissions", self._topic), ("global_parameters", self._global)):
                sections.append([read(item) for item in self._items(section)])
        for section, read in (("parameters", self._parameter), ("policies", self._policy),
                              ("exchanges", self._exchange), ("queues", self._queue), ("bindings", self._binding)):
            sections.append([read(item) for item in self._items(section)])
        return sections

    def _items(self, section: str) -> list[Json]:
        found = self._document.get(section, [])
        if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
            raise bad_request(f"{section} is not a list of objects")
        return found

    def _name(self, item: Json, key: str = "name") -> str:
        value = item.get(key)
        if not isinstance(value, str):
            raise bad_request(f"{key} is missing or not a string in {json.dumps(item)[:200]}")
        return value

    def _where(self, item: Json) -> str:
        vhost = item.get("vhost", "undefined") if self._only is None else self._only
        if vhost not in self._vhosts:
            raise bad_request(["no_such_vhost", vhost])
        return str(vhost)

    def _who(self, item: Json) -> str:
        user = item.get("user", "undefined")
        if user not in self._users:
            raise bad_request(["no_such_user", user])
        return str(user)

    # --- users and virtual hosts ----------------------------------------------------------------------------------

    def _user(self, item: Json) -> Step:
        name = self._name(item)
        user: User = parse_user(name, item, self._broker.authority.users.get(name))
        return lambda: rules.put_user(self._broker, user)

    def _vhost(self, item: Json) -> Step:
        name = self._name(item)
        as_tags(item.get("tags", []))
        return lambda: update_vhost(self._broker, name, item)

    def _permission(self, item: Json) -> Step:
        user, vhost = self._who(item), self._where(item)
        patterns = [_pattern(self._name(item, key)) for key in ("configure", "write", "read")]
        return lambda: grant(self._broker, user, vhost, patterns)

    def _topic(self, item: Json) -> Step:
        user, vhost, exchange = self._who(item), self._where(item), self._name(item, "exchange")
        write, read = (_pattern(self._name(item, key)) for key in ("write", "read"))
        return lambda: grant_topic(self._broker, user, vhost, exchange, write, read)

    # --- parameters and policies ----------------------------------------------------------------------------------

    def _global(self, item: Json) -> Step:
        name, value = self._name(item), item.get("value")
        return lambda: set_global_parameter(self._broker, name, value)

    def _parameter(self, item: Json) -> Step:
        vhost, component, name = self._where(item), self._name(item, "component"), self._name(item)
        value = item.get("value")
        if component == LIMITS and value == []:
            value = {}          # RabbitMQ's way to write limits of which the last one was removed
        place = f" ({vhost}/{component}/{name})"
        if component == LIMITS:
            try:
                validate_vhost_limits(value)
            except LimitFault as fault:
                raise bad_request(validation_failed(fault) + place) from None
        elif component in (OPERATOR, POLICY):
            policy = self._parsed(vhost, name, value, place, operator=component == OPERATOR)
            return lambda: rules.put_policy(self._broker, policy, operator=component == OPERATOR)
        elif component not in KEPT:
            raise bad_request(validation_failed(f"component {component} not found") + place)
        return lambda: set_parameter(self._broker, component, vhost, name, value)

    def _policy(self, item: Json) -> Step:
        vhost, name = self._where(item), self._name(item)
        policy = self._parsed(vhost, name, item, f" ({vhost}/{name})", operator=False)
        return lambda: rules.put_policy(self._broker, policy, operator=False)

    def _parsed(self, vhost: str, name: str, body: Any, place: str, *, operator: bool) -> Policy:
        try:
            return parse_policy(vhost, name, body if isinstance(body, dict) else {}, operator=operator)
        except PolicyFault as fault:
            raise bad_request(validation_failed(fault) + place) from None

    # --- exchanges, queues and bindings -----------------------------------------------------------------------------

    def _exchange(self, item: Json) -> Step:
        vhost, name, type = self._where(item), self._name(item), str(item.get("type", "direct"))
        arguments = to_table(item.get("arguments"))
        durable, auto_delete, internal = (_flag(item, key) for key in ("durable", "auto_delete", "internal"))
        try:
            create_exchange(vhost, name, type, durable=durable, auto_delete=auto_delete, internal=internal,
                            arguments=arguments)
        except AMQPError as error:
            raise from_broker(error) from None

        def step() -> None:
            place = self._broker.vhosts[vhost]
            if name not in place.exchanges and not name.startswith("amq."):
                registry.create_exchange(self._broker, place, name, type, durable=durable, auto_delete=auto_delete,
                                         internal=internal, arguments=arguments)
        return step

    def _queue(self, item: Json) -> Step:
        vhost, name = self._where(item), self._name(item)
        arguments = _queue_arguments(to_table(item.get("arguments")), name, vhost)
        durable, auto_delete = _flag(item, "durable"), _flag(item, "auto_delete")

        def step() -> None:
            place = self._broker.vhosts[vhost]
            if name not in place.queues:
                home = self._broker.host.place(vhost, name, arguments.master_locator or "")
                registry.create_queue(self._broker, place, name, arguments, durable=durable, auto_delete=auto_delete,
                                      owner=None, home=home)
        return step

    def _binding(self, item: Json) -> Step:
        vhost, source, destination = self._where(item), self._name(item, "source"), self._name(item, "destination")
        is_queue = item.get("destination_type", "queue") == "queue"
        routing_key, arguments = str(item.get("routing_key", "")), to_table(item.get("arguments"))

        def step() -> None:
            place = self._broker.vhosts[vhost]
            exchange = place.exchanges.get(source)
            target = place.queues.get(destination) if is_queue else place.exchanges.get(destination)
            if source and exchange is not None and target is not None:
                registry.bind(self._broker, place, exchange, target, routing_key, arguments)
        return step


def _flag(item: Json, key: str) -> bool:
    return as_boolean(item.get(key, False))


def _pattern(text: str) -> str:
    try:
        compile_pattern(text)
    except PatternError as fault:
        raise invalid_pattern(fault) from None
    return text


def _queue_arguments(table: Table, name: str, vhost: str) -> QueueArguments:
    try:
        return parse_queue_arguments(table, name, vhost)
    except AMQPError as error:
        raise from_broker(error) from None
