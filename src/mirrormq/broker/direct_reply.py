"""Direct reply-to: a consumer on `amq.rabbitmq.reply-to` is answered without a queue.

A publisher's `reply_to` of that name is rewritten to a name that leads back to its channel. A reply goes straight out on that
channel, as a delivery to the no-ack consumer there.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mirrormq.broker.message import DIRECT_REPLY, ContentInfo, Message, build_content
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.methods import BasicConsume, BasicConsumeOk, BasicDeliver
from mirrormq.wire.properties import replace_reply_to

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.channel import Channel

SHORT: Final = 255


def is_name(queue: str) -> bool:
    return queue == DIRECT_REPLY


def is_address(queue: str) -> bool:
    """Such names are never queues, whether a channel listens there or not."""
    return queue.startswith(DIRECT_REPLY)


def consume(channel: Channel, method: BasicConsume, tag: str) -> None:
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_key:
        raise PreconditionFailed("reply consumer already set")
    broker = channel.connection.broker
    channel.reply_consumer = tag
    channel.reply_key = _address(broker)
    broker.reply_channels[channel.reply_key] = channel
    if not method.no_wait:
        channel.send(BasicConsumeOk(tag))


def _address(broker: Broker) -> str:
    """A name that tells every node of the cluster where its channel is."""
    name = broker.new_name(DIRECT_REPLY)
    whole = f"{name}.{broker.node_name}"
    return whole if len(whole.encode()) <= SHORT else name


def node_of(key: str) -> str:
    """The node that a reply address leads to, if it is one. The token before its name has no dots."""
    return key[len(DIRECT_REPLY) + 1:].partition(".")[2] if key.startswith(DIRECT_REPLY + ".") else ""


def readdress(channel: Channel, info: ContentInfo, content: bytes) -> bytes:
    """Content whose `reply_to` leads back to this channel."""
    if info.reply_to != DIRECT_REPLY:
        return content
    if not channel.reply_key:
        raise PreconditionFailed("fast reply consumer does not exist")
    properties = replace_reply_to(info.properties, 0, channel.reply_key)
    message = Message(content, b"\x00\x00", info, 0)
    return build_content(channel.number, properties, message.body(), channel.connection.frame_max)


def deliver(channel: Channel, message: Message) -> None:
    if channel.connection.is_stalled:
        return                          # a requester that does not read gets no replies: they are kept nowhere
    tag = channel.next_tag
    channel.next_tag += 1
    channel.delivered_no_ack += 1
    channel.send(BasicDeliver(channel.reply_consumer, tag, message.exchange(), message.routing_key(), redelivered=False))
    channel.put_content(message.content)
