"""What a client may ask of queues: declare, bind, unbind, purge, delete."""
from __future__ import annotations

from typing import Final

from mirrormq.broker import agreement, direct_reply, registry, shutting
from mirrormq.broker.arguments import check_queue_equivalent, locked, parse_queue_arguments
from mirrormq.broker.channel import Channel
from mirrormq.broker.connection import Connection
from mirrormq.broker.exchange import check_not_default, check_not_reserved
from mirrormq.broker.forward import ops as away
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.broker.stopping import out_of_service, stop_queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.errors import NotFound, PreconditionFailed
from mirrormq.wire.methods import (
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

PURGE_METHOD: Final = 50 << 16 | 30


def vhost_of(channel: Channel) -> VirtualHost:
    vhost = channel.connection.vhost
    assert vhost is not None
    return vhost


def real_name(channel: Channel, name: str) -> str:
    """The empty name stands for the queue that this channel declared last."""
    if name:
        return one_line(name)
    if not channel.last_queue:
        raise NotFound("no previously declared queue")
    return channel.last_queue


def one_line(name: str) -> str:
    """Names lose their line ends: they come from files and shell scripts more often than from somebody's wish."""
    return name.replace("\r", "").replace("\n", "")


def find_queue(channel: Channel, name: str, permission: str) -> Queue:
    """A queue that this client may use: permitted, existing, not another's, and whole."""
    name = real_name(channel, name)
    check(channel, "queue", name, permission)
    queue = vhost_of(channel).queue(name)
    check_owner(queue, channel.connection)
    if queue.damage:
        raise out_of_service(queue)
    return queue


def check(channel: Channel, kind: str, name: str, permission: str) -> None:
    connection = channel.connection
    connection.broker.check(connection, kind, name, permission)


def check_owner(queue: Queue, connection: Connection) -> None:
    if queue.exclusive and queue.owner is not connection:
        raise locked(queue.name, queue.vhost)


def on_declare(channel: Channel, method: QueueDeclare) -> None:
    if direct_reply.is_name(method.queue):
        _answer(channel, method, method.queue, 0, 1)
        return
    if method.passive or direct_reply.is_address(method.queue):
        _declare_passively(channel, method)
        return
    broker = channel.connection.broker
    wanted = one_line(method.queue)
    name = wanted or channel.given_name or broker.new_name("amq.gen")
    channel.given_name = ""
    if wanted:
        check_not_reserved("queue", name)
    check(channel, "queue", name, "configure")
    vhost = vhost_of(channel)
    queue = vhost.queues.get(name)
    if queue is None:
        before = broker.journal.written
        _create(channel, vhost, name, method)
        if not wanted:
            channel.given_name = name
        agreement.answer(broker, channel, None, before, method, again=True)
        return
    if agreement.await_fate(broker, channel, method, queue):
        return
    if queue.is_away and queue.exclusive:
        away.check_locked(channel, method, queue)
        return
    _check_same(channel, queue, method)
    if queue.is_away:
        away.declare_existing(channel, method, queue)
        return
    queue.touch()
    _answer(channel, method, name, queue.ready(), len(queue.turns.everyone))


def _answer(channel: Channel, method: QueueDeclare, name: str, messages: int, consumers: int) -> None:
    channel.last_queue = name
    if not method.no_wait:
        channel.send(QueueDeclareOk(name, messages, consumers))


def _declare_passively(channel: Channel, method: QueueDeclare) -> None:
    name = one_line(method.queue)
    if name in channel.connection.broker.reply_channels:
        _answer(channel, method, name, 0, 1)
        return
    requester = direct_reply.node_of(name)
    if requester and channel.connection.broker.forwarding.probe(requester, channel, method):
        return
    queue = vhost_of(channel).queue(name)
    check_owner(queue, channel.connection)
    if queue.is_away:
        away.declare_existing(channel, method, queue)
        return
    queue.touch()
    _answer(channel, method, name, queue.ready(), len(queue.turns.everyone))


def _create(channel: Channel, vhost: VirtualHost, name: str, method: QueueDeclare) -> None:
    arguments = parse_queue_arguments(method.arguments, name, vhost.name)
    if arguments.dead_letter_exchange is not None:
        check(channel, "queue", name, "read")
        check(channel, "exchange", arguments.dead_letter_exchange, "write")
    if arguments.copy_from is not None:
        _check_source(channel, vhost, arguments.copy_from)
    connection = channel.connection
    broker = connection.broker
    home = "" if method.exclusive else broker.host.place(vhost.name, name, arguments.master_locator or "")
    registry.create_queue(broker, vhost, name, arguments, durable=_is_durable(method), auto_delete=method.auto_delete,
                          owner=connection if method.exclusive else None, home=home)


def _is_durable(method: QueueDeclare) -> bool:
    """An exclusive queue is never durable, whatever is asked for: it goes with its connection."""
    return method.durable and not method.exclusive


def _check_source(channel: Channel, vhost: VirtualHost, name: str) -> None:
    """Who copies a queue reads it."""
    check(channel, "queue", name, "read")
    source = vhost.queues.get(name)
    if source is not None and source.exclusive:
        raise locked(name, vhost.name)


def _check_same(channel: Channel, queue: Queue, method: QueueDeclare) -> None:
    check_owner(queue, channel.connection)
    if queue.exclusive != method.exclusive:
        raise locked(queue.name, queue.vhost)
    check_queue_equivalent(queue.name, queue.vhost, queue.arguments.table, method.arguments, current_durable=queue.durable,
                           durable=_is_durable(method), current_auto_delete=queue.auto_delete, auto_delete=method.auto_delete)


def on_bind(channel: Channel, method: QueueBind) -> None:
    name = real_name(channel, method.queue)
    key = _real_key(method.queue, method.routing_key, name)
    exchange = one_line(method.exchange)
    broker = channel.connection.broker
    before = broker.journal.written
    _check_both(channel, exchange, name)
    vhost = vhost_of(channel)
    source = vhost.exchange(exchange)
    broker.check_topic(channel.connection, source, key, "read")
    queue = vhost.queue(name)
    check_owner(queue, channel.connection)
    registry.bind(broker, vhost, source, queue, key, method.arguments)
    agreement.answer(broker, channel, None if method.no_wait else QueueBindOk(), before, method)


def on_unbind(channel: Channel, method: QueueUnbind) -> None:
    name = real_name(channel, method.queue)
    key = _real_key(method.queue, method.routing_key, name)
    exchange = one_line(method.exchange)
    broker = channel.connection.broker
    before = broker.journal.written
    _check_both(channel, exchange, name)
    vhost = vhost_of(channel)
    source = vhost.exchanges.get(exchange)
    queue = vhost.queues.get(name)
    if source is not None:
        broker.check_topic(channel.connection, source, key, "read")
    if source is not None and queue is not None and source.has_binding(queue, key, method.arguments):
        check_owner(queue, channel.connection)
        registry.unbind(broker, vhost, source, queue, key, method.arguments)
    agreement.answer(broker, channel, QueueUnbindOk(), before, method)


def _real_key(queue: str, key: str, name: str) -> str:
    """Where neither a queue nor a key is given, the name of the last declared queue is the key too."""
    return key if queue or key else name


def _check_both(channel: Channel, exchange: str, queue: str) -> None:
    check(channel, "queue", queue, "write")
    check_not_default(exchange)
    check(channel, "exchange", exchange, "read")


class Purged(Barrier):
    """purge-ok leaves when the purge is stable."""

    def __init__(self, channel: Channel, queue: Queue, count: int) -> None:
        super().__init__()
        self.channel: Channel = channel
        self.queue: Queue = queue
        self.count: int = count

    def passed(self) -> None:
        channel = self.channel
        if self.is_lost:
            channel.fail(out_of_service(self.queue), PURGE_METHOD)
        elif not channel.is_gone():
            channel.send(QueuePurgeOk(self.count))
            channel.resume()


def on_purge(channel: Channel, method: QueuePurge) -> None:
    queue = find_queue(channel, method.queue, "read")
    if queue.is_away:
        away.purge(channel, method, queue)
        return
    try:
        count = queue.purge()
    except Exception as fault:  # noqa: BLE001 - whatever is wrong with the queue, the connection is not to blame
        stop_queue(channel.connection.broker, queue, fault)
        raise out_of_service(queue) from None
    if not method.no_wait:
        channel.suspend()
        queue.wait_for_chunk(Purged(channel, queue, count))


def on_delete(channel: Channel, method: QueueDelete) -> None:
    name = real_name(channel, method.queue)
    check(channel, "queue", name, "configure")
    broker = channel.connection.broker
    before = broker.journal.written
    queue = vhost_of(channel).queues.get(name)
    count = 0
    if queue is not None:
        check_owner(queue, channel.connection)
        if queue.is_away:
            away.delete(channel, method, queue)
            return
        check_deletable(queue, if_unused=method.if_unused, if_empty=method.if_empty)
        count = broker.delete_queue(queue)
    agreement.answer(broker, channel, None if method.no_wait else QueueDeleteOk(count), before, method)


def check_deletable(queue: Queue, *, if_unused: bool, if_empty: bool) -> None:
    if if_empty and queue.ready():
        raise PreconditionFailed(f"queue '{queue.name}' in vhost '{queue.vhost}' not empty")
    if if_unused and queue.turns.everyone:
        raise PreconditionFailed(f"queue '{queue.name}' in vhost '{queue.vhost}' in use")
    if if_empty:
        shutting.shut(queue)
