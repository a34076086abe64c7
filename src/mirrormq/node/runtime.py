"""The running node: event loop, broker, log, records, listeners and alarms, and the order in which they start and stop.

One thread owns the broker. Sockets call in through `ClientProtocol`; log and records report back when something is stable.
All gathered work is done in one turn of the broker for each turn of the event loop.
"""
from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import ssl
import time
from base64 import urlsafe_b64encode
from contextlib import suppress

from mirrormq.broker import registry
from mirrormq.broker.auth import Permission, User
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.host import Host
from mirrormq.broker.passwords import hash_password
from mirrormq.broker.restore import restore_records
from mirrormq.node import deadlines
from mirrormq.node.config import NodeConfig, TcpOptions
from mirrormq.node.config_format import Listener
from mirrormq.node.listener import ClientProtocol
from mirrormq.node.metastore import MetaStore
from mirrormq.node.node_log import NodeLog
from mirrormq.node.pressure import Pressure
from mirrormq.node.tls import server_context

log = logging.getLogger("mirrormq")
OVERDUE_EVERY = 30_000      # milliseconds between two looks for deliveries that were never acknowledged
TRIM_EVERY = 5_000          # milliseconds between two looks for segments that can go
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class StartError(Exception):
    """The node cannot start; the sentence says why and what to do."""


class NodeHost(Host):
    """The broker's view of the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def schedule(self) -> None:
        self._runtime.schedule()

    def wake_at(self, when: int) -> None:
        self._runtime.wake_at(when)

    def token(self) -> str:
        return urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()

    def report(self, level: str, text: str) -> None:
        self._runtime.report(level, text)

    def fault(self, error: BaseException) -> None:
        log.error("a fault in the broker; please report it", exc_info=error)

    def watch_closing(self, connection: Connection) -> None:
        self._runtime.watch_closing(connection)


class Runtime:
    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.is_scheduled = False
        self.is_stopping = False
        self.started_at = time.time()
        self.handshake_timeout = None if config.handshake_timeout_ms is None else config.handshake_timeout_ms / 1000
        self.login_from = (config.ssl_cert_login_from, config.ssl_cert_login_san_type, config.ssl_cert_login_san_index)
        self._loop = asyncio.get_running_loop()
        self._clients: set[ClientProtocol] = set()
        self._closings: dict[Connection, asyncio.TimerHandle] = {}
        self._everyone_left = asyncio.Event()
        self._record_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._beat: asyncio.TimerHandle | None = None
        self._looked_for_overdue = 0
        self._trimmed_at = 0
        self.records = MetaStore(config.data_dir / "records.sqlite")
        self.log = NodeLog(config.data_dir / "log", self._durable, self._log_fault, self._disk_is_behind)
        self.broker = Broker(NodeHost(self), self.log, config.node_name, int(time.time() * 1000))
        self.log.attach(self.broker)
        self.alarms = Pressure(config, self._alarms_changed, self.report)
        self.addresses: list[tuple[str, str, int]] = []

    # --- starting and stopping ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        self._configure_broker()
        records = self.records.open()
        restore_records(self.broker, records)
        for note in self.log.recover(self._loop):
            self.report("warning", note)
        if not self.broker.vhosts:
            self._create_defaults()
        self.schedule()
        self.alarms.start(self._loop)
        self._beat_later()

    def _configure_broker(self) -> None:
        config, broker = self.config, self.broker
        limits = broker.limits
        limits.channel_max = config.channel_max
        limits.frame_max = config.frame_max
        limits.first_frame_max = config.initial_frame_max
        limits.heartbeat = config.heartbeat
        limits.max_message_size = config.max_message_size
        broker.mechanisms = list(config.auth_mechanisms)
        broker.authority.loopback_users = config.loopback_users
        broker.cluster_name = config.cluster_name or config.node_name

    def _create_defaults(self) -> None:
        config, broker = self.config, self.broker
        registry.put_vhost(broker, config.default_vhost, description="Default virtual host")
        secret = hash_password(config.default_pass, secrets.token_bytes(4))
        registry.put_user(broker, User(config.default_user, secret, tags=config.default_user_tags))
        permission = Permission(config.default_configure, config.default_write, config.default_read)
        registry.set_permission(broker, config.default_user, config.default_vhost, permission)

    async def listen(self) -> None:
        """Let clients in. What they are to find must be there by now."""
        for listener in self.config.tcp_listeners:
            await self._listen_at(listener, None)
        if self.config.ssl_listeners:
            context = server_context(self.config.tls, "ssl_options")
            for listener in self.config.ssl_listeners:
                await self._listen_at(listener, context)

    async def _listen_at(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        expects_proxy = self.config.proxy_protocol
        timeout = self.config.ssl_handshake_timeout_ms / 1000 if context is not None else None
        try:
            server = await self._loop.create_server(
                lambda: ClientProtocol(self, expects_proxy=expects_proxy), listener.host or None, listener.port,
                backlog=max(self.config.tcp.backlog, 1024), ssl=context, ssl_handshake_timeout=timeout, reuse_address=True)
        except OSError as fault:
            raise StartError(f"cannot listen at {listener.host or '*'}:{listener.port} ({fault.strerror or fault}): "
                             "choose another port with --port, or stop what uses it") from fault
        self._servers.append(server)
        for each in server.sockets:
            tune(each.fileno(), self.config.tcp)
            where = each.getsockname()
            self.addresses.append(("amqp/ssl" if context else "amqp", where[0], where[1]))

    async def stop(self) -> None:
        """Close clients politely, make everything stable, then go."""
        self.is_stopping = True
        for server in self._servers:
            server.close()
        self.tick()
        for connection in list(self.broker.connections):
            if connection.state == RUNNING:
                connection.close_with(320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0)
        self._turn()
        await self._until_gone(deadlines.STOP / 10)
        for client in list(self._clients):
            client.abort()
        self.tick()
        self._turn()
        if self._beat is not None:
            self._beat.cancel()
        self.alarms.stop()
        await self.records.close()
        await self.log.close()

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
        if broker.journal.changes:
            self.records.commit_later(broker.journal.take(), self._records_stable, self._record_fault)
        if more:
            self.schedule()

    def _durable(self, position: int) -> None:
        self.tick()
        self.broker.reach(position)
        if self.broker.active:
            self.schedule()

    def _records_stable(self, count: int) -> None:
        self.tick()
        self.broker.journal_stable(count)
        ready = [written for target, written in self._record_waiters if target <= count and not written.done()]
        self._record_waiters = [waiter for waiter in self._record_waiters if waiter[0] > count]
        for written in ready:
            written.set_result(None)

    async def records_written(self) -> None:
        """Wait until everything that was changed so far is stable."""
        self._turn()
        target = self.broker.journal.written
        if self.broker.journal.stable < target:
            written = self._loop.create_future()
            self._record_waiters.append((target, written))
            await written

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
                if float(now - connection.last_received) > deadlines.heartbeat_gone(beat) * 1000 and not connection.is_blocked:
                    self.report("error", f"{connection.name}: missed heartbeats from client, timeout: {beat}s")
                    connection.end("missed heartbeats from client")
        timeout = self.config.consumer_timeout_ms
        if timeout is not None and now - self._looked_for_overdue > OVERDUE_EVERY:
            self._looked_for_overdue = now
            self.broker.check_overdue(timeout)
        if now - self._trimmed_at > TRIM_EVERY:
            self._trimmed_at = now
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

    def _record_fault(self, sentence: str | None) -> None:
        if sentence:
            self.report("error", sentence)

    def _alarms_changed(self, alarms: dict[str, str], *, is_busy: bool) -> None:
        self.tick()
        self.broker.set_alarms(alarms, is_busy=is_busy)

    def report(self, level: str, text: str) -> None:
        """One line, whatever names clients have chosen."""
        log.log(LEVELS.get(level, logging.INFO), "%s", text.replace("\n", "\\n").replace("\r", "\\r"))


def tune(number: int, options: TcpOptions) -> None:
    """Options set on a listening socket, given by its file number, hold for every connection that it accepts."""
    with socket.socket(fileno=os.dup(number)) as twin:
        if options.keepalive:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if options.sndbuf is not None:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.sndbuf)
        if options.recbuf is not None:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.recbuf)
