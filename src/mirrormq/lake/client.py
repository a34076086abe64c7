"""Asking nodes for queues' logs: one connection that stays open, the next address where one does not answer.

Used in Spark's driver and executors, so nothing but the standard library is needed, and an instance can be pickled.

Every member of a ring has the same entries under the same addresses. So a log is read from the members in the order that is
wished, mirrors first unless something else is said; one that does not answer, or does not have the entries yet, or no more, is
passed over, and the next goes on at the same address. What the leader says counts.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit

from mirrormq.lake.errors import Away, Forked, LakeError, Refused, Trimmed, forked

FORMAT: Final = "1"
PATIENCE: Final = 60.0  # seconds until a cluster of which no node answers counts as gone
PAUSE: Final = 0.2
TIMEOUT: Final = 60.0
MEMBER_TIMEOUT: Final = 20.0  # for an answer of a member that can be passed over
AVOID: Final = 30.0  # seconds for which a member that did not answer is not asked again
MIRRORS: Final = "mirrors"
LEADER: Final = "leader"
ONLY: Final = "only:"  # before the name of a node: no other is asked
BROKEN: Final = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Address:
    """Where the cluster is and who asks. `urls` are tried in their order, so the preferred node comes first."""

    urls: tuple[str, ...]
    user: str
    password: str
    vhost: str = "/"
    patience: float = PATIENCE

    @staticmethod
    def parse(urls: str, vhost: str = "/", user: str = "", password: str = "", patience: float = PATIENCE) -> Address:
        """One address or several, separated by commas, each http(s)://[user:password@]host:port[/prefix]."""
        places: list[str] = []
        for text in urls.split(","):
            parts = urlsplit(text.strip() if "://" in text else f"http://{text.strip()}")
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise LakeError(f"'{text.strip()}' is no address of a management API, such as http://guest:guest@localhost:15672")
            user = user or unquote(parts.username or "")
            password = password or unquote(parts.password or "")
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            port = parts.port or (15671 if parts.scheme == "https" else 15672)
            places.append(f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}")
        return Address(tuple(places), user or "guest", password or "guest", vhost, patience)

    @property
    def authorization(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Feed:
    """One queue as the cluster tells of it. `id` is that of its log: a queue that is declared anew has another."""

    name: str
    vhost: str
    id: str
    node: str
    state: str
    earliest: int
    end: int
    epoch: int
    durable: bool = True
    members: tuple[tuple[str, str], ...] = ()  # node and address of each that is in sync, leader first
    copies: tuple[tuple[str, int, int], ...] = ()  # if asked for: node, earliest and end of each member that answers
    lineage: tuple[tuple[int, int], ...] = ()  # which epoch wrote which entries: epoch and first index of each run, oldest first

    def epoch_of(self, index: int) -> int:
        """The epoch in which an entry was written; 0 where that is not known."""
        return next((epoch for epoch, first in reversed(self.lineage) if first <= index), 0)

    def check_branch(self, following: int, epoch: int) -> None:
        """Raises Forked where this log does not go on what was read before up to entry `following` - 1, of that epoch."""
        here = self.epoch_of(following - 1)
        if not epoch or not here or here == epoch or (here < epoch and self.end < following):
            return
        raise Forked(forked(self.name, min((first for run, first in self.lineage if run > epoch), default=1), here, epoch))

    def places(self, nodes: str = MIRRORS, turn: int = 0) -> tuple[str, ...]:
        """The members' addresses in the order in which they are to be asked: `nodes` is "mirrors", "leader", or names of nodes,
        separated by commas, which come first. Mirrors take turns."""
        if nodes.startswith(ONLY):
            return tuple(url for node, url in self.members if node == nodes.removeprefix(ONLY))
        leader, mirrors = list(self.members[:1]), list(self.members[1:])
        if mirrors:
            turn %= len(mirrors)
            mirrors = mirrors[turn:] + mirrors[:turn]
        order = leader + mirrors if nodes == LEADER else mirrors + leader
        wished = [name.strip() for name in nodes.split(",")]
        order.sort(key=lambda member: wished.index(member[0]) if member[0] in wished else len(wished))
        return tuple(url for _, url in order if url)


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class FeedClient:
    def __init__(self, address: Address) -> None:
        self.address = address
        self._connections: dict[str, http.client.HTTPConnection] = {}
        self._homes: dict[str, str] = {}  # path to the node that answered for it
        self._avoided: dict[str, float] = {}  # until when a member is passed over
        self.served_by: dict[str, int] = {}  # bytes of logs that each node has given

    def __getstate__(self) -> dict[str, Any]:
        return {"address": self.address, "_connections": {}, "_homes": {}, "_avoided": {}, "served_by": {}}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # --- what can be asked ------------------------------------------------------------------------------------------

    def feeds(self, pattern: str = ".*", *, with_copies: bool = False) -> list[Feed]:
        query = {"pattern": pattern, "copies": "true"} if with_copies else {"pattern": pattern}
        reply = self.ask("GET", self._path("feed"), query)
        told = reply.json()
        _check_format(str(told.get("format")), str(told.get("version")))
        return [
            Feed(
                row["name"],
                row["vhost"],
                row["id"],
                row["node"],
                row["state"],
                int(row.get("earliest", 0)),
                int(row.get("end", 0)),
                int(row.get("epoch", 0)),
                bool(row["durable"]),
                tuple((member["node"], member["url"]) for member in row.get("members", ())),
                tuple((copy["node"], int(copy["earliest"]), int(copy["end"])) for copy in row.get("copies", ())),
                tuple((int(epoch), int(first)) for epoch, first in row.get("lineage", ())),
            )
            for row in told["queues"]
        ]

    def read(
        self, feed_name: str, log_id: str, first: int, upto: int, *, max_bytes: int = 4 << 20, wait: int = 0,
        places: tuple[str, ...] = (), is_only: bool = False,
    ) -> bytes:  # fmt: skip
        """Chunks from `first` on, at most up to `upto`, from the first of `places` that has them, or from whoever answers, unless
        it `is_only` they that are asked."""
        query = {"first": first, "upto": upto, "max_bytes": max_bytes, "id": log_id, "wait": wait}
        path = self._path("feed", feed_name)
        reply = self._from_member(places, path, query)
        if reply is None and is_only:
            raise Away(f"{' '.join(places) or 'the node'} does not answer for entry {first} of queue '{feed_name}'")
        reply = reply or self.ask("GET", path, query)
        _check_format(reply.headers.get("x-mirrormq-format", ""), reply.headers.get("x-mirrormq-version", "?"))
        node = reply.headers.get("x-mirrormq-node", "")
        self.served_by[node] = self.served_by.get(node, 0) + len(reply.body)
        return reply.body

    def _from_member(self, places: tuple[str, ...], path: str, query: Mapping[str, object]) -> Reply | None:
        target = f"{path}?{urlencode({**query, 'wait': 1})}"
        for place in places:
            if self._avoided.get(place, 0.0) > time.monotonic():
                continue
            try:
                reply = self._request(place, "GET", target, None, MEMBER_TIMEOUT)
            except BROKEN:
                self._avoided[place] = time.monotonic() + AVOID
                continue
            if reply.status == 200 and reply.body:
                return reply
        return None

    def index_at(self, feed_name: str, time_ms: int) -> int:
        return int(self.ask("GET", self._path("feed", feed_name, "at"), {"time": time_ms}).json()["index"])

    def span(self, feed_name: str, first: int, size: int) -> tuple[int, int]:
        """Up to which index there are about so many bytes, and how many they are."""
        told = self.ask("GET", self._path("feed", feed_name, "span"), {"first": first, "bytes": size}).json()
        return int(told["index"]), int(told["bytes"])

    def publish(self, queue: str, publisher: str, first: int, run: bytes) -> dict[str, int]:
        """See mirrormq.admin.feed_publish."""
        query = {"publisher": publisher, "first": first}
        answer: dict[str, int] = self.ask("POST", self._path("feed", queue, "publish"), query, run).json()
        return answer

    def queues(self) -> list[dict[str, Any]]:
        """With their statistics, for users that have a tag."""
        rows: list[dict[str, Any]] = self.ask("GET", self._path("queues"), {"columns": "name,message_stats"}).json()
        return rows

    def failovers(self, queue: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.ask("GET", self._path("queues", queue, "failovers"), {}).json()
        return rows

    def put_mirror(self, name: str, **value: Any) -> None:
        body = json.dumps({key.replace("_", "-"): part for key, part in value.items()}).encode()
        self.ask("PUT", self._path("lake-mirrors", name), {}, body)

    def delete_mirror(self, name: str) -> None:
        self.ask("DELETE", self._path("lake-mirrors", name), {})

    def _path(self, kind: str, *rest: str) -> str:
        return "/".join(("/api", kind, *(quote(part, safe="") for part in (self.address.vhost, *rest))))

    # --- one request ------------------------------------------------------------------------------------------------

    def ask(self, method: str, path: str, query: Mapping[str, object], body: bytes | None = None) -> Reply:
        """Raises LakeError. A node that does not answer is no error as long as another one does, or it comes back in time."""
        deadline = time.monotonic() + self.address.patience
        target = f"{path}?{urlencode(query)}" if query else path
        problem = ""
        while True:
            for base in self._places(path):
                try:
                    reply = self._follow(base, path, method, target, body)
                except BROKEN as fault:
                    self._homes.pop(path, None)
                    problem = f"{urlsplit(base).netloc}: {str(fault) or type(fault).__name__}"
                    continue
                if reply.status not in (307, 503):
                    return _checked(reply, self.address)
                problem = _reason(reply)
            if time.monotonic() >= deadline:
                raise Away(f"no node of the cluster can answer for {path} ({problem})")
            time.sleep(PAUSE)

    def _places(self, path: str) -> list[str]:
        home = self._homes.get(path)
        return [home, *self.address.urls] if home is not None else list(self.address.urls)

    def _follow(self, base: str, path: str, method: str, target: str, body: bytes | None) -> Reply:
        reply = self._request(base, method, target, body)
        for _ in range(3):
            if reply.status != 307:
                break
            place, _, rest = reply.headers.get("location", "").partition("/api/")
            base = place
            reply = self._request(place, method, f"/api/{rest}", body)
        if reply.status < 400:
            self._homes[path] = base
        return reply

    def _request(self, base: str, method: str, target: str, body: bytes | None, timeout: float = TIMEOUT) -> Reply:
        connection = self._connections.pop(base, None)
        is_used = connection is not None
        connection = connection or _connect(base, timeout)
        try:
            reply = self._exchange(connection, method, urlsplit(base).path + target, body)
        except BROKEN:
            connection.close()
            if not is_used:
                raise
            # The node may have closed a connection that was idle; a fresh one tells.
            connection = _connect(base, timeout)
            try:
                reply = self._exchange(connection, method, urlsplit(base).path + target, body)
            except BROKEN:
                connection.close()
                raise
        self._connections[base] = connection
        return reply

    def _exchange(self, connection: http.client.HTTPConnection, method: str, target: str, body: bytes | None) -> Reply:
        connection.request(method, target, body=body, headers={"Authorization": self.address.authorization, "Accept": "*/*"})
        answer = connection.getresponse()
        data = answer.read()
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, data)


def _connect(base: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(base)
    host = parts.hostname or "localhost"
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, parts.port, timeout=timeout)


def _reason(reply: Reply) -> str:
    try:
        told = json.loads(reply.body)
        return str(told.get("reason") or told.get("error") or reply.status)
    except (ValueError, AttributeError):
        return f"HTTP {reply.status}"


def _checked(reply: Reply, address: Address) -> Reply:
    if reply.status < 400:
        return reply
    reason = _reason(reply)
    if reply.status == 401:
        if reason == "Login failed":
            raise Refused(f"user '{address.user}' cannot log in: name or password is wrong, or it may only come from localhost")
        raise Refused(reason)
    if reply.status == 410:
        raise Trimmed(reason, int(reply.headers.get("x-mirrormq-earliest", 0)))
    if reply.status == 404 and reason == "Not Found":
        raise LakeError(f"there is no vhost '{address.vhost}', or what answers there is no MirrorMQ with a feed")
    if reply.status == 404:
        raise Trimmed(reason, 0)
    raise LakeError(reason)


def _check_format(found: str, version: str) -> None:
    if found != FORMAT:
        raise LakeError(
            f"the cluster (version {version}) sends its log in format '{found}', and this program reads format {FORMAT}: "
            "use the lake tools of the cluster's own version"
        )
