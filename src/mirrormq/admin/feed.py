"""The feed: queues' logs over HTTP, for those who follow them without consuming.

    GET    /api/feed/{vhost}?pattern=REGEX                 the queues: id, node, members, earliest and end, lake mirrors
    GET    /api/feed/{vhost}/{name}?first=N&upto=M&wait=S  stable chunks as they are in the log, from index N on
    GET    /api/feed/{vhost}/{name}/at?time=MS             the index of what was written at that time or later
    GET    /api/feed/{vhost}/{name}/span?first=N&bytes=B   the index before which there are about B bytes from index N on
    GET, PUT, DELETE  /api/lake-mirrors/{vhost}/{name}     a lake mirror: pattern, lease, how far it has read

Rules
 1. Whoever may read a queue may follow it; no tag is needed.
 2. Any node answers. A mirror gives what it knows to be stable; whoever does not hold the log, or is asked for what it does not
    know or has no more, sends the caller to the leader (307), whose word counts.
 3. Reading and sending are done in slices of 64 KiB between which the loop goes on: publishers wait for a mirror, too. A request
    is given at most 8 MiB. The global parameter `lake-feed-rate` limits what a node gives out to so many bytes a second.
 4. Entries that are gone are 410, with the first index that is left.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import Final, NoReturn
from urllib.parse import quote, urlencode

from mirrormq import __version__
from mirrormq.admin.call import Answer, Call, Json, State, as_integer, created, done
from mirrormq.admin.errors import ApiError, bad_request, not_authorised, not_found, unavailable
from mirrormq.admin.pieces import Pieces
from mirrormq.broker import rules
from mirrormq.broker.policy import PatternError, compile_pattern
from mirrormq.broker.queue import Queue
from mirrormq.log.chunk import decode_chunk
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.slices import sliced
from mirrormq.node.feed import COMPONENT, LakeMirror, index_at

CHUNKS: Final = "application/vnd.mirrormq.chunks"
FORMAT: Final = "1"                 # of the chunks: a reader that does not know it must not guess
SLICE: Final = 64 << 10            # what the ring has to wait for: about a tenth of a millisecond
MAX_BYTES: Final = 8 << 20
MAX_WAIT: Final = 30.0
POLL: Final = 0.1
SETTLE_AFTER: Final = 0.2           # seconds that an entry may wait for somebody else's sync
RATE: Final = "lake-feed-rate"


# --- which queues -----------------------------------------------------------------------------------------------------


def may_read(call: Call, vhost: str, name: str) -> bool:
    principal = call.principal
    return principal.is_local or call.broker.authority.allowed(principal.name, vhost, "queue", name, "read")


async def list_feeds(call: Call) -> Answer:
    vhost = call.vhost()
    if not (call.principal.is_local or call.broker.authority.vhost_allowed(call.principal.name, vhost.name)):
        raise not_authorised(f"access to vhost '{vhost.name}' refused for user '{call.principal.name}'")
    matcher = _matcher(call.query.get("pattern", ".*"))
    queues = [queue for _, queue in sorted(vhost.queues.items())
              if matcher.search(queue.name) and not queue.exclusive and may_read(call, vhost.name, queue.name)]
    told = await _figures(call, queues)
    rows = [_row(call, queue) | told.get(queue.name, {"state": "down"}) for queue in queues]
    if call.query.get("copies") == "true":
        await _add_copies(call, rows)
    return Answer(200, {"version": __version__, "format": FORMAT, "cluster": call.broker.cluster_name, "queues": rows})


def _matcher(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern)
    except PatternError as fault:
        raise bad_request(f"the pattern of queues is no regular expression: {fault}") from None


def _row(call: Call, queue: Queue) -> Json:
    is_here = call.broker.serving(queue) is not None
    node = call.broker.node_name if is_here else queue.home
    members = [{"node": each, "url": _url(call, each)} for each in _members(call, queue, node)]
    return {"name": queue.name, "vhost": queue.vhost, "id": f"{queue.log_id:x}", "node": node, "durable": queue.durable,
            "url": "" if is_here else _url(call, node), "members": members}


def _members(call: Call, queue: Queue, leader: str) -> list[str]:
    """Who can answer for the log, its leader first: the ring, as far as it is up."""
    forwarding = call.broker.forwarding
    front = forwarding.mirrored.get(queue.log_id)
    ring = () if front is None else front.holders
    return [leader, *(node for node in ring if node != leader and not forwarding.is_gone(node))]


def _url(call: Call, node: str) -> str:
    info = call.runtime.cluster.membership.running.get(node)
    if info is None or not info.about.get("http_port"):
        return ""
    return f"http://{info.host}:{info.about['http_port']}{call.runtime.config.management_path_prefix}"


async def _figures(call: Call, queues: list[Queue]) -> dict[str, Json]:
    """As their leaders tell; of a queue whose leader does not answer, as a mirror knows it."""
    me, found = call.broker.node_name, dict[str, Json]()
    leaders = {queue.log_id: me if call.broker.serving(queue) is not None else queue.home for queue in queues}
    await _ask(call, leaders, found)
    silent = [queue for queue in queues if str(queue.log_id) not in found]
    mirrors = {queue.log_id: (_members(call, queue, leaders[queue.log_id])[1:] or [""]) for queue in silent}
    await _ask(call, {log_id: me if me in nodes else nodes[0] for log_id, nodes in mirrors.items() if nodes[0]}, found)
    return {queue.name: found[str(queue.log_id)] for queue in queues if str(queue.log_id) in found}


async def _ask(call: Call, whom: dict[int, str], found: dict[str, Json]) -> None:
    me = call.broker.node_name
    ids: dict[str, list[int]] = {}
    for log_id, node in whom.items():
        ids.setdefault(node, []).append(log_id)
    found |= figures_here(call.state, ids.pop(me, []))
    answers = await asyncio.gather(*(call.runtime.cluster.ask(node, "feed", {"ids": wanted}) for node, wanted in ids.items()))
    for answer in answers:
        found |= answer or {}


async def _add_copies(call: Call, rows: list[Json]) -> None:
    """What each member says of its own copy."""
    for node in {member["node"] for row in rows for member in row["members"]}:
        found: dict[str, Json] = {}
        held = [row for row in rows if any(member["node"] == node for member in row["members"])]
        await _ask(call, {int(row["id"], 16): node for row in held}, found)
        for row in held:
            figures = found.get(str(int(row["id"], 16)))
            row.setdefault("copies", [])
            if figures is not None:
                row["copies"].append({"node": node, "earliest": figures["earliest"], "end": figures["end"]})


def figures_here(state: State, ids: list[int]) -> dict[str, Json]:
    """Of the logs that are here, by log id."""
    logs = state.runtime.logs
    found: dict[str, Json] = {}
    for log_id in ids:
        queue, copy = state.broker.queues_by_log.get(log_id), logs.copy(log_id)
        queue = queue or (None if copy is None else copy.front)
        if queue is not None:
            state.runtime.lake_mirrors.hold_one(queue)
            end = logs.stable_end(log_id)
            if end < queue.builder.next_index:
                logs.settle(log_id)
            found[str(log_id)] = {
                "state": _state(state, queue), "earliest": min(logs.earliest(log_id), end), "end": end,
                "epoch": queue.builder.epoch if copy is None else copy.state.epoch,
                "lineage": logs.lineage(log_id), "lake_mirrors": state.runtime.lake_mirrors.show(queue),
            }  # fmt: skip
    return found


def _state(state: State, queue: Queue) -> str:
    if queue.damage:
        return "crashed"
    return "settling" if state.runtime.logs.is_catching_up(queue.log_id) else "running"


async def figures_for_other(state: State, about: Json) -> dict[str, Json]:
    return figures_here(state, about["ids"])


# --- the log of one -----------------------------------------------------------------------------------------------------


def _queue(call: Call, suffix: str = "", *, is_copy_enough: bool = False) -> Queue:
    """The queue of the path, if it is here and the caller may read it; raises a redirection where it is elsewhere."""
    vhost = call.vhost()
    name = call.args["name"]
    if not may_read(call, vhost.name, name):
        raise not_authorised(f"read access to queue '{name}' in vhost '{vhost.name}' refused for user '{call.principal.name}'")
    queue = vhost.queues.get(name)
    if queue is None:
        raise ApiError(404, "not_found", f"no queue '{name}' in vhost '{vhost.name}'")
    here = call.broker.serving(queue)
    if here is not None:
        return here
    if not is_copy_enough or call.runtime.logs.copy(queue.log_id) is None:
        send_to_home(call, queue, suffix)
    return queue


def send_to_home(call: Call, queue: Queue, suffix: str) -> NoReturn:
    url = _url(call, queue.home)
    if not url or queue.home == call.broker.node_name:
        raise unavailable(f"node '{queue.home}', which has the log of queue '{queue.name}', is down or not ready")
    place = f"/api/feed/{quote(queue.vhost, safe='')}/{quote(queue.name, safe='')}{suffix}?{urlencode(call.query)}"
    raise ApiError(307, "elsewhere", f"the log is on node {queue.home}", {"location": url + place})


async def read_feed(call: Call) -> Answer:
    queue = _queue(call, is_copy_enough=True)
    wanted = call.query.get("id")
    if wanted is not None and wanted != f"{queue.log_id:x}":
        raise ApiError(410, "replaced", f"queue '{queue.name}' was deleted and declared anew: its log {wanted} is gone")
    first = max(1, _integer(call, "first", 1))
    upto = _integer(call, "upto", 1 << 62)
    limit = min(max(_integer(call, "max_bytes", MAX_BYTES // 2), 1), MAX_BYTES)
    end = await _stable_end(call, queue, first, min(_integer(call, "wait", 0), int(MAX_WAIT)))
    _check_range(call, queue, first, end)
    meter = call.state.meter
    async with meter.readers:
        body = await _read(call, queue, first, min(end, upto), limit)
    await meter.take(body.size, call.broker.global_parameters.get(RATE))
    return Answer(200, body, {"content-type": CHUNKS, "x-mirrormq-end": str(end), "x-mirrormq-format": FORMAT,
                              "x-mirrormq-queue-id": f"{queue.log_id:x}", "x-mirrormq-version": __version__,
                              "x-mirrormq-node": call.broker.node_name})


def _integer(call: Call, name: str, default: int) -> int:
    return as_integer(call.query.get(name, default))


async def _stable_end(call: Call, queue: Queue, first: int, wait: float) -> int:
    """Where the log ends; waits for its first entry from `first` on if the caller has the time."""
    logs = call.runtime.logs
    began = time.monotonic()
    is_settled = False
    while True:
        end = logs.stable_end(queue.log_id)
        waited = time.monotonic() - began
        if end > first or queue.is_deleted or waited >= wait:
            return end
        if not is_settled and waited > SETTLE_AFTER and end < queue.builder.next_index:
            logs.settle(queue.log_id)
            is_settled = True
        await asyncio.sleep(POLL)


def _check_range(call: Call, queue: Queue, first: int, end: int) -> None:
    logs = call.runtime.logs
    if queue.is_away and (first > end or first < min(logs.earliest(queue.log_id), end)):
        send_to_home(call, queue, "")
    if logs.is_catching_up(queue.log_id) and first > end:
        raise unavailable(f"queue '{queue.name}' has just changed its leader; try again")
    if first > end:
        raise ApiError(416, "beyond_end", f"the log of queue '{queue.name}' ends before index {end}, and {first} was asked for")
    earliest = logs.earliest(queue.log_id)
    if first < min(earliest, end):
        raise ApiError(410, "trimmed", f"entries {first} to {earliest - 1} of queue '{queue.name}' are gone from the log; "
                                       f"it begins at {earliest}", {"x-mirrormq-earliest": str(earliest)})


async def _read(call: Call, queue: Queue, first: int, end: int, limit: int) -> Pieces:
    """Chunks up to `end`, which may lie within one, about `limit` bytes of them."""
    slices: list[bytes] = []
    left = limit
    while first < end and left > 0:
        try:
            found = call.runtime.logs.read(queue.log_id, first, min(left, SLICE))
        except QueueDamaged as problem:
            raise ApiError(500, "damaged", str(problem)) from None
        if not found:
            if slices:
                break
            _check_range(call, queue, first, end)
            raise unavailable(f"queue '{queue.name}' does not answer for its entries from {first} on; try again")
        pieces: list[bytes] = []
        for chunk in found:
            head = decode_chunk(chunk, 0)
            if head.first_index < end:
                pieces.append(chunk if head.next_index <= end else sliced(chunk, head.first_index, end))
                left -= len(chunk)
                first = head.next_index
        slices.append(b"".join(pieces))
        if decode_chunk(found[-1], 0).first_index >= end:
            break
        await asyncio.sleep(0)
    return Pieces(slices)


async def find_time(call: Call) -> Answer:
    queue = _queue(call, "/at")
    index = index_at(call.runtime.logs, queue.log_id, _integer(call, "time", 0))
    return Answer(200, {"index": index, "id": f"{queue.log_id:x}"})


async def find_span(call: Call) -> Answer:
    queue = _queue(call, "/span")
    upto, size = call.runtime.logs.span(queue.log_id, max(1, _integer(call, "first", 1)), _integer(call, "bytes", MAX_BYTES))
    return Answer(200, {"index": upto, "bytes": size, "id": f"{queue.log_id:x}"})


# --- lake mirrors -------------------------------------------------------------------------------------------------------


def _mirror(call: Call) -> Json | None:
    value = call.broker.parameters.get((COMPONENT, call.vhost().name, call.args["name"]))
    return dict(value) if isinstance(value, dict) else None


def _require_member(call: Call) -> str:
    vhost = call.vhost().name
    principal = call.principal
    if not (principal.is_local or call.broker.authority.vhost_allowed(principal.name, vhost)):
        raise not_authorised(f"access to vhost '{vhost}' refused for user '{principal.name}'")
    return vhost


def show_mirror(call: Call) -> Answer:
    _require_member(call)
    value = _mirror(call)
    if value is None:
        raise not_found()
    return Answer(200, {"name": call.args["name"], "vhost": call.args["vhost"], **value})


def list_mirrors(call: Call) -> Answer:
    vhost = _require_member(call)
    found = [mirror for mirror in call.runtime.lake_mirrors.everyone() if mirror.vhost == vhost]
    rows = [{"name": mirror.name, "vhost": vhost, "pattern": mirror.pattern, "lease": mirror.lease, "renewed": mirror.renewed,
             "max-bytes": mirror.max_bytes, "queues": mirror.acknowledged} for mirror in found]
    return Answer(200, rows)


def put_mirror(call: Call) -> Answer:
    """Register, renew the lease, acknowledge: what is not said stays as it was. A mirror goes back only if it says `rewind`."""
    vhost = _require_member(call)
    before = _mirror(call)
    value: Json = before or {"pattern": ".*", "queues": {}}
    body = call.body
    _matcher(str(body.get("pattern", ".*")))
    for name in ("pattern", "lease", "max-bytes"):
        if name in body:
            value[name] = str(body[name]) if name == "pattern" else as_integer(body[name])
    acknowledged = dict(value.get("queues") or {})
    for log_id, index in _table(body.get("queues")).items():
        known = 0 if body.get("rewind") is True else acknowledged.get(log_id, 0)
        acknowledged[str(log_id)] = max(known, as_integer(index))
    value["queues"] = _living(call, LakeMirror(vhost, call.args["name"], value), acknowledged)
    value["renewed"] = call.broker.now
    rules.put_parameter(call.broker, COMPONENT, vhost, call.args["name"], value)
    return created(is_new=before is None)


def _table(value: object) -> Json:
    if value is not None and not isinstance(value, dict):
        raise bad_request("queues are not a JSON object")
    return value or {}


def _living(call: Call, mirror: LakeMirror, acknowledged: dict[str, int]) -> dict[str, int]:
    """Only queues that there are: the record must not grow with every queue that ever was."""
    ids = {f"{queue.log_id:x}" for queue in call.vhost().queues.values() if mirror.covers(queue)}
    return {log_id: index for log_id, index in acknowledged.items() if log_id in ids}


def delete_mirror(call: Call) -> Answer:
    vhost = _require_member(call)
    if _mirror(call) is None:
        raise not_found()
    rules.delete_parameter(call.broker, COMPONENT, vhost, call.args["name"])
    return done()
