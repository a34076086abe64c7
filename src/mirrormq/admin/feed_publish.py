"""Publishing a run of messages into one queue, each once however often its run is sent.

    POST /api/feed/{vhost}/{name}/publish?publisher=HEX&first=SEQUENCE

The body is messages one behind the other: u16 length of the address, u32 of the property list, u32 of the body (little-endian),
then these three; an address is exchange and routing key as short strings, a property list is as AMQP sends it.

Rules
 1. A publisher numbers its messages from 1 on, without gaps. The queue remembers the last number of each of the thousand
    publishers that published last, in its log (ORIGIN) and its snapshots, so it is known after a crash too.
 2. What was published before is passed over; the answer says how many. It comes when everything is stable.
 3. Only the node that has the queue takes a run; others send the caller there (307). So checking and enqueueing are one step.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from struct import error as StructError  # noqa: N812 - the class has a function's name
from typing import Final

from mirrormq.admin.call import Answer, Call, as_integer
from mirrormq.admin.errors import ApiError, bad_request, not_authorised, unavailable
from mirrormq.admin.feed import send_to_home
from mirrormq.broker.arguments import DROP_HEAD
from mirrormq.broker.message import Message, build_content
from mirrormq.broker.overflow import is_full
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.properties import decode_properties

HEAD: Final = Struct("<HII")
FRAME_MAX: Final = 131_072
PATIENCE: Final = 30.0


class Landed(Barrier):
    """Everything of one run is stable."""

    def __init__(self, landed: asyncio.Future[bool]) -> None:
        super().__init__()
        self.outstanding = 1            # until all of it has been enqueued
        self._landed = landed

    def passed(self) -> None:
        if not self._landed.done():
            self._landed.set_result(not self.is_lost)


async def publish_run(call: Call) -> Answer:
    queue = _queue(call)
    publisher, first = _publisher(call), as_integer(call.query.get("first"))
    if first < 1:
        raise bad_request("messages are numbered from 1 on")
    messages = _messages(call)
    _check_alarms(call)
    landed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    barrier = Landed(landed)
    published, repeated = _enqueue(queue, messages, publisher, first, barrier)
    queue.wait_for_chunk(barrier)
    barrier.outstanding -= 1
    call.runtime.schedule()
    try:
        async with asyncio.timeout(PATIENCE):
            is_stable = await landed
    except TimeoutError:
        raise unavailable("the disk has not taken the messages in time; send them again") from None
    if not is_stable:
        raise unavailable("the log did not take the messages; send them again")
    return Answer(200, {"published": published, "repeated": repeated, "refused": len(messages) - published - repeated})


def _queue(call: Call) -> Queue:
    vhost, principal, name = call.vhost(), call.principal, call.args["name"]
    if not (principal.is_local or call.broker.authority.allowed(principal.name, vhost.name, "queue", name, "write")):
        raise not_authorised(f"write access to queue '{name}' in vhost '{vhost.name}' refused for user '{principal.name}'")
    known = vhost.queues.get(name)
    if known is None:
        raise ApiError(404, "not_found", f"no queue '{name}' in vhost '{vhost.name}'")
    queue = call.broker.serving(known)
    if queue is None:
        send_to_home(call, known, "/publish")
    if queue.damage:
        raise unavailable(queue.damage)
    if queue.exclusive:
        raise bad_request(f"queue '{name}' is exclusive: only its own connection publishes through this way")
    return queue


def _publisher(call: Call) -> int:
    try:
        return int(call.query.get("publisher", ""), 16) & (1 << 64) - 1
    except ValueError:
        raise bad_request("the publisher is no hexadecimal number") from None


def _check_alarms(call: Call) -> None:
    if call.broker.alarms:
        raise ApiError(503, "blocked", "low on " + " & ".join(sorted(call.broker.alarms, reverse=True)), {"retry-after": "1"})


def _messages(call: Call) -> list[Message]:
    raw = call.raw
    limit = call.broker.limits.max_message_size
    found: list[Message] = []
    at = 0
    while at < len(raw):
        try:
            address_length, properties_length, size = HEAD.unpack_from(raw, at)
        except StructError:
            raise bad_request("the run is cut short") from None
        start = at + HEAD.size
        middle = start + address_length
        body_at = middle + properties_length
        at = body_at + size
        if at > len(raw) or size > limit:
            raise bad_request("the run is cut short" if at > len(raw) else f"a message is larger than {limit} bytes")
        found.append(_message(call, raw[start:middle], raw[middle:body_at], raw[body_at:at]))
    return found


def _message(call: Call, address: bytes, properties: bytes, body: bytes) -> Message:
    infos = call.broker.infos
    is_new = properties not in infos.known
    try:
        if is_new:
            decode_properties(properties, 0)
        info = infos.get(properties)
    except AMQPError as fault:
        raise bad_request(f"a property list is not sound: {fault.text}") from None
    if len(address) < 2 or len(address) < 2 + address[0] or len(address) < 2 + address[0] + address[1 + address[0]]:
        raise bad_request("an address is not sound")
    if info.user_id not in (None, call.principal.name) and not call.principal.is_administrator:
        raise bad_request(f"user_id property set to '{info.user_id}' but authenticated user was '{call.principal.name}'")
    return Message(build_content(1, properties, body, FRAME_MAX), address, info, len(body))


def _enqueue(queue: Queue, messages: list[Message], publisher: int, first: int, barrier: Barrier) -> tuple[int, int]:
    """How many are new, and how many were there before. Ends at the first that the queue refuses."""
    last = queue.senders.get(publisher, (0, 0))[0]
    if first > last + 1:
        raise ApiError(409, "gap", f"message {first} does not follow on {last}, the last one from this publisher")
    repeated = min(len(messages), last + 1 - first)
    fresh = messages[repeated:]
    step = 1 if queue.settings.limited else max(len(fresh), 1)
    published = 0
    for start in range(0, len(fresh), step):
        run = fresh[start:start + step]
        if queue.settings.limited and queue.settings.overflow != DROP_HEAD and is_full(queue, run[0]):
            break
        sequence = first + repeated + start
        # The origin lies before its messages: no chunk is sealed between, so it is durable with them or not at all.
        queue.sent_by(publisher, sequence, len(run))
        for message in run:
            queue.publish(message, barrier)
        published += len(run)
    return published, repeated
