"""Connections and channels: list, show, close. Whoever is no monitor sees their own."""

from __future__ import annotations

from typing import Any, Final

from mirrormq.admin.call import Answer, Call, Json, done
from mirrormq.admin.errors import not_authorised, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queue_view import COLLECTOR, show_consumer, span_of, timestamp
from mirrormq.admin.values import from_table
from mirrormq.broker.channel import CONFIRM, TRANSACTION, Channel
from mirrormq.broker.connection import RUNNING, STATES, Connection

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


class ConnectionView:
    def __init__(self, call: Call) -> None:
        self._call = call
        self._span = span_of(call.query, "data_rates")

    def show(self, connection: Connection) -> Json:
        call, user = self._call, user_of(connection)
        counters = {"recv_oct": int(connection.received_bytes), "send_oct": int(connection.sent_bytes)}
        figures = call.state.rates.look(("connection", connection.name), counters, call.broker.now,
                                        keep=self._span is not None)
        row: Json = {
            "auth_mechanism": connection.mechanism, "channel_max": int(connection.channel_max),
            "channels": len(connection.channels), "client_properties": from_table(connection.client_properties),
            "connected_at": int(connection.connected_at), "frame_max": int(connection.frame_max),
            "garbage_collection": COLLECTOR, "name": connection.name, "node": call.broker.node_name,
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


# --- connections ----------------------------------------------------------------------------------------------------


def _visible(call: Call) -> list[Connection]:
    """All, or the caller's own; of the path's virtual host, if it names one."""
    principal = call.principal
    vhost = call.vhost() if "vhost" in call.args else None
    found = [
        connection for connection in call.broker.connections
        if (principal.is_monitor or user_of(connection) == principal.name) and vhost in (None, connection.vhost)
    ]  # fmt: skip
    return sorted(found, key=lambda connection: connection.name)


async def list_connections(call: Call) -> Answer:
    rows = Rows(_visible(call), ConnectionView(call).show, lambda connection: connection.name, vhost_of)
    return await answer_rows(call, rows, is_paged=True)


def _one(call: Call) -> Connection:
    for connection in call.broker.connections:
        if connection.name == call.args["name"]:
            call.principal.require_own(user_of(connection))
            return connection
    raise not_found()


def show_connection(call: Call) -> Answer:
    return answer_one(call, ConnectionView(call).show(_one(call)))


def close_connection(call: Call) -> Answer:
    connection = _one(call)
    if not call.principal.is_administrator and user_of(connection) != call.principal.name:
        raise not_authorised("User not authorised to access object")
    _close(call, connection)
    return done()


def _close(call: Call, connection: Connection) -> None:
    if connection.state != RUNNING:
        return
    reason = call.headers.get("X-Reason") or "Closed via management plugin"
    connection.close_with(320, f"CONNECTION_FORCED - {reason}", 0, 0)


def _of_user(call: Call) -> list[Connection]:
    return [connection for connection in _visible(call) if user_of(connection) == call.args["user"]]


async def list_of_user(call: Call) -> Answer:
    node = call.broker.node_name
    rows = Rows(_of_user(call), lambda connection: {
        "name": connection.name, "vhost": vhost_of(connection), "user": user_of(connection), "node": node},
        lambda connection: connection.name)
    return await answer_rows(call, rows, is_paged=True)


def close_of_user(call: Call) -> Answer:
    for connection in _of_user(call):
        _close(call, connection)
    return done()


# --- channels -------------------------------------------------------------------------------------------------------


def channel_name(channel: Channel) -> str:
    return f"{channel.connection.name} ({channel.number})"


def channel_counters(channel: Channel) -> dict[str, int]:
    delivered, no_ack = int(channel.delivered), int(channel.delivered_no_ack)
    return {
        "ack": int(channel.acknowledged), "confirm": int(channel.confirmed), "deliver": delivered,
        "deliver_get": delivered + no_ack, "deliver_no_ack": no_ack, "drop_unroutable": 0, "get": 0, "get_empty": 0,
        "get_no_ack": 0, "publish": int(channel.published), "redeliver": 0, "return_unroutable": int(channel.returned),
    }  # fmt: skip


class ChannelView:
    def __init__(self, call: Call) -> None:
        self._call = call
        self._span = span_of(call.query, "msg_rates")

    def show(self, channel: Channel) -> Json:
        call, connection = self._call, channel.connection
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
            "node": call.broker.node_name, "number": channel.number, "pending_raft_commands": 0,
            "prefetch_count": int(channel.prefetch), "reductions": 0, "reductions_details": {"rate": 0.0},
            "state": "running", "transactional": channel.mode == TRANSACTION, "user": user,
            "user_who_performed_action": user, "vhost": vhost_of(connection),
        }  # fmt: skip
        return row | self._flows(channel)

    def _flows(self, channel: Channel) -> Json:
        call = self._call
        counters = channel_counters(channel)
        figures = call.state.rates.look(("channel", channel_name(channel)), counters, call.broker.now,
                                        keep=self._span is not None)
        if not any(counters.values()):
            return {"idle_since": _idle_since(channel)}
        return {"message_stats": figures.fields(FLOWS, self._span)}


def _idle_since(channel: Channel) -> str:
    return timestamp(int(channel.connection.connected_at))


def _channels(connections: list[Connection]) -> list[Channel]:
    return [channel for connection in connections for channel in connection.channels.values()]


async def list_channels(call: Call) -> Answer:
    rows = Rows(_channels(_visible(call)), ChannelView(call).show, channel_name)
    return await answer_rows(call, rows, is_paged=True)


async def list_of_connection(call: Call) -> Answer:
    rows = Rows(_channels([_one(call)]), ChannelView(call).show, channel_name)
    return await answer_rows(call, rows)


def show_channel(call: Call) -> Answer:
    for channel in _channels(list(call.broker.connections)):
        if channel_name(channel) == call.args["name"]:
            call.principal.require_own(user_of(channel.connection))
            return answer_one(call, _whole(call, channel))
    raise not_found()


def _whole(call: Call, channel: Channel) -> Json:
    consumers = [show_consumer(consumer, call.broker.node_name) for consumer in channel.consumers.values()]
    return {"consumer_details": consumers, "deliveries": [], "publishes": [], **ChannelView(call).show(channel)}
