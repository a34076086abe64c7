"""Browsing and searching a queue without consuming: nothing is delivered, marked or moved.

Rules
 1. Whoever may get messages from a queue (permission `read`) may browse it; an exclusive queue is its owner's alone.
 2. The node that has the queue looks; any node may be asked.
 3. A request looks at so many messages and bytes and no more. `next` says where to go on; a search that found nothing yet goes on
    from there too.
 4. Words are looked for as bytes, small and capital letters of ASCII being the same. There are no patterns: a pattern of a
    stranger may take for ever.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final

from mirrormq.admin.call import Answer, Call, Json, State
from mirrormq.admin.errors import ApiError, bad_request, not_authorised, not_found, unavailable
from mirrormq.admin.peek import HELD, READY, START, STEP_BYTES, Seen, Spot, hidden, look, read_spot
from mirrormq.admin.values import from_properties
from mirrormq.broker.backlog import LogHole
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.message import NEVER, Message
from mirrormq.broker.queue import Queue
from mirrormq.log.errors import LogError
from mirrormq.wire.properties import decode_properties

MAX_ROWS: Final = 200
MAX_SCANNED: Final = 20_000
MAX_SCANNED_BYTES: Final = 8 << 20
MAX_SHOWN_BYTES: Final = 512 << 10      # of all payloads of one answer
MAX_PAYLOAD: Final = 64 << 10           # of one of them
SHOWN: Final = 2048
PATIENCE: Final = 6.0                   # seconds in which a queue gets a new leader
LOOK_AGAIN: Final = 0.2
PLACES: Final = ("any", "payload", "routing_key", "properties")


class Wish:
    """What is looked for, and how much of it."""

    def __init__(self, about: Json) -> None:
        self.after = read_spot(about.get("after", "")) or START
        self.count = int(about.get("count", 50))
        self.truncate = int(about.get("truncate", SHOWN))
        self.text = str(about.get("text", ""))
        self.where = str(about.get("in", "any"))
        self.held = about.get("state") == HELD
        self._needle = self.text.lower().encode("utf-8", "surrogateescape")

    def fits(self, message: Message) -> bool:
        needle = self._needle
        if not needle:
            return True
        if self.where in ("any", "payload") and needle in message.body().lower():
            return True
        if self.where in ("any", "routing_key") and needle in message.address.lower():
            return True
        return self.where in ("any", "properties") and needle in message.info.properties.lower()


def check_wish(query: Any) -> Json:
    """The query as a question to the queue's home; ApiError if it makes no sense."""
    about: Json = {name: query[name] for name in ("after", "count", "truncate", "text", "in", "state") if query.get(name)}
    for name, most in (("count", MAX_ROWS), ("truncate", MAX_PAYLOAD)):
        value = about.get(name, "1")
        if not (value.isascii() and value.isdecimal() and len(value) < 9 and int(value) <= most):
            raise bad_request([f"{name} must be a number up to {most}", value])
    if "after" in about and read_spot(about["after"]) is None:
        raise bad_request(["no place in a queue", about["after"]])
    if about.get("in", "any") not in PLACES or about.get("state", READY) not in (READY, HELD):
        raise bad_request("in is one of any, payload, routing_key, properties; state is ready or unacknowledged")
    if len(about.get("text", "")) > 1024:
        raise bad_request("the text to look for is too long")
    return about


# --- who asks -------------------------------------------------------------------------------------------------------


def readable(call: Call) -> Queue:
    """The queue of the path, if its messages may be seen by the caller."""
    queue = call.vhost().queues.get(call.args["name"])
    if queue is None:
        raise not_found()
    if not call.broker.authority.allowed(call.principal.name, queue.vhost, "queue", queue.name, "read"):
        raise not_authorised("Access refused.")
    if queue.exclusive:
        raise bad_request("an exclusive queue can be looked into by the connection that declared it alone")
    return queue


async def at_home(call: Call, queue: Queue, what: str, about: Json, *, is_change: bool = False) -> Any:
    """The answer of the node that has the queue. While a mirrored one changes its leader, who looks at it waits for the next."""
    about = about | {"vhost": queue.vhost, "name": queue.name}
    front = call.broker.forwarding.mirrored.get(queue.log_id)
    if front is not None and front.lost_copy:
        raise unavailable(front.home_is_down().text)
    told = await _asked(call, queue, what, about)
    waits = 0 if is_change else int(PATIENCE / LOOK_AGAIN)
    while waits and told in (None, GONE_AWAY) and _has_heirs(call, queue):
        waits -= 1
        await asyncio.sleep(LOOK_AGAIN)
        told = await _asked(call, queue, what, about)
    if front is not None and not front.is_deleted and (told == GONE_AWAY or (told is None and front.is_hopeless())):
        raise unavailable(front.home_is_down().text)
    if told is None:
        raise unavailable(f"node {queue.home}, which has the queue, does not answer")
    if isinstance(told, dict) and "refused" in told:
        raise ApiError(int(told["refused"]), str(told["error"]), str(told["reason"]))
    return told


async def _asked(call: Call, queue: Queue, what: str, about: Json) -> Any:
    if call.state.broker.serving(queue) is not None:
        return await HERE[what](call.state, about)
    return await call.runtime.cluster.ask(queue.home, what, about)


def _has_heirs(call: Call, queue: Queue) -> bool:
    forwarding = call.broker.forwarding
    front = None if queue.is_deleted else forwarding.mirrored.get(queue.log_id)
    return front is not None and not all(forwarding.is_gone(node) for node in front.holders)


async def browse_messages(call: Call) -> Answer:
    queue = readable(call)
    return Answer(200, await at_home(call, queue, "browse", check_wish(call.query)))


# --- on the node that has the queue ---------------------------------------------------------------------------------


def queue_here(state: State, about: Json) -> Queue | None:
    queue = _known(state, about)
    return None if queue is None else state.broker.serving(queue)


def _known(state: State, about: Json) -> Queue | None:
    vhost = state.broker.vhosts.get(about["vhost"])
    return None if vhost is None else vhost.queues.get(about["name"])


GONE_AWAY: Final[Json] = {"refused": 404, "error": "Object Not Found", "reason": "Not Found"}


def why_not_here(state: State, about: Json) -> Json:
    """This node serves no such queue. Whoever asks looks for its next leader, unless nobody will ever lead it."""
    queue = _known(state, about)
    if isinstance(queue, AwayQueue) and queue.lost_copy:
        return {"refused": 503, "error": "service_unavailable", "reason": queue.home_is_down().text}
    return GONE_AWAY


def damaged(fault: object) -> Json:
    return {"refused": 503, "error": "service_unavailable", "reason": str(fault)}


async def browse_here(state: State, about: Json) -> Json:
    queue = queue_here(state, about)
    if queue is None:
        return why_not_here(state, about)
    try:
        return await _browse(state, queue, Wish(about))
    except (LogError, LogHole, OSError) as fault:
        return damaged(fault)


class _Harvest:
    """What a browse has found so far, and how much work that was."""

    def __init__(self, wish: Wish) -> None:
        self.rows: list[Json] = []
        self.scanned = 0
        self._wish = wish
        self._size = 0
        self._shown = 0

    @property
    def is_enough(self) -> bool:
        return len(self.rows) >= self._wish.count or self._shown > MAX_SHOWN_BYTES

    @property
    def is_over(self) -> bool:
        return self.is_enough or self.scanned >= MAX_SCANNED or self._size >= MAX_SCANNED_BYTES

    def take(self, seen: list[Seen]) -> Spot | None:
        """Returns where it stopped, if that is before the end of what was seen."""
        self._size += 0 if seen else STEP_BYTES
        for one in seen:
            self._take_one(one)
            if self.is_enough:
                return one.spot
        return None

    def _take_one(self, one: Seen) -> None:
        wish = self._wish
        self.scanned += 1
        self._size += one.message.size
        if wish.fits(one.message):
            self.rows.append(show_message(one, wish.truncate, HELD if wish.held else READY))
            self._shown += min(one.message.size, wish.truncate)


async def _browse(state: State, queue: Queue, wish: Wish) -> Json:
    harvest = _Harvest(wish)
    at: Spot | None = wish.after
    while at is not None and not harvest.is_over and not queue.is_deleted:
        seen, at = look(queue, at, held=wish.held)
        at = harvest.take(seen) or at
        await asyncio.sleep(0)
        state.runtime.tick()
    return {"messages": harvest.rows, "next": None if at is None else str(at), "scanned": harvest.scanned,
            "node": state.broker.node_name, "messages_ready": int(queue.backlog.count),
            "messages_unacknowledged": int(queue.held), "hidden": hidden(queue)}


def show_message(seen: Seen, truncate: int, state: str) -> Json:
    message = seen.message
    body = message.body()
    row: Json = {
        "index": message.index, "spot": str(seen.spot), "state": state, "logged": message.logged,
        "persistent": message.persistent and message.info.persistent, "redelivered": message.redelivered,
        "exchange": message.exchange(), "routing_key": message.routing_key(), "payload_bytes": len(body),
        "expires": None if message.expires >= NEVER else int(message.expires),
        "properties": from_properties(decode_properties(message.info.properties, 0)),
    }  # fmt: skip
    return row | shown_payload(body[:truncate], is_cut=len(body) > truncate)


def shown_payload(body: bytes, *, is_cut: bool) -> Json:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as fault:
        if not (is_cut and fault.start >= len(body) - 3):
            return {"payload": base64.b64encode(body).decode("ascii"), "payload_encoding": "base64"}
        text = body[:fault.start].decode("utf-8")           # cut within a character
    return {"payload": text, "payload_encoding": "string"}


HERE: Final[dict[str, Any]] = {"browse": browse_here}
