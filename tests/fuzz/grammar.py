"""What a client may say: every method of AMQP 0-9-1, with values that matter, in turns that make sense together.

A phrase is a list of frames for one channel, each as (type, payload); `NEW_CHANNEL` among them asks for a fresh
channel, since nobody knows whether the last one is still open. Phrases are made once, from a fixed seed, and drawn from
afterwards, so making a session costs little more than joining bytes. A few names are used over and over, so that
sessions meet in the same queues and exchanges.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mirrormq.wire.methods import (
    AccessRequest,
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
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
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
from mirrormq.wire.properties import Properties, encode_properties
from mirrormq.wire.table import Table

from .phrase import NEW_CHANNEL, Phrase, any_exchange, any_queue, any_table, flag, said
from .publishing import content, publish, publish_many, publish_to
from .vocabulary import (
    EXCHANGES,
    PATTERNS,
    QUEUE_ARGUMENTS,
    QUEUES,
    REPLY_TO,
    SENSIBLE_ARGUMENTS,
    TAGS,
    TEXTS,
    TYPES,
    VALUES,
)

VARIANTS = 96


# Declaring


def _queue_arguments(rng: Random) -> Table:
    if rng.random() < 0.8:
        return dict(rng.choice(SENSIBLE_ARGUMENTS))
    chosen = rng.sample(QUEUE_ARGUMENTS, rng.randint(1, 2))
    return {name: rng.choice(values) for name, values in chosen}


def declare_queue(rng: Random) -> Phrase:
    flags = {name: flag(rng) for name in ("passive", "exclusive", "auto_delete", "no_wait")}
    return said(QueueDeclare(any_queue(rng), durable=flag(rng, 0.6), arguments=_queue_arguments(rng), **flags))


def declare_exchange(rng: Random) -> Phrase:
    name = any_exchange(rng)
    kind = TYPES.get(name, "direct") if flag(rng, 0.9) else rng.choice(("bogus", "", "x-delayed-message", "topic"))
    arguments: Table = {"x-delayed-type": rng.choice(("direct", "topic", "headers", "fanout"))} if "delayed" in kind else {}
    if flag(rng):
        arguments["alternate-exchange"] = rng.choice(TEXTS)
    if kind == "x-consistent-hash":
        arguments.update(rng.choice(({}, {"hash-header": "hash"}, {"hash-property": "message_id"}, {"hash-property": "no"})))
    flags = {name: flag(rng, 0.1) for name in ("passive", "auto_delete", "internal", "no_wait")}
    return said(ExchangeDeclare(name, kind, durable=flag(rng, 0.5), arguments=arguments, **flags))


def _binding_arguments(rng: Random) -> Table:
    if rng.random() < 0.6:
        return {}
    return {"x-match": rng.choice(("all", "any", "all-with-x", "any-with-x", "no", 1)), **any_table(rng)}


def bind(rng: Random) -> Phrase:
    key = rng.choice(PATTERNS)
    if flag(rng, 0.7):
        return said(QueueBind(any_queue(rng), any_exchange(rng), key, no_wait=flag(rng), arguments=_binding_arguments(rng)))
    return said(ExchangeBind(any_exchange(rng), any_exchange(rng), key, no_wait=flag(rng), arguments=_binding_arguments(rng)))


def unbind(rng: Random) -> Phrase:
    key = rng.choice(PATTERNS)
    if flag(rng, 0.7):
        return said(QueueUnbind(any_queue(rng), any_exchange(rng), key, arguments=_binding_arguments(rng)))
    return said(ExchangeUnbind(any_exchange(rng), any_exchange(rng), key, arguments=_binding_arguments(rng)))


def remove(rng: Random) -> Phrase:
    flags = {name: flag(rng) for name in ("if_unused", "no_wait")}
    if flag(rng, 0.7):
        return said(QueueDelete(any_queue(rng), if_empty=flag(rng), **flags))
    return said(ExchangeDelete(any_exchange(rng), **flags))


def purge(rng: Random) -> Phrase:
    return said(QueuePurge(any_queue(rng), no_wait=flag(rng)))


# Consuming


def consume(rng: Random) -> Phrase:
    arguments: Table = {}
    if flag(rng):
        arguments = {rng.choice(("x-priority", "x-cancel-on-ha-failover", "x-stream-offset", "a")): rng.choice(VALUES)}
    flags = {name: flag(rng) for name in ("no_local", "exclusive", "no_wait")}
    return said(BasicConsume(any_queue(rng), rng.choice(TAGS), no_ack=flag(rng, 0.4), arguments=arguments, **flags))


def reply_consumer(rng: Random) -> Phrase:
    return said(BasicConsume(REPLY_TO, rng.choice(TAGS), no_ack=flag(rng, 0.9), no_wait=flag(rng)))


def cancel(rng: Random) -> Phrase:
    return said(BasicCancel(rng.choice(TAGS), no_wait=flag(rng)))


def get(rng: Random) -> Phrase:
    return said(*[BasicGet(any_queue(rng), no_ack=flag(rng, 0.4)) for _ in range(rng.randint(1, 3))])


def settle(rng: Random) -> Phrase:
    tag = rng.choice((1, 1, 1, 2, 2, 3, 4, 5, 0, 2**64 - 1))
    multiple, requeue = flag(rng, 0.5), flag(rng, 0.6)
    if flag(rng, 0.6):  # what there is, if anything; a certain tag is mostly unknown
        return said(rng.choice((BasicNack(0, multiple=True, requeue=requeue), BasicAck(0, multiple=True))))
    choices: tuple[Method, ...] = (
        BasicAck(tag, multiple=multiple), BasicNack(tag, multiple=multiple, requeue=requeue),
        BasicReject(tag, requeue=requeue),
    )  # fmt: skip
    return said(rng.choice(choices))


def recover(rng: Random) -> Phrase:
    requeue = flag(rng, 0.9)
    return said(BasicRecover(requeue=requeue) if flag(rng, 0.6) else BasicRecoverAsync(requeue=requeue))


def qos(rng: Random) -> Phrase:
    return said(BasicQos(rng.choice((0, 0, 0, 0, 0, 9)), rng.choice((0, 1, 2, 65535)), global_=flag(rng, 0.5)))


# Modes, channels, connections


def confirm(rng: Random) -> Phrase:
    return said(ConfirmSelect(no_wait=flag(rng)))


def transaction(rng: Random) -> Phrase:
    return said(rng.choice((TxSelect(), TxCommit(), TxCommit(), TxRollback())))


def begin_transaction(rng: Random) -> Phrase:
    return said(TxSelect())


def channel_words(rng: Random) -> Phrase:
    words: tuple[Method, ...] = (
        ChannelOpen(), ChannelClose(200, "bye", 0, 0), ChannelCloseOk(), ChannelFlow(active=flag(rng, 0.9)),
        AccessRequest(), BasicCancelOk("t0"),
    )  # fmt: skip
    return said(rng.choice(words))


def another_channel(rng: Random) -> Phrase:
    return [NEW_CHANNEL]


def connection_words(rng: Random) -> Phrase:
    """For channel 0; on another channel they are wrong."""
    words: tuple[Method, ...] = (
        ConnectionClose(200, "bye", 0, 0), ConnectionCloseOk(), ConnectionUpdateSecret(b"secret", "why"),
        ConnectionBlocked("no"), ConnectionSecureOk(b"x"), ConnectionTuneOk(2047, 131072, 60), ConnectionOpen("/"),
    )  # fmt: skip
    return said(rng.choice(words))


def flood(rng: Random) -> Phrase:
    """More than a queue keeps in memory when memory is short."""
    return publish_to(rng, rng.choice(QUEUES), 1)[:3] * rng.randint(18, 40)


# Turns that belong together


def serve(rng: Random) -> Phrase:
    """A consumer, messages for it, and what becomes of them."""
    queue = rng.choice(QUEUES)
    tag, limit = rng.choice(TAGS[:3]), rng.choice((0, 1, 2))
    parts = said(BasicQos(0, limit, global_=flag(rng)), BasicConsume(queue, tag, no_ack=flag(rng)))
    parts += publish_to(rng, queue, rng.randint(1, 4)) + settle(rng)
    if flag(rng, 0.3):
        parts += recover(rng) + said(BasicCancel(tag)) + settle(rng)
    return parts


def transact(rng: Random) -> Phrase:
    """A transaction from its beginning to its end, in a channel of its own."""
    queue = rng.choice(QUEUES)
    parts = [*publish_to(rng, queue, 2), NEW_CHANNEL, *said(TxSelect(), BasicGet(queue), BasicGet(queue, no_ack=True))]
    parts += publish_to(rng, queue, rng.randint(0, 2)) + settle(rng)
    if flag(rng):
        parts += said(QueueDelete(queue)) if flag(rng, 0.5) else said(QueuePurge(queue))
    return parts + said(TxRollback() if flag(rng) else TxCommit(), BasicGet(queue)) + settle(rng)


def confirmed(rng: Random) -> Phrase:
    queue = rng.choice(QUEUES)
    parts = [NEW_CHANNEL, *said(ConfirmSelect()), *publish_to(rng, queue, rng.randint(1, 4))]
    if flag(rng):
        parts += remove(rng) + publish_to(rng, queue, 1)
    return parts


def request(rng: Random) -> Phrase:
    """A question to a queue, fetched and answered over the same channel."""
    asked = encode_properties(Properties(reply_to=REPLY_TO))
    parts = said(BasicConsume(REPLY_TO, "reply", no_ack=True), BasicPublish("", "q0")) + content(rng, asked, 5)
    parts += said(BasicGet("q0", no_ack=True), BasicPublish("", f"{REPLY_TO}.{rng.randrange(9)}", mandatory=flag(rng)))
    return parts + content(rng, encode_properties(Properties()), 5)


# What is there before the sessions begin


def groundwork(rng: Random) -> Phrase:
    """Queues, exchanges and bindings of every kind, so that most of what sessions say leads somewhere."""
    methods: list[Method] = []
    for name, kind in TYPES.items():
        arguments: Table = {"x-delayed-type": rng.choice(("direct", "topic", "fanout"))} if "delayed" in kind else {}
        if flag(rng):
            arguments["alternate-exchange"] = rng.choice(EXCHANGES)
        if kind == "x-consistent-hash" and flag(rng, 0.5):
            arguments.update(rng.choice(({"hash-header": "hash"}, {"hash-property": "message_id"})))
        methods.append(ExchangeDeclare(name, kind, durable=flag(rng, 0.5), auto_delete=flag(rng, 0.1), arguments=arguments))
    for name in ("q0", "q1", "q2", "q3", "p0"):
        methods.append(
            QueueDeclare(name, durable=flag(rng, 0.6), auto_delete=flag(rng), arguments=rng.choice(SENSIBLE_ARGUMENTS))
        )
        for source in rng.sample(EXCHANGES, 3):
            key = "1" if TYPES[source] == "x-consistent-hash" else rng.choice(("k", "a.b", "a.*", "#", ""))
            methods.append(QueueBind(name, source, key))
    sources = rng.sample([name for name in EXCHANGES if name != "e4"], 3)
    methods += [ExchangeBind(rng.choice(EXCHANGES), source, rng.choice(("k", "#", ""))) for source in sources]
    if flag(rng):
        methods.append(BasicConsume("q3", "groundwork", no_ack=flag(rng, 0.5)))
    return said(*methods)


WEIGHTS: tuple[tuple[Callable[[Random], Phrase], int], ...] = (
    (declare_queue, 6), (declare_exchange, 3), (bind, 5), (unbind, 2), (remove, 3), (purge, 2), (publish, 16),
    (publish_many, 6), (consume, 9), (reply_consumer, 2), (cancel, 2), (get, 8), (settle, 12), (recover, 2), (qos, 3),
    (confirm, 4), (transaction, 3), (begin_transaction, 1), (channel_words, 2), (another_channel, 10), (serve, 9),
    (transact, 5), (confirmed, 5), (request, 2), (flood, 2),
)  # fmt: skip


class Phrases:
    """The pool that sessions draw from."""

    def __init__(self) -> None:
        rng = Random(0xA119)
        self.makers = [maker for maker, _ in WEIGHTS]
        self.weights = [weight for _, weight in WEIGHTS]
        self.variants = [[maker(rng) for _ in range(VARIANTS)] for maker in self.makers]
        self.on_connection = [connection_words(rng) for _ in range(VARIANTS)]
        self.groundwork = [groundwork(rng) for _ in range(VARIANTS)]

    def draw(self, rng: Random, count: int) -> list[Phrase]:
        return [rng.choice(variants) for variants in rng.choices(self.variants, self.weights, k=count)]


PHRASES = Phrases()
