"""Finds the method that a payload holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mirrormq.wire.constants import FRAME_METHOD
from mirrormq.wire.errors import AMQPError, CommandInvalid
from mirrormq.wire.faults import unknown_frame
from mirrormq.wire.methods.access import AccessRequest, AccessRequestOk
from mirrormq.wire.methods.base import Method
from mirrormq.wire.methods.basic_consume import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
)
from mirrormq.wire.methods.basic_content import (
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
)
from mirrormq.wire.methods.basic_settle import (
    BasicAck,
    BasicNack,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
)
from mirrormq.wire.methods.channel import (
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
)
from mirrormq.wire.methods.confirm import ConfirmSelect, ConfirmSelectOk
from mirrormq.wire.methods.connection import (
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from mirrormq.wire.methods.exchange import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
)
from mirrormq.wire.methods.queue import (
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
from mirrormq.wire.methods.tx import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk
from mirrormq.wire.reader import Reader

_DECODERS: Final[dict[int, Callable[[Reader], Method]]] = {
    ConnectionStart.ID: ConnectionStart.decode,
    ConnectionStartOk.ID: ConnectionStartOk.decode,
    ConnectionSecure.ID: ConnectionSecure.decode,
    ConnectionSecureOk.ID: ConnectionSecureOk.decode,
    ConnectionTune.ID: ConnectionTune.decode,
    ConnectionTuneOk.ID: ConnectionTuneOk.decode,
    ConnectionOpen.ID: ConnectionOpen.decode,
    ConnectionOpenOk.ID: ConnectionOpenOk.decode,
    ConnectionClose.ID: ConnectionClose.decode,
    ConnectionCloseOk.ID: ConnectionCloseOk.decode,
    ConnectionBlocked.ID: ConnectionBlocked.decode,
    ConnectionUnblocked.ID: ConnectionUnblocked.decode,
    ConnectionUpdateSecret.ID: ConnectionUpdateSecret.decode,
    ConnectionUpdateSecretOk.ID: ConnectionUpdateSecretOk.decode,
    ChannelOpen.ID: ChannelOpen.decode,
    ChannelOpenOk.ID: ChannelOpenOk.decode,
    ChannelFlow.ID: ChannelFlow.decode,
    ChannelFlowOk.ID: ChannelFlowOk.decode,
    ChannelClose.ID: ChannelClose.decode,
    ChannelCloseOk.ID: ChannelCloseOk.decode,
    AccessRequest.ID: AccessRequest.decode,
    AccessRequestOk.ID: AccessRequestOk.decode,
    ExchangeDeclare.ID: ExchangeDeclare.decode,
    ExchangeDeclareOk.ID: ExchangeDeclareOk.decode,
    ExchangeDelete.ID: ExchangeDelete.decode,
    ExchangeDeleteOk.ID: ExchangeDeleteOk.decode,
    ExchangeBind.ID: ExchangeBind.decode,
    ExchangeBindOk.ID: ExchangeBindOk.decode,
    ExchangeUnbind.ID: ExchangeUnbind.decode,
    ExchangeUnbindOk.ID: ExchangeUnbindOk.decode,
    QueueDeclare.ID: QueueDeclare.decode,
    QueueDeclareOk.ID: QueueDeclareOk.decode,
    QueueBind.ID: QueueBind.decode,
    QueueBindOk.ID: QueueBindOk.decode,
    QueuePurge.ID: QueuePurge.decode,
    QueuePurgeOk.ID: QueuePurgeOk.decode,
    QueueDelete.ID: QueueDelete.decode,
    QueueDeleteOk.ID: QueueDeleteOk.decode,
    QueueUnbind.ID: QueueUnbind.decode,
    QueueUnbindOk.ID: QueueUnbindOk.decode,
    BasicQos.ID: BasicQos.decode,
    BasicQosOk.ID: BasicQosOk.decode,
    BasicConsume.ID: BasicConsume.decode,
    BasicConsumeOk.ID: BasicConsumeOk.decode,
    BasicCancel.ID: BasicCancel.decode,
    BasicCancelOk.ID: BasicCancelOk.decode,
    BasicPublish.ID: BasicPublish.decode,
    BasicReturn.ID: BasicReturn.decode,
    BasicDeliver.ID: BasicDeliver.decode,
    BasicGet.ID: BasicGet.decode,
    BasicGetOk.ID: BasicGetOk.decode,
    BasicGetEmpty.ID: BasicGetEmpty.decode,
    BasicAck.ID: BasicAck.decode,
    BasicReject.ID: BasicReject.decode,
    BasicRecoverAsync.ID: BasicRecoverAsync.decode,
    BasicRecover.ID: BasicRecover.decode,
    BasicRecoverOk.ID: BasicRecoverOk.decode,
    BasicNack.ID: BasicNack.decode,
    ConfirmSelect.ID: ConfirmSelect.decode,
    ConfirmSelectOk.ID: ConfirmSelectOk.decode,
    TxSelect.ID: TxSelect.decode,
    TxSelectOk.ID: TxSelectOk.decode,
    TxCommit.ID: TxCommit.decode,
    TxCommitOk.ID: TxCommitOk.decode,
    TxRollback.ID: TxRollback.decode,
    TxRollbackOk.ID: TxRollbackOk.decode,
}


def decode_method(payload: bytes) -> Method:
    """The method in the payload of a method frame. Its arguments must fill the payload exactly."""
    if len(payload) < 4:
        raise unknown_frame(FRAME_METHOD, payload)
    class_id = payload[0] << 8 | payload[1]
    method_id = payload[2] << 8 | payload[3]
    decoder = _DECODERS.get(class_id << 16 | method_id)
    if decoder is None:
        raise CommandInvalid("unimplemented method", class_id, method_id)
    try:
        return _decode_arguments(decoder, Reader(payload, 4))
    except AMQPError as error:
        error.class_id = class_id
        error.method_id = method_id
        raise


def _decode_arguments(decoder: Callable[[Reader], Method], reader: Reader) -> Method:
    method = decoder(reader)
    reader.finish()
    return method
