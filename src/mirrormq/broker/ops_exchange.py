"""What a client may ask of exchanges: declare, delete, bind and unbind to other exchanges."""
from __future__ import annotations

from mirrormq.broker import agreement, registry
from mirrormq.broker.channel import Channel
from mirrormq.broker.exchange import (
    check_deletable,
    check_equivalent,
    check_not_default,
    check_not_reserved,
    check_not_system,
    check_type,
)
from mirrormq.broker.ops_queue import check, one_line, vhost_of
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)


def on_declare(channel: Channel, method: ExchangeDeclare) -> None:
    vhost = vhost_of(channel)
    name = one_line(method.exchange)
    broker = channel.connection.broker
    before = broker.journal.written
    if method.passive:
        check_not_default(name)
        vhost.exchange(name)
    else:
        _declare(channel, vhost, method)
    agreement.answer(broker, channel, None if method.no_wait else ExchangeDeclareOk(), before, method)


def _declare(channel: Channel, vhost: VirtualHost, method: ExchangeDeclare) -> None:
    name = one_line(method.exchange)
    check_type(method.type)
    check_not_default(name)
    check(channel, "exchange", name, "configure")
    exchange = vhost.exchanges.get(name)
    if exchange is None:
        check_not_reserved("exchange", name)
        alternate = method.arguments.get("alternate-exchange")
        if isinstance(alternate, str):
            check(channel, "exchange", name, "read")
            check(channel, "exchange", alternate, "write")
        registry.create_exchange(channel.connection.broker, vhost, name, method.type, durable=method.durable,
                                 auto_delete=method.auto_delete, internal=method.internal, arguments=method.arguments)
    else:
        check_equivalent(exchange, method.type, durable=method.durable, auto_delete=method.auto_delete,
                         internal=method.internal, arguments=method.arguments)


def on_delete(channel: Channel, method: ExchangeDelete) -> None:
    broker = channel.connection.broker
    before = broker.journal.written
    vhost = vhost_of(channel)
    name = one_line(method.exchange)
    check_not_system(name, vhost.name)
    check(channel, "exchange", name, "configure")
    exchange = vhost.exchanges.get(name)
    if exchange is not None:
        check_deletable(exchange, if_unused=method.if_unused)
        registry.delete_exchange(broker, vhost, exchange)
    agreement.answer(broker, channel, None if method.no_wait else ExchangeDeleteOk(), before, method)


def on_bind(channel: Channel, method: ExchangeBind) -> None:
    broker = channel.connection.broker
    before = broker.journal.written
    vhost = vhost_of(channel)
    _check_both(channel, one_line(method.source), one_line(method.destination))
    source = vhost.exchange(one_line(method.source))
    broker.check_topic(channel.connection, source, method.routing_key, "read")
    destination = vhost.exchange(one_line(method.destination))
    registry.bind(broker, vhost, source, destination, method.routing_key, method.arguments)
    agreement.answer(broker, channel, None if method.no_wait else ExchangeBindOk(), before, method)


def on_unbind(channel: Channel, method: ExchangeUnbind) -> None:
    broker = channel.connection.broker
    before = broker.journal.written
    vhost = vhost_of(channel)
    _check_both(channel, one_line(method.source), one_line(method.destination))
    source = vhost.exchanges.get(one_line(method.source))
    destination = vhost.exchanges.get(one_line(method.destination))
    if source is not None:
        broker.check_topic(channel.connection, source, method.routing_key, "read")
    if source is not None and destination is not None:
        registry.unbind(broker, vhost, source, destination, method.routing_key, method.arguments)
    agreement.answer(broker, channel, None if method.no_wait else ExchangeUnbindOk(), before, method)


def _check_both(channel: Channel, source: str, destination: str) -> None:
    check(channel, "exchange", destination, "write")
    check_not_default(destination)
    check_not_default(source)
    check(channel, "exchange", source, "read")
