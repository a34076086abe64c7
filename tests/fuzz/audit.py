"""What must hold inside a broker that has come to rest.

The counters of queues, channels and consumers agree with what they count; the fold of each queue's log is the state of
the queue; nobody waits for something that will not come; and what ended has left nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized

from mirrormq.broker.backlog import ENTRY_OVERHEAD, Backlog, PlainBacklog
from mirrormq.broker.broker import Broker
from mirrormq.broker.channel import CONFIRM, Channel, Delivery
from mirrormq.broker.connection import CLOSING, RUNNING, Connection
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.delayed import DelayBacklog
from mirrormq.broker.exchange import PREDECLARED
from mirrormq.broker.message import Message
from mirrormq.broker.priority import PriorityBacklog
from mirrormq.broker.queue import Queue
from mirrormq.log.entries import ACK, DROP, ENQUEUE, TRANSIENT, entries_in

from .world import Violation, World

TIMERS_LEFT = 64


def check(condition: bool, sentence: str) -> None:
    if not condition:
        raise Violation(sentence)


def deliveries_of(channel: Channel) -> Iterator[Delivery]:
    """All that a channel holds, settled in an open transaction or not."""
    yield from channel.unacked.values()
    transaction = channel.transaction
    if transaction is not None:
        yield from transaction.acks
        yield from transaction.rejects
        yield from transaction.requeues


# Connections and channels at rest


def check_rest(connection: Connection) -> None:
    """A connection that nobody has bytes for any more: it has said all it had to say."""
    name = connection.name
    check(not connection.out and not connection.is_dirty, f"{name} has not sent everything")
    check(connection.is_choked or not connection.is_full, f"{name} waits for a socket that is free")
    kept = sum(map(len, connection.parts))
    check(kept <= 3 * (connection.frame_limit + 8), f"{name} keeps {kept} octets")
    if connection.state == RUNNING:
        for channel in connection.channels.values():
            if not channel.is_closing:
                _check_channel(channel)
    else:
        check(not connection.channels, f"{name} still has channels")


def _check_channel(channel: Channel) -> None:
    name = f"channel {channel.number}"
    check(not channel.is_suspended and not channel.inbox, f"{name} waits for ever")
    if channel.mode == CONFIRM:
        check(
            channel.confirmed == channel.sequence,
            f"{name} confirmed {channel.confirmed} of {channel.sequence} publishes",
        )
    check(channel.barrier is None and not channel.barriers, f"{name} keeps barriers")
    held = [delivery for delivery in deliveries_of(channel) if delivery.consumer is not None]     # until the commit, too
    check(channel.held == len(held), f"{name} counts {channel.held} deliveries and holds {len(held)}")
    check(not channel.unacked or min(channel.unacked) >= channel.lowest, f"{name} does not look for its lowest tag")
    for consumer in channel.consumers.values():
        mine = sum(1 for delivery in held if delivery.consumer is consumer)
        check(consumer.unacked == mine, f"consumer {consumer.tag} counts {consumer.unacked} deliveries and holds {mine}")
        check(consumer in consumer.queue.turns.everyone, f"consumer {consumer.tag} is unknown to its queue")


def check_released(broker: Broker, connection: Connection) -> None:
    """A connection that is over has left nothing behind."""
    check(connection.is_over, "the connection is not over")
    check(not connection.channels and not connection.exclusive_queues, "a dead connection holds something")
    check(connection not in broker.connections, "a dead connection is still listed")
    check(connection not in broker.routed, "a dead connection still has routes")
    for channel in broker.reply_channels.values():
        check(channel.connection is not connection, "a dead connection can still be replied to")
    for queue in broker.queues_by_log.values():
        check(queue.owner is not connection, f"exclusive queue {queue.name} outlives its connection")
        for consumer in queue.turns.everyone:
            check(consumer.channel.connection is not connection, f"a dead connection consumes from {queue.name}")


# The whole broker at rest


def check_broker(world: World) -> None:
    broker = world.broker
    held: dict[Queue, list[Message]] = {}
    for connection in broker.connections:
        check(connection.state in (RUNNING, CLOSING), f"{connection.name} is listed in state {connection.state}")
        for channel in connection.channels.values():
            for delivery in deliveries_of(channel):
                held.setdefault(delivery.queue, []).append(delivery.message)
    budget = 0
    for queue in broker.queues_by_log.values():
        check_queue(world, queue, held.get(queue, []) + [message for message, _ in queue.postponed])
        budget += _window_cost(queue.backlog)
    check(broker.budget.used == budget, f"the budget counts {broker.budget.used} octets of {budget}")
    check(not broker.log.position > world.log.position, "the log lost its place")


def check_queue(world: World, queue: Queue, held: list[Message]) -> None:
    name = f"queue {queue.name}"
    check(not queue.is_deleted, f"{name} is deleted and still known")
    check(not queue.waiters and not queue.builder.count, f"{name} has not sealed its chunk")
    check(
        not queue.acked.ranges and not queue.dropped and not queue.dead_lettered,
        f"{name} has not logged all that ended",
    )
    check(queue.held == len(held), f"{name} counts {queue.held} held messages of {len(held)}")
    check(queue.held_bytes == sum(message.size for message in held), f"{name} counts {queue.held_bytes} held octets")
    logged = {message.index for message in held if message.logged}
    check(queue.held_logged == logged, f"{name} does not know which held messages are logged")
    check(queue.builder.next_index + queue.unlogged == queue.next_index, f"{name} and its log disagree on the next index")
    _check_backlog(queue.backlog, name)
    _check_fold(world, queue, name)
    _check_alive(queue, name)


def _check_alive(queue: Queue, name: str) -> None:
    """Ready messages and a consumer that can take them do not wait for each other."""
    if queue.backlog.count:
        holder = queue.holder
        takers: list[Consumer] = queue.turns.everyone if holder is None else [holder]
        check(not any(consumer.is_ready() for consumer in takers), f"{name} does not deliver what is ready")


def in_memory(backlog: Backlog) -> list[Message]:
    if isinstance(backlog, PlainBacklog):
        return [pair[1] for pair in backlog.returned] + list(backlog.window)
    if isinstance(backlog, PriorityBacklog):
        levels = backlog.levels
        returned = [pair[1] for level in levels for pair in level.returned]
        return returned + [message for level in levels for message in level.window]
    assert isinstance(backlog, DelayBacklog)
    return [message for _, _, message in backlog.slots if message is not None]


def only_in_log(backlog: Backlog) -> int:
    if isinstance(backlog, PlainBacklog):
        return backlog.tail
    if isinstance(backlog, PriorityBacklog):
        return sum(level.tail_size() for level in backlog.levels)
    assert isinstance(backlog, DelayBacklog)
    return sum(1 for slot in backlog.slots if slot[2] is None)


def _window_cost(backlog: Backlog) -> int:
    if isinstance(backlog, PlainBacklog):
        windows = [backlog.window]
    elif isinstance(backlog, PriorityBacklog):
        windows = [level.window for level in backlog.levels]
    else:
        windows = []
    return sum(message.size + ENTRY_OVERHEAD for window in windows for message in window)


def _check_backlog(backlog: Backlog, name: str) -> None:
    loaded, tail = in_memory(backlog), only_in_log(backlog)
    check(backlog.count == len(loaded) + tail, f"{name} counts {backlog.count} messages of {len(loaded) + tail}")
    size = sum(message.size for message in loaded)
    check(backlog.bytes == size if tail == 0 else backlog.bytes >= size, f"{name} counts {backlog.bytes} octets of {size}")
    indexes = [message.index for message in loaded]
    check(len(set(indexes)) == len(indexes), f"{name} has a message twice")


def fold(world: World, log_id: int) -> dict[int, int]:
    """The live messages of a log: their flags by index."""
    live: dict[int, int] = {}
    for chunk in world.log.chunks.get(log_id, []):
        for entry in entries_in(chunk, 0):
            if entry.kind == ENQUEUE:
                live[entry.index] = entry.flags
            elif entry.kind in (ACK, DROP):
                _end(live, entry.ranges or [])
    return live


def _end(live: dict[int, int], ranges: list[int]) -> None:
    for low, high in zip(ranges[::2], ranges[1::2], strict=True):
        if high - low > len(live):
            for index in [index for index in live if low <= index <= high]:
                del live[index]
        else:
            for index in range(low, high + 1):
                live.pop(index, None)


def _check_fold(world: World, queue: Queue, name: str) -> None:
    live = fold(world, queue.log_id)
    loaded = {message.index for message in in_memory(queue.backlog) if message.logged} | queue.held_logged
    tail = only_in_log(queue.backlog)
    check(loaded <= live.keys(), f"{name} holds messages {sorted(loaded - live.keys())[:5]} that have ended in its log")
    check(
        len(live) == len(loaded) + tail,
        f"{name} has {len(live)} live messages in its log and {len(loaded) + tail} in its state",
    )
    kept = sum(1 for flags in live.values() if not flags & TRANSIENT)
    check(queue.kept == kept, f"{name} counts {queue.kept} kept messages of {kept}")


# After everything was removed


def check_clean(world: World) -> None:
    """A broker from which everything was removed is as a new one."""
    broker = world.broker
    empty: dict[str, Sized] = {
        "connections": broker.connections, "queues": broker.queues_by_log, "active queues": broker.active,
        "dirty connections": broker.dirty, "confirming channels": broker.confirming, "routes": broker.routed,
        "reply channels": broker.reply_channels, "waiting answers": broker.awaiting,
        "unstable chunks": broker.stability.pending, "delays": broker.delays.queues, "chunks": world.log.chunks,
    }  # fmt: skip
    for what, things in empty.items():
        check(not things, f"{len(things)} {what} are left")
    check(broker.budget.used == 0, f"{broker.budget.used} octets of the budget are left")
    check(broker.budget.held == 0, f"{broker.budget.held} octets count as held by clients that are gone")
    check(len(broker.timers) <= TIMERS_LEFT, f"{len(broker.timers)} timers are left")
    for vhost in broker.vhosts.values():
        check(not vhost.queues and not vhost.sources, f"queues or bindings are left in {vhost.name}")
        check(list(vhost.exchanges) == [name for name, _ in PREDECLARED], f"exchanges are left in {vhost.name}")
        for exchange in vhost.exchanges.values():
            check(not exchange.is_bound(), f"exchange {exchange.name} is still bound")
