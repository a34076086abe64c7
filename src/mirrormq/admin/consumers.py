"""Consumers: each is shown by the node that has its queue, whichever node its client is connected to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.census import Census, Kind, Place, Query, Scope
from mirrormq.admin.values import from_table
from mirrormq.broker.broker import Broker
from mirrormq.broker.channel import Channel
from mirrormq.broker.consumer import Consumer
from mirrormq.broker.forward.guests import GuestChannel
from mirrormq.broker.queue import Queue


def activity_of(consumer: Consumer) -> str:
    """up, or with a single active consumer: single_active or waiting."""
    queue = consumer.queue
    if not queue.settings.single_active_consumer:
        return "up"
    return "single_active" if queue.holder is consumer else "waiting"


def _channel(channel: Channel, node: str) -> dict[str, Any]:
    connection = channel.connection
    if isinstance(channel, GuestChannel):
        name, number, user = channel.client_connection, int(channel.client_number), channel.client_user
        node, host, port = connection.name, channel.client_host, int(channel.client_port)
    else:
        name, number, user = connection.name, channel.number, "" if connection.user is None else connection.user.name
        host, port = connection.peer.host, connection.peer.port
    return {"connection_name": name, "name": f"{name} ({number})", "node": node, "number": number, "peer_host": host,
            "peer_port": port, "user": user}


def show_consumer(consumer: Consumer, node: str) -> dict[str, Any]:
    status = activity_of(consumer)
    return {
        "ack_required": not consumer.no_ack, "active": status != "waiting", "activity_status": status,
        "arguments": from_table(consumer.arguments), "channel_details": _channel(consumer.channel, node),
        "consumer_tag": consumer.tag, "exclusive": consumer.exclusive, "prefetch_count": int(consumer.limit),
        "queue": {"name": consumer.queue.name, "vhost": consumer.queue.vhost},
    }  # fmt: skip


class Seat:
    """A consumer and where it stands among those of its queue."""

    def __init__(self, consumer: Consumer, at: int) -> None:
        self.consumer = consumer
        self.queue = consumer.queue
        self.at = at


class Consumers(Kind[Seat]):
    word = "consumers"

    def find(self, broker: Broker, scope: Scope) -> list[Seat]:
        queues = [here for name, vhost in sorted(broker.vhosts.items()) if scope.has_vhost(name)
                  for _, queue in sorted(vhost.queues.items())
                  if (here := broker.serving(queue)) is not None and here.turns.everyone]
        seats = [seat for queue in queues for seat in _seats(queue)]
        if scope.channel is None:
            return seats
        return [seat for seat in seats if _channel(seat.consumer.channel, "")["name"] == scope.channel]

    def pick(self, broker: Broker, places: Sequence[Place]) -> list[Seat | None]:
        return [_seat_at(broker, place) for place in places]

    def place(self, thing: Seat) -> Place:
        return (thing.queue.vhost, thing.queue.name, thing.at)

    def name(self, thing: Seat) -> str:
        return thing.consumer.tag

    def vhost(self, thing: Seat) -> str:
        return thing.queue.vhost

    def view(self, state: State, query: Query) -> Callable[[Seat], Json]:
        node = state.broker.node_name
        return lambda seat: show_consumer(seat.consumer, node)


def _seats(queue: Queue) -> list[Seat]:
    return [Seat(consumer, at) for at, consumer in enumerate(queue.turns.everyone)]


def _seat_at(broker: Broker, place: Place) -> Seat | None:
    vhost = broker.vhosts.get(str(place[0]))
    known = None if vhost is None else vhost.queues.get(str(place[1]))
    queue = None if known is None else broker.serving(known)
    at = int(place[2])
    if queue is None or at >= len(queue.turns.everyone):
        return None
    return Seat(queue.turns.everyone[at], at)


CONSUMERS = Consumers()


async def list_consumers(call: Call) -> Answer:
    return await Census(call.state, call.query, CONSUMERS, Scope(vhosts=call.vhost_names())).answer()


async def list_in_vhost(call: Call) -> Answer:
    """Of a virtual host that the caller may not enter, nothing is shown; RabbitMQ refuses nobody here."""
    vhost = call.vhost()
    if not call.principal.may_enter(vhost.name):
        return Answer(200, [])
    return await list_consumers(call)
