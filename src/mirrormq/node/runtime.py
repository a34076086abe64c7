"""The running node: event loop, broker, log, records, listeners and alarms, and the order in which they start and stop.

One thread owns the broker. Sockets call in through `ClientProtocol`; log and records report back when something is stable.
All gathered work is done in one turn of the broker for each turn of the event loop.
"""
from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from mirrormq.broker import agreement, rules
from mirrormq.broker.auth import Permission, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.journal import UNHEARD, Proposal
from mirrormq.broker.passwords import hash_password
from mirrormq.node import deadlines
from mirrormq.node.cluster import Cluster
from mirrormq.node.config import NodeConfig
from mirrormq.node.config_format import Listener
from mirrormq.node.feed import LakeMirrors, LocalLogs, LogSource
from mirrormq.node.listener import ClientProtocol, tune_listener
from mirrormq.node.node_host import NodeHost
from mirrormq.node.node_log import NodeLog
from mirrormq.node.partition import Partition
from mirrormq.node.placing import Placing
from mirrormq.node.pressure import Pressure
from mirrormq.node.proxied_tls import HeaderProtocol
from mirrormq.node.tls import server_context

log = logging.getLogger("mirrormq")
OVERDUE_EVERY = 30_000      # milliseconds between two looks for deliveries that were never acknowledged
TRIM_EVERY = 5_000          # milliseconds between two looks for segments that can go
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class StartError(Exception):
    """The node cannot start; the sentence says why and what to do."""


class StoreUnheard(Exception):
    """The cluster could not agree on a change; the sentence says why."""


class Runtime:
    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.is_scheduled = False
        self.is_stopping = False
        self.is_drained = False
        self.partition = Partition(self)
        self.started_at = time.time()
        self.handshake_timeout = None if config.handshake_timeout_ms is None else config.handshake_timeout_ms / 1000
        self.login_from = (config.ssl_cert_login_from, config.ssl_cert_login_san_type, config.ssl_cert_login_san_index)
        self._loop = asyncio.get_running_loop()
        self._clients: set[ClientProtocol] = set()
        self._closings: dict[Connection, asyncio.TimerHandle] = {}
        self._everyone_left = asyncio.Event()
        self._agreement_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._beat: asyncio.TimerHandle | None = None
        self._looked_for_overdue = 0
        self._trimmed_at = 0
        self._is_busy = False
        self._alarms_elsewhere: dict[str, dict[str, str]] = {}
        self.log = NodeLog(config.data_dir / "log", self._durable, self._log_fault, self._disk_is_behind)
        self.broker = Broker(NodeHost(self), self.log, config.node_name, int(time.time() * 1000))
        self.log.attach(self.broker)
        self.logs: LogSource = LocalLogs(self.log)
        self.lake_mirrors = LakeMirrors(self.broker, self.log.store, self.logs)
        self.cluster = Cluster(config, self.broker, self.tick, self.report)
        self.placing = Placing(self.broker, self.cluster, config.queue_master_locator)
        self.alarms = Pressure(config, self._alarms_changed, self.report)
        self.addresses: list[tuple[str, str, int]] = []

    # --- starting and stopping ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        self._configure_broker()
        await self.cluster.start()
        for note in self.log.recover(self._loop):
            self.report("warning", note)
        self.lake_mirrors.hold()
        if self.cluster.membership.is_first:
            for name in self.broker.records.transient():
                self.broker.journal.delete(name)
        if self._is_blank() and self.config.load_definitions is None:
            self._create_defaults()
        if rules.CLUSTER_NAME not in self.broker.global_parameters:
            rules.name_cluster(self.broker, self.broker.cluster_name)
        self.cluster.on_alarms = self._others_alarms
        self.cluster.replica.on_settled = self.settled
        await self.cluster.run(self._about())
        self.cluster.spawn(self.partition.watch(), "minding partitions")
        self.schedule()
        await self.agreed()
        self.alarms.start(self._loop)
        self._beat_later()

    def _about(self) -> dict[str, object]:
        listeners = self.config.tcp_listeners
        return {"version": self.broker.version, "amqp_port": listeners[0].port if listeners else None,
                "http_port": self.config.management_port}

    def _configure_broker(self) -> None:
        config, broker = self.config, self.broker
        limits = broker.limits
        limits.channel_max = config.channel_max
        limits.frame_max = config.frame_max
        limits.first_frame_max = config.initial_frame_max
        limits.heartbeat = config.heartbeat
        limits.max_message_size = config.max_message_size
        limits.channels = _or_none(config.channel_max_per_node)
        limits.consumers = _or_none(config.consumer_max_per_channel)
        limits.vhosts = _or_none(config.vhost_max)
        limits.queues = _or_none(config.cluster_queue_limit)
        broker.mechanisms = list(config.auth_mechanisms)
        broker.authority.loopback_users = config.loopback_users
        broker.cluster_name = config.cluster_name or config.node_name

    def _is_blank(self) -> bool:
        """Whether nobody could ever log in. Definitions that are to be loaded say themselves who may, as in RabbitMQ."""
        return not self.broker.vhosts and not self.broker.authority.users

    def _create_defaults(self) -> None:
        config, broker = self.config, self.broker
        rules.put_vhost(broker, config.default_vhost, description="Default virtual host")
        secret = hash_password(config.default_pass, secrets.token_bytes(4))
        rules.put_user(broker, User(config.default_user, secret, tags=config.default_user_tags))
        permission = Permission(config.default_configure, config.default_write, config.default_read)
        rules.set_permission(broker, config.default_user, config.default_vhost, permission)

    async def listen(self) -> None:
        """Let clients in. What they are to find must be there by now."""
        self.addresses = [address for address in self.addresses if not address[0].startswith("amqp")]
        for listener in self.config.tcp_listeners:
            await self._listen_at(listener, None)
        if self.config.ssl_listeners:
            context = server_context(self.config.tls, "ssl_options")
            for listener in self.config.ssl_listeners:
                await self._listen_at(listener, context)

    async def _listen_at(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        behind_header = context is not None and self.config.proxy_protocol
        timeout = self.config.ssl_handshake_timeout_ms / 1000 if context is not None and not behind_header else None
        try:
            server = await self._loop.create_server(
                self._protocol_maker(context), listener.host or None, listener.port, reuse_address=True,
                backlog=max(self.config.tcp.backlog, 1024), ssl=None if behind_header else context, ssl_handshake_timeout=timeout)
        except OSError as fault:
            raise StartError(f"cannot listen at {listener.host or '*'}:{listener.port} ({fault.strerror or fault}): "
                             "choose another port with --port, or stop what uses it") from fault
        self._servers.append(server)
        for each in server.sockets:
            tune_listener(each.fileno(), self.config.tcp)
            where = each.getsockname()
            self.addresses.append(("amqp/ssl" if context else "amqp", where[0], where[1]))

    def _protocol_maker(self, context: ssl.SSLContext | None) -> Callable[[], asyncio.BaseProtocol]:
        config = self.config
        if context is not None and config.proxy_protocol:
            return partial(HeaderProtocol, self, context, config.ssl_handshake_timeout_ms / 1000)
        return partial(ClientProtocol, self, expects_proxy=config.proxy_protocol)

    async def stop(self) -> None:
        """Close clients politely, make everything stable, then go."""
        self.is_stopping = True
        await self.turn_out("broker forced connection closure with reason 'shutdown'")
        await self.abandon()

    async def turn_out(self, reason: str) -> None:
        """Close the listeners, then all clients, with a word to those who hear it."""
        while self._servers:
            self._servers.pop().close()
        self.tick()
        for connection in list(self.broker.connections):
            if connection.state == RUNNING:
                connection.close_with(320, f"CONNECTION_FORCED - {reason}", 0, 0)
        self._turn()
        await self._until_gone(deadlines.STOP / 10)
        for client in list(self._clients):
            client.abort()
        self.tick()
        self._turn()

    async def abandon(self) -> None:
        """Let go of everything, also after a start that went only half the way."""
        self.is_stopping = True
        for timer in (self._beat, self._timer, *self._closings.values()):
            if timer is not None:
                timer.cancel()
        self.alarms.stop()
        await self.cluster.leave()
        await self.cluster.stop()
        await self.log.close()
        self.is_scheduled = True        # the process may go on without this runtime: no turn comes any more

    async def _until_gone(self, patience: float) -> None:
        """Wait until no client is left, but not for ever."""
        if self._clients:
            self._everyone_left.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._everyone_left.wait(), patience)

    # --- the turn ---------------------------------------------------------------------------------------------

    def tick(self) -> None:
        self.broker.now = int(time.time() * 1000)

    def schedule(self) -> None:
        if not self.is_scheduled:
            self.is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.is_scheduled = False
        broker = self.broker
        more = broker.turn()
        if self.log.has_news:
            self.log.kick()
        if broker.journal.proposals:
            self.cluster.replica.submit(broker.journal.take())
        self.cluster.flush()
        if more:
            self.schedule()

    def _durable(self, position: int) -> None:
        self.tick()
        self.broker.reach(position)
        if self.broker.active:
            self.schedule()

    def settled(self, proposals: list[Proposal]) -> None:
        """The store has decided on these."""
        agreement.settle(self.broker, proposals)
        done = self.broker.journal.settled
        for proposal in proposals:
            if proposal.state == UNHEARD and not proposal.is_stubborn:
                self._fail_waiters(proposal)
        for target, agreed in self._agreement_waiters:
            if target <= done and not agreed.done():
                agreed.set_result(None)
        self._agreement_waiters = [waiter for waiter in self._agreement_waiters if not waiter[1].done()]

    def _fail_waiters(self, proposal: Proposal) -> None:
        for target, agreed in self._agreement_waiters:
            if target >= proposal.number and not agreed.done():
                agreed.set_exception(StoreUnheard(proposal.text))

    async def agreed(self) -> None:
        """Wait until the cluster has decided on everything that was proposed so far. StoreUnheard if it could not."""
        self._turn()
        target = self.broker.journal.written
        if self.broker.journal.settled < target:
            agreed = self._loop.create_future()
            self._agreement_waiters.append((target, agreed))
            await agreed

    def wake_at(self, when: int) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_later(max(0.0, when / 1000 - time.time()) + 0.001, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.tick()
        self.broker.fire()
        self.schedule()

    def watch_closing(self, connection: Connection) -> None:
        self._closings[connection] = self._loop.call_later(deadlines.CLOSE_OK, self._give_up, connection)

    def forget_closing(self, connection: Connection) -> None:
        """The socket is closed. A timer left behind would keep the connection in memory until it is due."""
        timer = self._closings.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _give_up(self, connection: Connection) -> None:
        self._closings.pop(connection, None)
        self.tick()
        connection.end("the client did not answer our close")
        self.schedule()

    # --- heartbeats -------------------------------------------------------------------------------------------

    def _beat_later(self) -> None:
        self._beat = self._loop.call_later(0.5, self._beat_now)

    def _beat_now(self) -> None:
        """Send heartbeats that are due, end connections whose peer has fallen silent."""
        self.tick()
        now = self.broker.now
        for connection in list(self.broker.connections):
            beat = connection.heartbeat
            if beat and connection.state == RUNNING:
                if now - connection.last_sent >= beat * 500:
                    connection.put(b"\x08\x00\x00\x00\x00\x00\x00\xce")
                if float(now - connection.last_received) > deadlines.heartbeat_gone(beat) * 1000 \
                        and not connection.is_blocked and not connection.is_held:
                    self.report("error", f"{connection.name}: missed heartbeats from client, timeout: {beat}s")
                    connection.end("missed heartbeats from client")
        timeout = self.config.consumer_timeout_ms
        if timeout is not None and now - self._looked_for_overdue > OVERDUE_EVERY:
            self._looked_for_overdue = now
            self.broker.check_overdue(timeout)
        agreement.look_after_stranded(self.broker)
        self.broker.forwarding.tick()
        if now - self._trimmed_at > TRIM_EVERY:
            self._trimmed_at = now
            self.lake_mirrors.hold()
            self.log.trim()
        if self.broker.dirty or self.broker.active or self.log.has_news:
            self.schedule()
        self._beat_later()

    # --- clients, alarms, words ---------------------------------------------------------------------------------

    def admit(self, client: ClientProtocol) -> bool:
        limit = self.config.connection_max
        if self.is_stopping or (limit is not None and len(self._clients) >= limit):
            self.report("warning", f"refused a connection: the limit of {limit} connections is reached")
            return False
        self._clients.add(client)
        return True

    def dismiss(self, client: ClientProtocol) -> None:
        self._clients.discard(client)
        if not self._clients:
            self._everyone_left.set()

    def client_count(self) -> int:
        return len(self._clients)

    def _log_fault(self, sentence: str | None) -> None:
        if sentence:
            self.report("error", sentence)
        self.alarms.set_fault(sentence)

    def _disk_is_behind(self, *, is_behind: bool) -> None:
        self.alarms.set_busy(is_busy=is_behind)

    def _alarms_changed(self, alarms: dict[str, str], *, is_busy: bool) -> None:
        self.cluster.set_alarms(alarms)
        self._is_busy = is_busy
        self._set_alarms()

    def _others_alarms(self, by_node: dict[str, dict[str, str]]) -> None:
        """An alarm on one node holds up publishers on all: their messages may go there."""
        self._alarms_elsewhere = by_node
        self._set_alarms()

    def _set_alarms(self) -> None:
        self.tick()
        alarms = {name: text for raised in self._alarms_elsewhere.values() for name, text in raised.items()}
        self.broker.set_alarms(alarms | self.alarms.raised(), is_busy=self._is_busy)

    def report(self, level: str, text: str) -> None:
        """One line, whatever names clients have chosen."""
        log.log(LEVELS.get(level, logging.INFO), "%s", text.replace("\n", "\\n").replace("\r", "\\r"))


def _or_none(limit: int | None) -> int:
    return -1 if limit is None else limit
