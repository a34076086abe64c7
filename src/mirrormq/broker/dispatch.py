"""Which function answers which method on an open channel."""
from __future__ import annotations

from mirrormq.broker import content, ops_basic, ops_exchange, ops_queue
from mirrormq.broker.channel import Channel
from mirrormq.wire.errors import ChannelFault, CommandInvalid
from mirrormq.wire.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicRecover,
    BasicRecoverAsync,
    BasicReject,
    ChannelClose,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)


def dispatch(channel: Channel, method: Method, payload: bytes) -> None:
    group = method.id >> 16
    if group == 60:
        _basic(channel, method, payload)
    elif group == 50:
        _queue(channel, method)
    elif group == 40:
        _exchange(channel, method)
    elif group == 20:
        _channel(channel, method)
    else:
        _other(channel, method)


def _basic(channel: Channel, method: Method, payload: bytes) -> None:
    if isinstance(method, BasicAck):
        ops_basic.on_ack(channel, method)
    elif isinstance(method, BasicPublish):
        content.begin(channel, payload)
    elif isinstance(method, BasicGet):
        ops_basic.on_get(channel, method)
    elif isinstance(method, BasicNack):
        ops_basic.on_nack(channel, method)
    elif isinstance(method, BasicReject):
        ops_basic.on_reject(channel, method)
    elif isinstance(method, BasicConsume):
        ops_basic.on_consume(channel, method)
    elif isinstance(method, BasicCancel):
        ops_basic.on_cancel(channel, method)
    elif isinstance(method, BasicQos):
        ops_basic.on_qos(channel, method)
    elif isinstance(method, BasicRecover):
        ops_basic.on_recover(channel, method)
    elif isinstance(method, BasicRecoverAsync):
        ops_basic.on_recover_async(channel, method)
    elif not isinstance(method, BasicCancelOk):
        raise unimplemented()


def _queue(channel: Channel, method: Method) -> None:
    if isinstance(method, QueueDeclare):
        ops_queue.on_declare(channel, method)
    elif isinstance(method, QueueBind):
        ops_queue.on_bind(channel, method)
    elif isinstance(method, QueueUnbind):
        ops_queue.on_unbind(channel, method)
    elif isinstance(method, QueuePurge):
        ops_queue.on_purge(channel, method)
    elif isinstance(method, QueueDelete):
        ops_queue.on_delete(channel, method)
    else:
        raise unimplemented()


def _exchange(channel: Channel, method: Method) -> None:
    if isinstance(method, ExchangeDeclare):
        ops_exchange.on_declare(channel, method)
    elif isinstance(method, ExchangeDelete):
        ops_exchange.on_delete(channel, method)
    elif isinstance(method, ExchangeBind):
        ops_exchange.on_bind(channel, method)
    elif isinstance(method, ExchangeUnbind):
        ops_exchange.on_unbind(channel, method)
    else:
        raise unimplemented()


def _channel(channel: Channel, method: Method) -> None:
    if isinstance(method, ChannelClose):
        ops_basic.on_close(channel, method)
    elif isinstance(method, ChannelFlow):
        ops_basic.on_flow(channel, method)
    elif isinstance(method, ChannelOpen):
        raise ChannelFault("second 'channel.open' seen")
    else:
        raise unimplemented()


def _other(channel: Channel, method: Method) -> None:
    if isinstance(method, ConfirmSelect):
        ops_basic.on_confirm_select(channel, method)
    elif isinstance(method, TxSelect):
        ops_basic.on_tx_select(channel)
    elif isinstance(method, TxCommit):
        ops_basic.on_tx_commit(channel)
    elif isinstance(method, TxRollback):
        ops_basic.on_tx_rollback(channel)
    elif isinstance(method, AccessRequest):
        channel.send(AccessRequestOk(1))
    else:
        raise unimplemented()


def unimplemented() -> CommandInvalid:
    return CommandInvalid("unimplemented method")
