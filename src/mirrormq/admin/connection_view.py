"""Connections and channels as the API shows them. Each is shown by the node that its client is connected to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final

from mirrormq.admin.call import Json, State
from mirrormq.admin.census import Kind, Place, Query, Scope
from mirrormq.admin.queue_view import COLLECTOR, span_of, timestamp
from mirrormq.admin.row_cache import Mark, Memory
from mirrormq.admin.values import from_table
from mirrormq.broker.broker import Broker
from mirrormq.broker.channel import CONFIRM, TRANSACTION, Channel
from mirrormq.broker.connection import STATES, Connection

TRAFFIC: Final = ("recv_oct", "send_oct")
FLOWS: Final = (
    "ack", "confirm", "deliver", "deliver_get", "deliver_no_ack", "drop_unroutable", "get", "get_empty", "get_no_ack",
    "publish", "redeliver", "return_unroutable",
)  # fmt: skip


def user_of(connection: Connection) -> str:
    return "" if connection.user is None else connection.user.name


def vhost_of(connection: Connection) -> str:
    return "" if connection.vhost is None else connection.vhost.name


def state_of(connection: Connection) -> str:
    if connection.is_blocked:
        return "blocked" if connection.broker.alarms else "flow"
    if connection.broker.alarms and STATES[connection.state] == "running":
        return "blocking"
    return STATES[connection.state]


def connection_key(connection: Connection) -> tuple[str, ...]:
    return ("connection", connection.name)


def connection_counters(connection: Connection) -> dict[str, int]:
    return {"recv_oct": int(connection.received_bytes), "send_oct": int(connection.sent_bytes)}


EVERYTHING: Final = Scope()
CONNECTION_MARKS: Final = attrgetter(
    "name", "connected_at", "received_bytes", "sent_bytes", "received_count", "sent_count", "state", "is_blocked", "user",
    "vhost")


def connection_mark(connection: Connection) -> Mark:
    """All else of its row stays as it was when it was opened."""
    return (CONNECTION_MARKS(connection), len(connection.channels), bool(connection.broker.alarms))


def connection_marks(connections: Sequence[Connection]) -> list[Any]:
    lengths = map(len, map(attrgetter("channels"), connections))
    return [*map(CONNECTION_MARKS, connections), *lengths, bool(connections[0].broker.alarms)]


class ConnectionView:
    def __init__(self, state: State, query: Query) -> None:
        self._state = state
        self._node = state.broker.node_name
        self._span = span_of(query, "data_rates")

    def show(self, connection: Connection) -> Json:
        state, user = self._state, user_of(connection)
        figures = state.rates.look(connection_key(connection), connection_counters(connection), state.broker.now,
                                   keep=self._span is not None)
        row: Json = {
            "auth_mechanism": connection.mechanism, "channel_max": int(connection.channel_max),
            "channels": len(connection.channels), "client_properties": from_table(connection.client_properties),
            "connected_at": int(connection.connected_at), "frame_max": int(connection.frame_max),
            "garbage_collection": COLLECTOR, "name": connection.name, "node": self._node,
            "protocol": "AMQP 0-9-1", "recv_cnt": int(connection.received_count), "reductions": 0,
            "reductions_details": {"rate": 0.0}, "send_cnt": int(connection.sent_count), "send_pend": 0,
            "state": state_of(connection), "timeout": int(connection.heartbeat), "type": "network", "user": user,
            "user_who_performed_action": user, "vhost": vhost_of(connection),
        }  # fmt: skip
        name = connection.client_properties.get("connection_name")
        if isinstance(name, str):
            row["user_provided_name"] = name
        return row | figures.fields(TRAFFIC, self._span) | _peer(connection) | _tls(connection)


def _peer(connection: Connection) -> Json:
    peer = connection.peer
    return {"host": peer.server_host, "peer_host": peer.host, "peer_port": peer.port, "port": peer.server_port}


def _tls(connection: Connection) -> Json:
    tls = connection.peer.tls or {}
    return {
        "peer_cert_issuer": tls.get("issuer", ""), "peer_cert_subject": tls.get("subject", ""),
        "peer_cert_validity": tls.get("validity", ""),
        "ssl": connection.peer.tls is not None, "ssl_cipher": tls.get("cipher", ""), "ssl_hash": "",
        "ssl_key_exchange": "", "ssl_protocol": tls.get("protocol", "").lower(),
    }  # fmt: skip


# --- channels -------------------------------------------------------------------------------------------------------


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel_counters(channel: Channel) -> dict[str, int]:
    delivered, no_ack = int(channel.delivered), int(channel.delivered_no_ack)
    return {
        "ack": int(channel.acknowledged), "confirm": int(channel.confirmed), "deliver": delivered,
        "deliver_get": delivered + no_ack, "deliver_no_ack": no_ack,
        "drop_unroutable": int(channel.dropped), "get": 0, "get_empty": 0,
        "get_no_ack": 0, "publish": int(channel.published), "redeliver": 0, "return_unroutable": int(channel.returned),
    }  # fmt: skip


def channel_key(channel: Channel) -> tuple[str, ...]:
    return ("channel", channel_name(channel))


CHANNEL_MARKS: Final = attrgetter(
    "connection.name", "number", "connection.connected_at", "acknowledged", "confirmed", "delivered", "delivered_no_ack",
    "dropped", "published", "returned", "sequence", "prefetch", "limit", "mode")


def channel_mark(channel: Channel) -> Mark | None:
    if channel.transaction is not None:
        return None
    return (CHANNEL_MARKS(channel), len(channel.consumers), len(channel.unacked))


def channel_marks(channels: Sequence[Channel]) -> list[Any] | None:
    if any(map(attrgetter("transaction"), channels)):
        return None
    return [*map(CHANNEL_MARKS, channels), *map(len, map(attrgetter("consumers"), channels)),
            *map(len, map(attrgetter("unacked"), channels))]


class ChannelView:
    def __init__(self, state: State, query: Query) -> None:
        self._state = state
        self._node = state.broker.node_name
        self._span = span_of(query, "msg_rates")

    def show(self, channel: Channel) -> Json:
        connection = channel.connection
        transaction = channel.transaction
        user = user_of(connection)
        row: dict[str, Any] = {
            "acks_uncommitted": 0 if transaction is None else len(transaction.acks),
            "confirm": channel.mode == CONFIRM,
            "connection_details": {"name": connection.name, "peer_host": connection.peer.host,
                                   "peer_port": connection.peer.port},
            "consumer_count": len(channel.consumers), "garbage_collection": COLLECTOR,
            "global_prefetch_count": int(channel.limit), "messages_unacknowledged": len(channel.unacked),
            "messages_uncommitted": 0 if transaction is None else len(transaction.publishes),
            "messages_unconfirmed": int(channel.sequence - channel.confirmed), "name": channel_name(channel),
            "node": self._node, "number": channel.number, "pending_raft_commands": 0,
            "prefetch_count": int(channel.prefetch), "reductions": 0, "reductions_details": {"rate": 0.0},
            "state": "running", "transactional": channel.mode == TRANSACTION, "user": user,
            "user_who_performed_action": user, "vhost": vhost_of(connection),
        }  # fmt: skip
        return row | self._flows(channel)

    def _flows(self, channel: Channel) -> Json:
        state = self._state
        counters = channel_counters(channel)
        figures = state.rates.look(channel_key(channel), counters, state.broker.now,
                                   keep=self._span is not None)
        if not any(counters.values()):
            return {"idle_since": _idle_since(channel)}
        return {"message_stats": figures.fields(FLOWS, self._span)}


def _idle_since(channel: Channel) -> str:
    return timestamp(int(channel.connection.connected_at))


# --- in lists -------------------------------------------------------------------------------------------------------


class Connections(Kind[Connection]):
    word = "connections"

    def find(self, broker: Broker, scope: Scope) -> list[Connection]:
        found = broker.connections if scope == EVERYTHING else [one for one in broker.connections if _is_meant(one, scope)]
        return sorted(found, key=attrgetter("name"))

    def pick(self, broker: Broker, places: Sequence[Place]) -> list[Connection | None]:
        by_name = {connection.name: connection for connection in broker.connections}
        return [by_name.get(str(place[0])) for place in places]

    def place(self, thing: Connection) -> Place:
        return (thing.name,)

    def name(self, thing: Connection) -> str:
        return thing.name

    def vhost(self, thing: Connection) -> str:
        return vhost_of(thing)

    def view(self, state: State, query: Query) -> Callable[[Connection], Json]:
        return ConnectionView(state, query).show

    def memory(self, _: State) -> Memory[Connection] | None:
        return Memory(connection_key, connection_counters, connection_mark, together=connection_marks)


def _is_meant(connection: Connection, scope: Scope) -> bool:
    if scope.connection is not None and connection.name != scope.connection:
        return False
    return scope.has_vhost(vhost_of(connection)) and scope.user in (None, user_of(connection))


class NamesOfConnections(Connections):
    """The short rows of a user's connections."""

    word = "connections-of-user"

    def memory(self, _: State) -> None:
        return None

    def view(self, state: State, query: Query) -> Callable[[Connection], Json]:
        node = state.broker.node_name
        return lambda connection: {"name": connection.name, "vhost": vhost_of(connection), "user": user_of(connection),
                                   "node": node}


class Channels(Kind[Channel]):
    word = "channels"

    def find(self, broker: Broker, scope: Scope) -> list[Channel]:
        return [channel for connection in CONNECTIONS.find(broker, scope) for channel in _in_order(connection.channels)]

    def pick(self, broker: Broker, places: Sequence[Place]) -> list[Channel | None]:
        connections = CONNECTIONS.pick(broker, places)
        return [None if connection is None else connection.channels.get(int(place[1]))
                for connection, place in zip(connections, places, strict=True)]

    def place(self, thing: Channel) -> Place:
        return (thing.connection.name, thing.number)

    def name(self, thing: Channel) -> str:
        return channel_name(thing)

    def vhost(self, thing: Channel) -> str:
        return vhost_of(thing.connection)

    def view(self, state: State, query: Query) -> Callable[[Channel], Json]:
        return ChannelView(state, query).show

    def memory(self, _: State) -> Memory[Channel]:
        return Memory(channel_key, channel_counters, channel_mark, together=channel_marks)


def _in_order(channels: dict[int, Channel]) -> list[Channel]:
    return [channels[number] for number in sorted(channels)]


CONNECTIONS: Final = Connections()
NAMES_OF_CONNECTIONS: Final = NamesOfConnections()
CHANNELS: Final = Channels()
