"""One request on its way to its handler: who asks, what the path names, the query and the body."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any, Final

from mirrormq.admin.access import Gate, Principal
from mirrormq.admin.ages import Ages
from mirrormq.admin.errors import bad_request, key_missing, missing, not_found
from mirrormq.admin.meter import Meter
from mirrormq.admin.mirrors import Mirrors
from mirrormq.admin.rates import Rates
from mirrormq.admin.ring_office import RingOffice
from mirrormq.admin.ring_view import RingView
from mirrormq.admin.row_cache import Mark, RowCache
from mirrormq.admin.sessions import Logins
from mirrormq.broker.broker import Broker
from mirrormq.broker.vhost import VirtualHost
from mirrormq.node.runtime import Runtime

Json = dict[str, Any]
WHOLE: Final = re.compile(r"-?[0-9]{1,100}")


class Answer:
    """`body` is encoded as JSON unless it is bytes or Pieces; None is an empty body."""

    def __init__(self, status: int, body: object = None, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}


class State:
    """What the requests of one node share."""

    def __init__(self, runtime: Runtime, gate: Gate, rates: Rates) -> None:
        self.runtime = runtime
        self.broker: Broker = runtime.broker
        self.gate = gate
        self.rates = rates
        office = RingOffice(runtime)
        self.rings: RingView = office
        self.logins: Logins = Logins(runtime.cluster.derived_key("sessions of the page"))
        self.mirrors: Mirrors = office
        self.ages = Ages()
        self.meter = Meter()
        self.row_cache = RowCache()
        self.metrics: dict[int, tuple[Mark, dict[str, int | float]]] = {}      # of quiet queues, by log id


class Call:
    def __init__(self, state: State, principal: Principal, args: Mapping[str, str], query: Mapping[str, str],
                 headers: Mapping[str, str], raw: bytes) -> None:
        self.state = state
        self.runtime = state.runtime
        self.broker = state.broker
        self.principal = principal
        self.args = args
        self.query = query
        self.headers = headers
        self.raw = raw
        self.address = ""             # of the caller
        self.is_secure = False        # over TLS
        self.is_foreign = False       # a page of another site caused it
        self._body: Json | None = None

    # --- what the path names --------------------------------------------------------------------------------------

    def vhost(self) -> VirtualHost:
        found = self.broker.vhosts.get(self.args["vhost"])
        if found is None:
            raise not_found()
        return found

    def vhost_to_change(self) -> VirtualHost:
        """For PUT and POST, which name a missing virtual host in another way."""
        found = self.broker.vhosts.get(self.args["vhost"])
        if found is None:
            raise missing("vhost_not_found")
        return found

    def vhosts(self) -> list[VirtualHost]:
        """The one of the path, or all that the caller may see, by name."""
        if "vhost" in self.args:
            return [self.vhost()]
        everyone = sorted(self.broker.vhosts.values(), key=lambda vhost: vhost.name)
        return self.principal.visible(everyone)

    def vhost_names(self) -> list[str] | None:
        """The same by name; None for all there are."""
        if "vhost" not in self.args and self.principal.is_administrator:
            return None
        return [vhost.name for vhost in self.vhosts()]

    def every(self, name: str) -> list[str]:
        """All values that the query gives to a name."""
        several = getattr(self.query, "getall", None)
        return list(several(name, [])) if several is not None else [self.query[name]] if name in self.query else []

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    # --- the body -------------------------------------------------------------------------------------------------

    @property
    def body(self) -> Json:
        if self._body is None:
            self._body = parse_object(self.raw, "not_json")
        return self._body

    def need(self, key: str) -> Any:
        self.need_all(key)
        return self.body[key]

    def need_all(self, *keys: str) -> None:
        """All that are missing are named."""
        lacking = [key for key in keys if key not in self.body]
        if lacking:
            raise key_missing(*lacking)

    def need_text(self, key: str) -> str:
        value = self.need(key)
        if not isinstance(value, str):
            raise bad_request(["not_string", value])
        return value

    def boolean(self, key: str, *, default: bool) -> bool:
        return as_boolean(self.body.get(key, default))


Handler = Callable[[Call], Answer | Awaitable[Answer]]


def parse_object(raw: bytes, complaint: str) -> Json:
    """A JSON object; nothing at all counts as an empty one."""
    if not raw.strip():
        return {}
    try:
        value = parse_json(raw)
    except ValueError:
        raise bad_request(complaint) from None
    if not isinstance(value, dict):
        raise bad_request(complaint)
    return value


def parse_json(raw: bytes) -> object:
    """ValueError where it is none. It is UTF-8, as RabbitMQ has it; json itself would guess, and let half letters through."""
    try:
        text = raw.decode("utf-8-sig")
        value: object = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if "\\u" in text:                             # half of a pair that stands for one letter is no text
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("too many lists and objects in each other") from None
    return value


def _finite(word: str) -> float:
    """JSON has no Infinity, and no number for which there is no room."""
    value = float(word)
    if not isfinite(value):
        raise ValueError(f"{word} is no JSON")
    return value


def as_boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise bad_request(["not_boolean", value])


def is_whole(text: str) -> bool:
    """A whole number that somebody may mean; Python itself refuses to read thousands of digits."""
    return WHOLE.fullmatch(text) is not None


def as_integer(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and is_whole(value):
        return int(value)
    raise bad_request(["not_integer", value])


def created(*, is_new: bool) -> Answer:
    return Answer(201 if is_new else 204)


def done() -> Answer:
    return Answer(204)
