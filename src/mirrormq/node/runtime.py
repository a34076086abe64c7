"""The running node: event loop, broker, log, records, listeners and alarms, and the order in which they start and stop.

One thread owns the broker. Sockets call in through `ClientProtocol`; log and records report back when something is stable.
All gathered work is done in one turn of the broker for each turn of the event loop.
"""
from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from mirrormq.broker import agreement, rules
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection import RUNNING, Connection
from mirrormq.broker.journal import Proposal
from mirrormq.mirror.deadlines import STOOD_STILL
from mirrormq.node import deadlines, mirror_keys
from mirrormq.node.beginning import configure, create_defaults, is_blank, offer_events
from mirrormq.node.branches import Branches
from mirrormq.node.clock import FILE, Clock
from mirrormq.node.cluster import Cluster
from mirrormq.node.config import NodeConfig
from mirrormq.node.config_format import Listener
from mirrormq.node.feed import LakeMirrors, LocalLogs, LogSource
from mirrormq.node.heartbeats import Heartbeats
from mirrormq.node.listener import ClientProtocol, tune_listener, why_not
from mirrormq.node.mirroring import Mirroring
from mirrormq.node.node_host import NodeHost
from mirrormq.node.node_log import NodeLog
from mirrormq.node.partition import Partition
from mirrormq.node.patience import Patience
from mirrormq.node.placing import Placing
from mirrormq.node.pressure import Pressure
from mirrormq.node.proxied_tls import HeaderProtocol
from mirrormq.node.quarantine_room import QuarantineRoom
from mirrormq.node.ring_orders import RingOrders
from mirrormq.node.surroundings import Surroundings
from mirrormq.node.tls import TlsError, server_context
from mirrormq.node.undo import Undo

log = logging.getLogger("mirrormq")
TRIM_EVERY = 5_000          # milliseconds between two looks for segments that can go
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class StartError(Exception):
    """The node cannot start; the sentence says why and what to do."""


class Runtime:
    def __init__(self, config: NodeConfig, surroundings: Surroundings | None = None) -> None:
        self.config = config
        self.surroundings = surroundings or Surroundings()
        self.is_scheduled = False
        self.is_stopping = False
        self.is_drained = False
        self.partition = Partition(self)
        self.clock = Clock(config.data_dir / FILE, self.report, self.surroundings.wall, self.surroundings.steady)
        self.handshake_timeout = None if config.handshake_timeout_ms is None else config.handshake_timeout_ms / 1000
        self.login_from = (config.ssl_cert_login_from, config.ssl_cert_login_san_type, config.ssl_cert_login_san_index)
        self._loop = asyncio.get_running_loop()
        self.started_at = self._loop.time()
        self._clients: set[ClientProtocol] = set()
        self._resting: list[ClientProtocol] = []
        self._closings: dict[Connection, asyncio.TimerHandle] = {}
        self._everyone_left = asyncio.Event()
        self._patience = Patience()
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._beat: asyncio.TimerHandle | None = None
        self._looked_for_overdue = 0
        self._trimmed_at = 0
        self._looked_at = self.clock.now()
        self._is_busy = False
        self._minds_partitions = False
        self._saving_clock = asyncio.Lock()
        self._alarms_elsewhere: dict[str, dict[str, str]] = {}
        self._told_alarms: set[str] = set()
        self.log = NodeLog(config.data_dir / "log", self._durable, self._log_fault, self._disk_is_behind, self.surroundings)
        self.broker = Broker(NodeHost(self), self.log, config.node_name, int(self.clock.now()))
        self._heartbeats = Heartbeats(self.broker, self.report)
        self._heartbeats.beat(self._loop.time(), 0.0)
        self.log.attach(self.broker)
        self.logs: LogSource = LocalLogs(self.log)
        self.lake_mirrors = LakeMirrors(self.broker, self.log.store, self.logs)
        self.cluster = Cluster(config, self.broker, self.clock, self.tick, self.report, self.surroundings)
        self.mirroring = Mirroring(self)
        self.orders = RingOrders(self)
        self.quarantine = QuarantineRoom(self)
        self.undo = Undo(self)
        self.branches = Branches(self)
        self.log.adopt = self.branches.adopt
        self.cluster.rings = self.mirroring
        self.cluster.on_time_moved = self._time_moved
        self.log.serve(self.mirroring.rings)
        self.placing = Placing(self.broker, self.cluster, config.queue_master_locator)
        self.alarms = Pressure(config, self._alarms_changed, self.report)
        self.addresses: list[tuple[str, str, int]] = []

    # --- starting and stopping ----------------------------------------------------------------------------------

    async def start(self) -> None:
        self.config.data_dir.mkdir(parents=True, exist_ok=True)
        configure(self.broker, self.config)
        await self.cluster.start()
        self.undo.load()
        notes, mirrored = self.log.recover(self._loop)
        self.undo.start()
        for note in notes:
            self.report("warning", note)
        self.mirroring.start(mirrored)
        self.cluster.spawn(self.log.begin(), "beginning the log")
        self.lake_mirrors.hold()
        self.cluster.on_alarms = self._others_alarms
        self.cluster.replica.on_settled = self.settled
        self.cluster.on_members = self.mirroring.wishing.look_again
        await self.cluster.run(self._about())
        self.mirroring.run()
        self.cluster.spawn(self.branches.watch(), "minding branches", is_vital=True)
        if self.config.cluster_rebalance == "timer":
            self.cluster.spawn(mirror_keys.rebalance_by_timer(self), "spreading leads")
        self.schedule()
        needs_defaults = is_blank(self.broker) and self.config.load_definitions is None
        await self.cluster.until_heard(partial(self._agree_on_beginning, needs_defaults=needs_defaults))
        self.broker.records.leftovers.clear()
        self.broker.agreed_events.remember()
        await self.offer_events()
        self.alarms.start(self._loop)
        self._beat_later()

    async def _agree_on_beginning(self, *, needs_defaults: bool) -> None:
        """What must be there, and gone, before clients come. What an earlier try has brought about is not proposed again."""
        if self.cluster.membership.is_first:
            self.broker.records.end_transient(self.cluster.membership.entered_at)
        if needs_defaults:
            create_defaults(self.broker, self.config)
        if rules.CLUSTER_NAME not in self.broker.global_parameters:
            rules.name_cluster(self.broker, self.broker.cluster_name)
        await self.agreed(0)

    async def offer_events(self) -> None:
        """As soon as there is a virtual host for them."""
        await self.cluster.until_heard(self._agree_on_events)

    async def _agree_on_events(self) -> None:
        if offer_events(self.broker, self.config):
            await self.agreed(0)

    def _about(self) -> dict[str, object]:
        listeners = self.config.tcp_listeners
        return {"version": self.broker.version, "amqp_port": listeners[0].port if listeners else None,
                "http_port": self.config.management_port}

    async def listen(self) -> None:
        """Let clients in, at all addresses or none. What they are to find must be there by now."""
        self.addresses = [address for address in self.addresses if not address[0].startswith("amqp")]
        try:
            for listener in self.config.tcp_listeners:
                await self._listen_at(listener, None)
            if self.config.ssl_listeners:
                context = server_context(self.config.tls, report=partial(self.report, "error"))
                for listener in self.config.ssl_listeners:
                    await self._listen_at(listener, context)
        except BaseException:
            self.close_listeners()
            raise
        if not self._minds_partitions:      # before, a pause that ends would let clients in on a node that has not started
            self._minds_partitions = True
            self.cluster.spawn(self.partition.watch(), "minding partitions", is_vital=True)

    async def listen_again(self) -> str:
        """After a pause. What is in the way of it, or nothing."""
        try:
            await self.listen()
        except (StartError, TlsError) as fault:
            return str(fault)
        return ""

    def close_listeners(self) -> None:
        while self._servers:
            self._servers.pop().close()

    async def _listen_at(self, listener: Listener, context: ssl.SSLContext | None) -> None:
        behind_header = context is not None and self.config.proxy_protocol
        timeout = self.config.ssl_handshake_timeout_ms / 1000 if context is not None and not behind_header else None
        try:
            server = await self._loop.create_server(
                self._protocol_maker(context), listener.host or None, listener.port, reuse_address=True,
                backlog=max(self.config.tcp.backlog, 1024), ssl=None if behind_header else context, ssl_handshake_timeout=timeout)
        except OSError as fault:
            raise StartError(f"cannot listen at {listener.host or '*'}:{listener.port} {why_not(fault, '--port')}") from fault
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
        await self.mirroring.hand_over()
        self.is_stopping = True
        await self.turn_out("broker forced connection closure with reason 'shutdown'")
        await self.abandon()

    async def turn_out(self, reason: str) -> None:
        """Close the listeners, then all clients, with a word to those who hear it."""
        self.close_listeners()
        self.tick()
        for connection in list(self.broker.connections):
            if connection.state == RUNNING:
                connection.close_with(320, f"CONNECTION_FORCED - {reason}", 0, 0)
        self._turn()
        await self._until_gone(deadlines.STOP_CLIENTS)
        for client in list(self._clients):
            client.abort()
        self.tick()
        self._turn()

    async def abandon(self) -> None:
        """Let go of everything, also after a start that went only half the way."""
        self.is_stopping = True
        self.close_listeners()
        for client in list(self._clients):
            client.abort()
        self.cluster.clocks.beat()      # the wall clock may have been set right before
        await self._save_clock()
        for timer in (self._beat, self._timer, *self._closings.values()):
            if timer is not None:
                timer.cancel()
        self.alarms.stop()
        await self.cluster.leave()
        await self.cluster.stop()
        await self.mirroring.stop()
        await self.undo.close()
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
        self.broker.now = int(self.clock.now())
        self._look_at_clock()

    def _look_at_clock(self) -> None:
        """Before anything is handled that came while the process stood still, and before anything is delivered."""
        now = self.clock.now()          # which goes on while the machine sleeps
        if now > self._looked_at + STOOD_STILL * 1000:
            self.mirroring.rings.stood_still()
        self._looked_at = now

    def schedule(self) -> None:
        if not self.is_scheduled:
            self.is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.is_scheduled = False
        self._look_at_clock()
        broker = self.broker
        more = broker.turn()
        if self._resting:
            resting, self._resting = self._resting, []
            for client in resting:
                client.go_on_reading()
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
        self._patience.settled(proposals, self.broker.journal.settled)

    async def agreed(self, since: int) -> bool:
        """Wait until the cluster has decided on everything that was proposed after proposal number `since`. False if part of it
        was based on what had changed meanwhile. StoreUnheard if the store could not be asked."""
        self._turn()
        journal = self.broker.journal
        if journal.settled >= journal.written or journal.written == since:
            return True
        return await self._patience.wait(since + 1, journal.written)

    def wake_at(self, when: int) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        self._timer_at = when
        self._timer = self._loop.call_later(max(0.0, (when - self.clock.now()) / 1000) + 0.001, self._fire)

    def _set_timer_anew(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._fire()

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
        connection.end("the client did not answer our close", lingers=False)
        self.schedule()

    # --- heartbeats -------------------------------------------------------------------------------------------

    def _beat_later(self) -> None:
        self._beat = self._loop.call_later(0.5, self._beat_now)

    def _beat_now(self) -> None:
        """Send heartbeats that are due, end connections whose peer has fallen silent; and whatever else is done from time to
        time."""
        self.tick()
        now = int(self.broker.now)
        late = 0.0 if self._beat is None else (self._loop.time() - self._beat.when()) * 1000
        if self._heartbeats.beat(self._loop.time(), late):
            self._set_timer_anew()
        self._look_at_the_clock()
        if abs(now - self._looked_for_overdue) > self.config.channel_tick_interval_ms:
            self._looked_for_overdue = now
            timeout = self.config.consumer_timeout_ms
            self.broker.check_overdue(-1 if timeout is None else timeout)
        agreement.look_after_stranded(self.broker)
        self.broker.forwarding.tick()
        self.mirroring.rings.tidy()
        if abs(now - self._trimmed_at) > TRIM_EVERY:
            self._trimmed_at = now
            self.lake_mirrors.hold()
            self.log.trim()
            self.mirroring.rings.trim()
            self.undo.tidy()
        if self.broker.dirty or self.broker.active or self.log.has_news:
            self.schedule()
        self._beat_later()

    def _look_at_the_clock(self) -> None:
        self.broker.wall_ahead = int(self.cluster.clocks.beat())
        if self.clock.is_to_save() and not self._saving_clock.locked():
            self.cluster.spawn(self._save_clock(), "writing down the time")

    async def _save_clock(self) -> None:
        async with self._saving_clock:
            try:
                if self.clock.is_to_save():
                    await asyncio.to_thread(self.clock.save)
            except OSError as fault:        # tried again at the next beat
                log.debug("the distance to the wall clock could not be written down: %s", fault)

    def _time_moved(self) -> None:
        """Of the whole node, to that of the others: what waits here goes on waiting as long as it had to."""
        self.tick()
        if self._heartbeats.beat(self._loop.time(), 0.0):
            self._set_timer_anew()

    # --- clients, alarms, words ---------------------------------------------------------------------------------

    def admit(self, client: ClientProtocol) -> bool:
        limit = self.config.connection_max
        if self.is_stopping or (limit is not None and len(self._clients) >= limit):
            if not self.is_stopping:
                self.report("warning", f"refused a connection: the limit of {limit} connections is reached")
            return False
        self._clients.add(client)
        return True

    def rest(self, client: ClientProtocol) -> None:
        """It is not read until the next turn is over."""
        self._resting.append(client)

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
        self._tell_alarms(set(alarms))
        self._set_alarms()

    def _tell_alarms(self, names: set[str]) -> None:
        events = self.broker.events
        if events.is_heard():
            changes = [("alarm.set", name) for name in names - self._told_alarms]
            changes += [("alarm.cleared", name) for name in self._told_alarms - names]
            for event, name in changes:
                events.tell(event, {"name": name, "node": self.broker.node_name})
        self._told_alarms = names

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
