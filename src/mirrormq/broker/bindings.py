"""Bindings, and the table of them that an exchange of each type keeps.

A table answers one question: which destinations does this envelope go to from here.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import md5
from typing import TYPE_CHECKING, Final
from urllib.parse import quote_plus

from mirrormq.broker.arguments import term
from mirrormq.broker.hashing import Remainders, Rendezvous
from mirrormq.broker.headers import HeaderMatch
from mirrormq.broker.topic import TopicTrie
from mirrormq.wire.table import Table, encode_table

if TYPE_CHECKING:
    from mirrormq.broker.exchange import Exchange

CONSISTENT_HASH: Final = "x-consistent-hash"
MODULUS_HASH: Final = "x-modulus-hash"


class Envelope:
    """What exchanges look at of a message. Headers and properties matter only where `depends_on_headers` says so."""

    def __init__(
        self, routing_keys: list[str], headers: Table | None = None, *,
        message_id: str | None = None, correlation_id: str | None = None, timestamp: int | None = None,
    ) -> None:  # fmt: skip
        self.routing_keys: list[str] = routing_keys
        self.headers: Table = {} if headers is None else headers
        self.message_id: str | None = message_id
        self.correlation_id: str | None = correlation_id
        self.timestamp: int | None = timestamp


class Destination:
    """What a binding leads to: `kind` is queue or exchange."""

    def __init__(self, name: str, kind: str) -> None:
        self.name: str = name
        self.kind: str = kind
        self.revision: int = 0          # of its record in the store


class Binding:
    def __init__(self, source: Exchange, destination: Destination, routing_key: str, arguments: Table) -> None:
        self.source: Exchange = source
        self.destination: Destination = destination
        self.routing_key: str = routing_key
        self.arguments: Table = arguments

    @property
    def properties_key(self) -> str:
        """What the HTTP API calls this binding among those between the same two."""
        key = quote_plus(self.routing_key, errors="surrogateescape").replace("~", "%7E")
        if self.arguments:
            digest = md5(canonical(self.arguments), usedforsecurity=False).digest()
            return f"{key}~{urlsafe_b64encode(digest).rstrip(b'=').decode()}"
        return key or "~"


def canonical(arguments: Table) -> bytes:
    return encode_table({key: arguments[key] for key in sorted(arguments)}) if arguments else b""


# Tables of bindings, one per type


class BindingTable:
    def add(self, binding: Binding) -> None:
        raise NotImplementedError

    def remove(self, binding: Binding) -> None:
        raise NotImplementedError

    def match(self, envelope: Envelope) -> list[Destination]:
        """The destinations, each at least once."""
        raise NotImplementedError


class DirectTable(BindingTable):
    def __init__(self) -> None:
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        self._by_key.setdefault(binding.routing_key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        bindings = self._by_key[binding.routing_key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.routing_key]

    def match(self, envelope: Envelope) -> list[Destination]:
        found: list[Destination] = []
        for key in envelope.routing_keys:
            if key in self._by_key:
                found += [binding.destination for binding in self._by_key[key]]
        return found


class FanoutTable(BindingTable):
    def __init__(self) -> None:
        self._bindings: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        self._bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        del self._bindings[binding]

    def match(self, envelope: Envelope) -> list[Destination]:
        return [binding.destination for binding in self._bindings]


class TopicTable(BindingTable):
    def __init__(self) -> None:
        self._trie: TopicTrie[Destination] = TopicTrie()

    def add(self, binding: Binding) -> None:
        self._trie.add(binding.routing_key, binding.destination)

    def remove(self, binding: Binding) -> None:
        self._trie.remove(binding.routing_key, binding.destination)

    def match(self, envelope: Envelope) -> list[Destination]:
        found: list[Destination] = []
        for key in envelope.routing_keys:
            found += self._trie.match(key)
        return found


class HeadersTable(BindingTable):
    def __init__(self) -> None:
        self._rules: dict[Binding, HeaderMatch] = {}

    def add(self, binding: Binding) -> None:
        self._rules[binding] = HeaderMatch(binding.arguments)

    def remove(self, binding: Binding) -> None:
        del self._rules[binding]

    def match(self, envelope: Envelope) -> list[Destination]:
        headers = envelope.headers
        return [binding.destination for binding, rule in self._rules.items() if rule.matches(headers)]


class ConsistentHashTable(BindingTable):
    """Hashes a header, a property or the first routing key."""

    def __init__(self, header: str | None, prop: str | None) -> None:
        self.header: str | None = header
        self.prop: str | None = prop
        self._ring: Rendezvous[Destination] = Rendezvous()

    def add(self, binding: Binding) -> None:
        self._ring.add(_seat(binding.destination), int(binding.routing_key), binding.destination)

    def remove(self, binding: Binding) -> None:
        self._ring.remove(_seat(binding.destination), int(binding.routing_key))

    def match(self, envelope: Envelope) -> list[Destination]:
        chosen = self._ring.pick(self._hashed(envelope))
        return [] if chosen is None else [chosen]

    def _hashed(self, envelope: Envelope) -> str:
        if self.header is not None:
            value = envelope.headers.get(self.header)
            return value if isinstance(value, str) else term(value)
        if self.prop == "message_id":
            return envelope.message_id or ""
        if self.prop == "correlation_id":
            return envelope.correlation_id or ""
        if self.prop == "timestamp":
            return "" if envelope.timestamp is None else str(envelope.timestamp)
        return envelope.routing_keys[0] if envelope.routing_keys else ""


class ModulusHashTable(BindingTable):
    def __init__(self) -> None:
        self._shards: Remainders[Destination] = Remainders()

    def add(self, binding: Binding) -> None:
        self._shards.add(_seat(binding.destination), binding.destination)

    def remove(self, binding: Binding) -> None:
        self._shards.remove(_seat(binding.destination))

    def match(self, envelope: Envelope) -> list[Destination]:
        chosen = self._shards.pick("\0".join(envelope.routing_keys))
        return [] if chosen is None else [chosen]


def _seat(destination: Destination) -> str:
    return f"{destination.kind} {destination.name}"


def table_for(kind: str, arguments: Table) -> BindingTable:
    if kind == "fanout":
        return FanoutTable()
    if kind == "topic":
        return TopicTable()
    if kind == "headers":
        return HeadersTable()
    if kind == CONSISTENT_HASH:
        return ConsistentHashTable(text_argument(arguments, "hash-header"), text_argument(arguments, "hash-property"))
    return ModulusHashTable() if kind == MODULUS_HASH else DirectTable()


def text_argument(arguments: Table, key: str) -> str | None:
    value = arguments.get(key)
    return value if isinstance(value, str) else None
