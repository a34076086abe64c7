"""From a publish to the queues: routes, and every message that needs more than its route.

Messages take the careful way when something about them decides: CC and BCC, a user id, a bad expiration, a reply address,
headers that exchanges route by, a delay, or a transaction.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from mirrormq.broker import direct_reply
from mirrormq.broker.bindings import Envelope
from mirrormq.broker.channel import CONFIRM, Channel
from mirrormq.broker.confirms import ConfirmBarrier
from mirrormq.broker.connection import Connection
from mirrormq.broker.deadletter import bury, copies_of, deaths_of, makes_cycle, with_properties
from mirrormq.broker.exchange import Exchange
from mirrormq.broker.expiry import LETTER_COST, note_target
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.forward.letters import LetterBarrier
from mirrormq.broker.message import DIRECT_REPLY, ContentInfo, Message, address_of, blind_copies
from mirrormq.broker.overflow import append_much
from mirrormq.broker.queue import Queue
from mirrormq.broker.route import Route
from mirrormq.broker.routing import depends_on_headers, route
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.errors import AccessRefused, NotImplementedFault, PreconditionFailed
from mirrormq.wire.methods import BasicPublish, BasicReturn, Method
from mirrormq.wire.properties import decode_properties, replace_headers
from mirrormq.wire.table import join_fields, split_fields, type_name

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker

ROOM_FOR_COPIES: Final = 60_000
LETTER_DEPTH: Final = 16


def route_publish(connection: Connection, method: Method) -> Route:
    """All checks that hold for every publish with the same exchange, key and flags, and where it goes."""
    assert isinstance(method, BasicPublish)
    if method.immediate:
        raise NotImplementedFault("immediate=true")
    broker = connection.broker
    vhost = connection.vhost
    assert vhost is not None
    broker.check(connection, "exchange", method.exchange, "write")
    exchange = vhost.exchange(method.exchange)
    if exchange.internal:
        raise AccessRefused(f"cannot publish to internal exchange '{exchange.name}' in vhost '{vhost.name}'")
    broker.check_topic(connection, exchange, method.routing_key, "write")
    special = vhost.tracing or depends_on_headers(exchange, vhost.exchanges.get) or method.routing_key.startswith(DIRECT_REPLY)
    queues = [] if special else find_queues(vhost, exchange, Envelope([method.routing_key]))
    return Route(exchange, method.routing_key, address_of(method.exchange, method.routing_key), queues,
                 mandatory=method.mandatory, special=special)


def find_queues(vhost: VirtualHost, exchange: Exchange, envelope: Envelope) -> list[Queue]:
    found = route(exchange, envelope, vhost.exchanges.get, vhost.queues.get)
    queues = [queue for queue in found if isinstance(queue, Queue)]
    return vhost.copies.follow(queues, envelope.routing_keys, vhost.queues) if vhost.copies.is_used() else queues


def publish_carefully(channel: Channel, way: Route, info: ContentInfo, content: bytes, size: i64) -> None:
    connection = channel.connection
    _check_user(connection, info)
    if info.ttl_fault:
        raise PreconditionFailed(f"invalid expiration '{info.expiration}': {info.ttl_fault}")
    if info.mode_fault:
        raise PreconditionFailed(f"invalid message: {info.mode_fault}")
    if info.is_direct_reply():
        content = direct_reply.readdress(channel, info, content)
    message = Message(content, way.address, _info_of(connection.broker, content), size)
    keys = [way.routing_key]
    if info.copies:
        keys += _copies(info)
        message = _without_blind_copies(connection.broker, message)
    barrier = channel.next_barrier() if channel.mode == CONFIRM else None
    _send_on(channel, way, message, keys, barrier)


def _send_on(channel: Channel, way: Route, message: Message, keys: list[str], barrier: ConfirmBarrier | None) -> None:
    broker = channel.connection.broker
    vhost = channel.connection.vhost
    assert vhost is not None
    if way.exchange.name == "":
        _reply(broker, message, keys)
    queues = find_queues(vhost, way.exchange, envelope_of(message, keys))
    if broker.tracer is not None and vhost.tracing:
        broker.tracer.published(channel, vhost, message, keys, queues)
    way.exchange.published_in += 1
    way.exchange.published_out += len(queues)
    if channel.transaction is not None:
        channel.transaction.add_publish(message, way.exchange, keys, queues, mandatory=way.mandatory)
        return
    if way.exchange.is_delayed and broker.delays.hold(vhost, way.exchange, message, barrier):
        return
    channel.enqueue(Route(way.exchange, way.routing_key, way.address, queues, mandatory=way.mandatory, special=False),
                    message, barrier)


def envelope_of(message: Message, keys: list[str]) -> Envelope:
    properties = decode_properties(message.info.properties, 0)
    when = properties.timestamp
    return Envelope(keys, properties.headers, message_id=properties.message_id, correlation_id=properties.correlation_id,
                    timestamp=None if when is None else int(when))


def _reply(broker: Broker, message: Message, keys: list[str]) -> None:
    """Reply addresses among the keys are answered at once, in a transaction too. They are no queues: a mandatory message that
    goes to nothing else comes back."""
    for key in dict.fromkeys(keys):
        if key.startswith(DIRECT_REPLY):
            target = broker.reply_channels.get(key)
            if target is not None:
                direct_reply.deliver(target, message)
            else:
                broker.forwarding.reply(direct_reply.node_of(key), key, message)


def _info_of(broker: Broker, content: bytes) -> ContentInfo:
    return broker.infos.get(content[19:7 + int.from_bytes(content[3:7], "big")])


def _check_user(connection: Connection, info: ContentInfo) -> None:
    user = connection.user
    assert user is not None
    if info.user_id is not None and info.user_id != user.name and "impersonator" not in user.tags:
        raise PreconditionFailed(f"user_id property set to '{info.user_id}' but authenticated user was '{user.name}'")


def _copies(info: ContentInfo) -> list[str]:
    keys: list[str] = []
    for name in ("CC", "BCC"):
        found = copies_of(info, name)
        if found is None:
            kind = type_name(info.headers()[name])
            raise PreconditionFailed(f'invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}')
        keys += found
    return keys


def _without_blind_copies(broker: Broker, message: Message) -> Message:
    info = message.info
    fields = split_fields(info.properties, info.headers_at)
    if all(name != "BCC" for name, _ in fields):
        return message
    properties = replace_headers(info.properties, 0, join_fields([field for field in fields if field[0] != "BCC"]))
    address = address_of(message.exchange(), message.routing_key(), *_that_fit(copies_of(info, "BCC") or []))
    return Message(with_properties(message, properties), address, broker.infos.get(properties), message.size)


def _that_fit(keys: list[str]) -> list[str]:
    """What an address can hold of them: short strings, and less than 64 KiB together."""
    kept: list[str] = []
    room = ROOM_FOR_COPIES
    for key in keys:
        size = len(key.encode("utf-8", "surrogateescape"))
        if size <= 255 and size < room:
            kept.append(key)
            room -= size + 1
    return kept


def return_message(channel: Channel, message: Message, code: int, text: str) -> None:
    """Give an unroutable mandatory message back to its publisher."""
    channel.returned += 1
    channel.send(BasicReturn(code, text, message.exchange(), message.routing_key()))
    channel.put_content(message.content)


def publish_delayed(broker: Broker, vhost: VirtualHost, exchange: Exchange, message: Message, letter: LetterBarrier) -> None:
    """Route a message whose delay is over."""
    copies = (copies_of(message.info, "CC") or []) if message.info.copies else []
    keys = [message.routing_key(), *copies]
    for queue in find_queues(vhost, exchange, envelope_of(message, keys)):
        broker.letter_bytes += len(message.content) + LETTER_COST
        if isinstance(queue, AwayQueue):
            note_target(letter.queue, queue)
        queue.publish(message.copy(), letter if queue.is_away else None)


def dead_letter(broker: Broker, queue: Queue, message: Message, reason: str, reason_code: i64) -> bool:
    """Publish a copy to the queue's dead-letter exchange, unless there is none or it would go in a circle. True if the end of
    the message has to wait until another node has taken the copy."""
    vhost = broker.vhosts.get(queue.vhost)
    name = queue.settings.dead_letter_exchange
    exchange = None if vhost is None or name is None else vhost.exchanges.get(name)
    if vhost is None or exchange is None:
        return False
    broker.count(f"letters_{reason}", 1)
    instead = queue.settings.dead_letter_routing_key
    copies = (copies_of(message.info, "CC") or []) if message.info.copies else []
    published = [message.routing_key(), *copies]
    keys = [*published, *blind_copies(message.address)] if instead is None else [instead]
    properties = bury(message, queue.name, reason, broker.wall(), published, drop_copies=instead is not None)
    info = broker.infos.get(properties)
    letter = Message(with_properties(message, properties), address_of(exchange.name, keys[0]), info, message.size)
    deaths = deaths_of(info) or []
    if exchange.name == "":
        _reply(broker, letter, keys)
    barrier = LetterBarrier(queue, message, reason_code)
    for target in find_queues(vhost, exchange, envelope_of(letter, keys)):
        if not makes_cycle(deaths, target.name):
            broker.letter_bytes += len(letter.content) + LETTER_COST
            if isinstance(target, AwayQueue):
                target.post(letter.copy(), barrier)
                note_target(queue, target)
            else:
                _post(broker, target, letter.copy())
    return barrier.posted()


def _post(broker: Broker, target: Queue, letter: Message) -> None:
    """A full queue hands on what it cannot hold. In a long chain of such queues the rest follows in the turn, not deeper
    and deeper on the stack; so does what comes of a message that has not reached all of its queues yet, and what is behind."""
    if broker.letters_wait or broker.letters or broker.letter_depth >= LETTER_DEPTH:
        broker.letters.append((target, letter))
        return
    broker.letter_depth += 1
    try:
        target.publish(letter, None)
        append_much(target)
    finally:
        broker.letter_depth -= 1
