"""`/metrics`: what Prometheus scrapes. Each node tells of itself; Prometheus puts nodes together.

- `/metrics` has sums over all queues, channels and connections: as many lines on a large node as on a small one.
- `/metrics/per-object`, or `prometheus.return_per_object_metrics = true`, has a line for each of them.
- `/metrics/detailed?family=NAME&vhost=NAME` has the families that were asked for, with `rabbitmq_detailed_` before their names.

Nothing is counted for the sake of metrics: what the broker counts anyway is read when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Final

from mirrormq import __version__
from mirrormq.admin import metrics_families as families
from mirrormq.admin.ages import Ages
from mirrormq.admin.call import Answer, Call, State
from mirrormq.admin.census import Scope
from mirrormq.admin.connection_view import CONNECTIONS, channel_counters, channel_name, vhost_of
from mirrormq.admin.exposition import CONTENT_TYPE, GAUGE, INFO, Family, Labels, Number, Page
from mirrormq.admin.listing import in_slices
from mirrormq.admin.metrics_families import Field
from mirrormq.admin.mirrors import Ring
from mirrormq.admin.nodes import show_here
from mirrormq.admin.queue_census import QUEUES
from mirrormq.admin.queue_marks import marks
from mirrormq.admin.queue_view import QueueView
from mirrormq.broker.channel import CONFIRM, Channel
from mirrormq.broker.connection import Connection
from mirrormq.broker.handshake import COMPATIBLE_VERSION
from mirrormq.broker.queue import Queue
from mirrormq.node.alarms import DISK, MEMORY

Values = dict[str, Number]
MOST: Final = 50_000            # queues whose figures are kept from one scrape to the next
NO_SUM: Final = ("head_message_timestamp", "consumer_capacity")        # of several queues it would mean nothing
PROTOCOL: Final = {"protocol": "amqp091"}
CLASSIC: Final = "rabbit_classic_queue"
BUILD: Final = Family("rabbitmq_build_info", INFO, "The version that this broker behaves as, and its own")
IDENTITY: Final = Family("rabbitmq_identity_info", INFO, "The node and its cluster")
OLDEST: Final = Family("mirrormq_oldest_message_age_seconds", GAUGE, "Age of the oldest ready message of any queue")
BARE: Final = Family("mirrormq_queues_mirrored_without_sync", GAUGE, "Mirrored queues of which nothing but the leader is in sync")
GROUPS: Final[dict[str, tuple[str, Sequence[Field]]]] = {
    "connection_churn_metrics": ("node", families.CHURN), "node_coarse_metrics": ("node", families.NODE_COARSE),
    "node_metrics": ("node", families.NODE), "node_persister_metrics": ("node", families.PERSISTER),
    "auth_attempt_metrics": ("login", families.AUTH), "queue_coarse_metrics": ("queue", families.QUEUE_COARSE),
    "queue_consumer_count": ("queue", families.QUEUE_CONSUMERS),
    "queue_metrics": ("queue", (*families.QUEUE_CONSUMERS, *families.QUEUE)),
    "channel_metrics": ("channel", families.CHANNEL), "channel_exchange_metrics": ("channel", families.CHANNEL_FLOWS[:4]),
    "channel_process_metrics": ("channel", families.CHANNEL_FLOWS[4:5]),
    "channel_queue_metrics": ("channel", families.CHANNEL_FLOWS[5:]),
    "connection_coarse_metrics": ("connection", families.CONNECTION[:3]),
    "connection_metrics": ("connection", families.CONNECTION[3:]),
    "queue_age_metrics": ("queue", families.OURS_QUEUE), "queue_ring_metrics": ("ring", families.OURS_RING),
}  # fmt: skip
"""By the name that RabbitMQ gives a group of families; the word says whose values they are."""


class Census:
    """What this node has, read once for one scrape."""

    def __init__(self, state: State, ages: Ages, vhosts: frozenset[str] | None = None) -> None:
        self._state = state
        self._ages = ages
        self._vhosts = vhosts
        self.ended: Mapping[str, int] = state.broker.counters
        self.rows: dict[str, list[tuple[Labels, Values]]] = {"queue": [], "channel": [], "connection": [], "ring": []}
        self.sums: Values = {}
        self._view = QueueView(state, {})
        self._mark = marks(state)

    async def take(self) -> None:
        scope = Scope(vhosts=None if self._vhosts is None else sorted(self._vhosts))
        broker = self._state.broker
        served = [queue for queue in QUEUES.find(broker, scope) if not queue.is_away]
        await in_slices(served, self._add_queue)
        await in_slices(CONNECTIONS.find(broker, Scope()), self._add_connection)
        self.rows["node"] = [({}, self._node())]
        self.rows["login"] = [({"protocol": "http"}, _logins(self._state))]

    def _add_queue(self, queue: Queue) -> None:
        labels = {"vhost": queue.vhost, "queue": queue.name}
        values = self._queue_values(queue)
        values["oldest_age"] = self._ages.look(queue, self._state.broker.now)
        self.rows["queue"].append((labels, values))
        ring = self._state.mirrors.ring(queue)
        if ring is not None:
            self.rows["ring"].append((labels, _ring_values(ring)))

    def _queue_values(self, queue: Queue) -> Values:
        """Of most queues as the last scrape has left them."""
        memory, key, mark = self._state.metrics, int(queue.log_id), self._mark(queue)
        known = memory.get(key)
        if known is not None and mark is not None and known[0] == mark:
            return known[1]
        figures = self._view.figures(queue) | {"reductions": 0, "disk_reads": 0, "disk_writes": 0}
        values: Values = {name: value for name, value in figures.items() if isinstance(value, (int, float))}
        if mark is not None:
            if len(memory) >= MOST:
                memory.clear()
            memory[key] = (mark, values)
        return values

    def _add_connection(self, connection: Connection) -> None:
        if self._vhosts is not None and vhost_of(connection) not in self._vhosts:
            return
        self.rows["connection"].append(({"connection": connection.name}, {
            "recv_oct": connection.received_bytes, "send_oct": connection.sent_bytes, "recv_cnt": connection.received_count,
            "send_cnt": connection.sent_count, "send_pend": connection.out_size, "channels": len(connection.channels),
            "reductions": 0}))
        for channel in list(connection.channels.values()):
            self._add_channel(channel)

    def _add_channel(self, channel: Channel) -> None:
        transaction, counters = channel.transaction, channel_counters(channel)
        values: Values = {
            "consumers": len(channel.consumers), "unacked": len(channel.unacked),
            "unconfirmed": channel.sequence - channel.confirmed, "prefetch": channel.prefetch, "limit": channel.limit,
            "uncommitted": 0 if transaction is None else len(transaction.publishes),
            "acks_uncommitted": 0 if transaction is None else len(transaction.acks), "reductions": 0,
        }  # fmt: skip
        self._sum(counters)
        self._sum({"publishers": 1 if channel.published else 0,
                   "received_confirm": int(channel.sequence) if channel.mode == CONFIRM else 0})
        self.rows["channel"].append(({"channel": channel_name(channel)}, values | counters))

    def _sum(self, counters: Mapping[str, int]) -> None:
        for name, value in counters.items():
            if value:
                self.sums[name] = self.sums.get(name, 0) + value

    def _node(self) -> Values:
        row = show_here(self._state, {})
        values: Values = {name: value for name, value in row.items() if isinstance(value, (int, float))}
        return values | {"uptime_seconds": row["uptime"] / 1000} | dict.fromkeys(
            ("io_read_seconds", "io_write_seconds", "io_sync_seconds", "io_seek_seconds"), 0)

    def total(self, name: str) -> Number:
        """Of channels that live, and of what has ended."""
        return self.sums.get(name, 0) + self.ended.get(name, 0)

    def delivered(self, names: Sequence[str]) -> Values:
        """Of queues that live, and of what has ended."""
        living = _sums(self.rows["queue"], names)
        return {name: count + self.ended.get(name, 0) for name, count in zip(names, living, strict=True)}

    def polled(self) -> Values:
        """What queues count, and channels do not: RabbitMQ has it among the sums of channels."""
        return self.delivered(("get", "get_no_ack", "get_empty", "redeliver"))


def _logins(state: State) -> Values:
    gate = state.gate
    return {"auth_attempts": gate.succeeded + gate.failed, "auth_attempts_succeeded": gate.succeeded,
            "auth_attempts_failed": gate.failed}


def _ring_values(ring: Ring) -> Values:
    """Without a lag as long as a mirror has not said where it stands."""
    values: Values = {"mirrors": len(ring.mirrors), "in_sync": len(ring.in_sync), "is_bare": int(ring.is_bare),
                      "epoch": ring.epoch, "lag_bytes": max((learner.lag_bytes for learner in ring.learners), default=0)}
    known = [learner.lag_entries for learner in ring.learners if learner.lag_entries is not None]
    return values if len(known) < len(ring.learners) else values | {"lag_entries": max(known, default=0)}


# --- pages ----------------------------------------------------------------------------------------------------------


async def show_metrics(call: Call) -> Answer:
    is_whole = call.runtime.config.prometheus_per_object
    return await (_per_object(call) if is_whole else _aggregated(call))


async def show_per_object(call: Call) -> Answer:
    return await _per_object(call)


async def show_detailed(call: Call) -> Answer:
    """Only what is asked for; the query may name several families and virtual hosts."""
    wanted = call.every("family")
    vhosts = call.every("vhost")
    census = await _census(call, frozenset(vhosts) if vhosts else None)
    page = Page("rabbitmq_detailed_")
    for name in wanted:
        if name in GROUPS:
            whose, fields = GROUPS[name]
            _rows(page, census.rows[whose], fields)
    return _answer(page)


async def _census(call: Call, vhosts: frozenset[str] | None = None) -> Census:
    census = Census(call.state, call.state.ages, vhosts)
    await census.take()
    return census


async def _aggregated(call: Call) -> Answer:
    census, page = await _census(call), Page()
    _common(page, call, census, "aggregated")
    for whose, fields in _rabbits():
        rows = census.rows[whose]
        if whose in ("node", "login"):
            _rows(page, rows, fields)
        else:
            _rows(page, [({}, _added(rows, fields) | (census.polled() if whose == "channel" else {}))], fields)
    return _answer(page)


async def _per_object(call: Call) -> Answer:
    census, page = await _census(call), Page()
    _common(page, call, census, "per-object")
    for whose, fields in _rabbits():
        _rows(page, census.rows[whose], fields)
    for whose, fields in (("queue", families.OURS_QUEUE), ("ring", families.OURS_RING)):
        _rows(page, census.rows[whose], fields, is_ours=True)
    return _answer(page)


def _rabbits() -> Iterable[tuple[str, Sequence[Field]]]:
    ours = ("queue_age_metrics", "queue_ring_metrics", "queue_consumer_count")
    return [group for name, group in GROUPS.items() if name not in ours]


def _added(rows: Sequence[tuple[Labels, Values]], fields: Sequence[Field]) -> Values:
    keys = [field.key for field in fields if field.key not in NO_SUM]
    return dict(zip(keys, _sums(rows, keys), strict=True))


def _sums(rows: Sequence[tuple[Labels, Values]], keys: Sequence[str]) -> Sequence[Number]:
    """Of each key over all rows. There may be thousands of rows: nothing is looped over that need not be."""
    if not rows:
        return [0] * len(keys)
    values_of = itemgetter(*keys, keys[0])      # one more, because it gives no tuple for one alone
    columns = zip(*[values_of(values) for _, values in rows], strict=True)
    return [sum(column) for column in columns][:-1]


def _rows(page: Page, rows: Sequence[tuple[Labels, Values]], fields: Sequence[Field], *, is_ours: bool = False) -> None:
    for field in fields:
        family = field.family if is_ours or page.prefix else _named(field.family)
        for labels, values in rows:
            if field.key in values:
                page.add(family, values[field.key], labels)


def _named(family: Family) -> Family:
    return Family(f"rabbitmq_{family.name}", family.kind, family.help)


# --- what every page begins with --------------------------------------------------------------------------------------


def _common(page: Page, call: Call, census: Census, endpoint: str) -> None:
    broker = call.broker
    page.add(IDENTITY, 1, {"rabbitmq_node": broker.node_name, "rabbitmq_cluster": broker.cluster_name,
                           "rabbitmq_cluster_permanent_id": _permanent_id(call), "rabbitmq_endpoint": endpoint})
    page.add(BUILD, 1, {"rabbitmq_version": COMPATIBLE_VERSION, "prometheus_plugin_version": COMPATIBLE_VERSION,
                        "prometheus_client_version": __version__, "erlang_version": "", "mirrormq_version": __version__})
    _fixed(page, families.ALARMS, _alarms(call), {})
    _fixed(page, families.TOTALS, _totals(census), {})
    _fixed(page, families.GLOBAL, _received(census), PROTOCOL)
    delivered = census.delivered([field.key for field in families.GLOBAL_BY_TYPE])
    _fixed(page, families.GLOBAL_BY_TYPE, delivered, PROTOCOL | {"queue_type": CLASSIC})
    letters: Values = {field.key: census.ended.get(field.key, 0) for field in families.GLOBAL_LETTERS}
    _fixed(page, families.GLOBAL_LETTERS, letters, {"queue_type": CLASSIC, "dead_letter_strategy": "at_most_once"})
    page.add(OLDEST, max((values["oldest_age"] for _, values in census.rows["queue"]), default=0))
    page.add(BARE, sum(values["is_bare"] for _, values in census.rows["ring"]))
    ours = _ours(call)
    for field in families.OURS_NODE:
        page.add(field.family, ours[field.key])


def _fixed(page: Page, fields: Sequence[Field], values: Mapping[str, Number], labels: Labels) -> None:
    for field in fields:
        page.add(_named(field.family), values[field.key], labels)


def _permanent_id(call: Call) -> str:
    return str(call.broker.global_parameters.get("internal_cluster_id") or call.broker.cluster_name)


def _alarms(call: Call) -> Values:
    raised = call.runtime.alarms.raised()
    return {"alarm_files": 0, "alarm_disk": int(DISK in raised), "alarm_memory": int(MEMORY in raised)}


def _totals(census: Census) -> Values:
    rows = census.rows
    return {"connections": len(rows["connection"]), "channels": len(rows["channel"]), "queues": len(rows["queue"]),
            "consumers": _sums(rows["queue"], ["consumers"])[0]}


def _received(census: Census) -> Values:
    names = ("publish", "confirm", "return_unroutable", "drop_unroutable")
    values: Values = {name: census.total(name) for name in names}
    nowhere = values["return_unroutable"] + values["drop_unroutable"]
    confirmed = census.sums.get("received_confirm", 0) + census.ended.get("confirm", 0)
    return values | {"routed": values["publish"] - nowhere, "received_confirm": confirmed,
                     "publishers": census.sums.get("publishers", 0), "consumers": _totals(census)["consumers"]}


def _ours(call: Call) -> Values:
    cluster, stats = call.runtime.cluster, call.runtime.log.store.stats()
    links = [neighbour.peer.connection for neighbour in cluster.neighbours.values()]
    return {
        "commits": stats.commits, "commit_seconds": stats.last_commit_seconds, "nodes": len(cluster.membership.members),
        "nodes_running": len(cluster.membership.running), "link_received": sum(link.received_bytes for link in links),
        "link_sent": sum(link.sent_bytes for link in links),
    }  # fmt: skip


def _answer(page: Page) -> Answer:
    return Answer(200, page.text(), {"content-type": CONTENT_TYPE})

