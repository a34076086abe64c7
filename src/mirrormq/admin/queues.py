"""Queues: list, show, declare, delete, purge, and the actions on mirrors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Final

from mirrormq.admin.call import Answer, Call, Json, State, created, done
from mirrormq.admin.census import Scope
from mirrormq.admin.errors import ApiError, bad_request, from_broker, missing, not_found
from mirrormq.admin.listing import answer_one
from mirrormq.admin.mirrors import MIRRORED
from mirrormq.admin.queue_census import QueueCensus, show_alone
from mirrormq.admin.rings import require
from mirrormq.admin.session import Session
from mirrormq.admin.values import OCTET, new_name, to_table
from mirrormq.broker import rules
from mirrormq.broker.auth import User
from mirrormq.broker.broker import Broker
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.ops_queue import check_deletable
from mirrormq.broker.policy import Policy, match, merge
from mirrormq.broker.queue import Queue
from mirrormq.broker.stability import Barrier
from mirrormq.broker.stopping import out_of_service, stop_queue
from mirrormq.node.patience import StoreUnheard
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.methods import Method, QueueDeclare, QueueDelete, QueuePurge
from mirrormq.wire.table import Table

ACTIONS = ("sync", "cancel_sync", "move")


def _one(call: Call) -> Queue:
    queue = call.vhost().queues.get(call.args["name"])
    if queue is None:
        raise not_found()
    return queue


async def list_queues(call: Call) -> Answer:
    return await QueueCensus(call.state, call.query, Scope(vhosts=call.vhost_names())).answer()


async def show_queue(call: Call) -> Answer:
    row = await show_alone(call.state, _one(call), call.query)
    if row is None:
        raise not_found()
    return answer_one(call, row)


async def declare_queue(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    name, body = new_name(call.args["name"]), call.body
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > OCTET:
        raise bad_request(f"queue should be less than {OCTET} bytes, actually was {size}\n")
    is_new = name not in vhost.queues
    method = QueueDeclare(
        name, durable=call.boolean("durable", default=False), auto_delete=call.boolean("auto_delete", default=False),
        arguments=_copy_arguments(call, to_table(body.get("arguments"))))
    change_mirrors = _mirrors_to_change(call, name) if "mirrored" in body else None
    if "node" in body:
        with call.runtime.placing.wish(vhost.name, name, _running_node(call, body["node"])):
            await perform(call, method)
    else:
        await perform(call, method)
    if change_mirrors is not None:
        change_mirrors()
    return created(is_new=is_new)


def _copy_arguments(call: Call, arguments: Table) -> Table:
    """`copy_from` and `routing_key` of the body are the arguments of a copy queue."""
    for word, argument in (("copy_from", "x-copy-from"), ("routing_key", "x-copy-routing-key")):
        if word not in call.body:
            continue
        value = call.body[word]
        if not isinstance(value, str):
            raise bad_request(f"{word} is no text")
        if arguments.get(argument, value) != value:
            raise bad_request(f"{word} and the argument {argument} differ")
        arguments[argument] = value
    if "routing_key" in call.body and "x-copy-from" not in arguments:
        raise bad_request("routing_key says which messages are copied: copy_from is missing, which says from where")
    return arguments


def _mirrors_to_change(call: Call, name: str) -> Callable[[], None] | None:
    """What `mirrored` of the body asks for: a policy for this queue alone, which keeps what the policy says that it replaces.
    Refused before anything is declared where the caller may not do it, or where another policy decides."""
    broker, vhost = call.broker, call.vhost_to_change().name
    wanted = call.boolean("mirrored", default=False)
    user = match(broker.policies.values(), vhost, name, "queue")
    operator = match(broker.operator_policies.values(), vhost, name, "queue")
    if wanted == (MIRRORED in merge(user, operator)):
        return None
    call.principal.require_policymaker(vhost)
    own = f"mirrored-{name}"
    if not wanted:
        decides = operator if operator is not None and MIRRORED in operator.definition else user
        assert decides is not None
        if decides is not user or decides.name != own:
            raise bad_request(f"queue '{name}' is mirrored by policy '{decides.name}', whatever is declared")
        return lambda: _remove_policy(broker, vhost, own)
    definition = ({} if user is None else user.definition) | {MIRRORED: "all", "ha-sync-mode": "automatic"}
    priority = 0 if user is None else user.priority + 1
    policy = Policy(vhost, own, f"^{re.escape(name)}$", "queues", dict(sorted(definition.items())), priority)
    return lambda: rules.put_policy(broker, policy, operator=False)


def _remove_policy(broker: Broker, vhost: str, name: str) -> None:
    rules.delete_policy(broker, vhost, name, operator=False)


def _running_node(call: Call, name: object) -> str:
    if not isinstance(name, str) or name not in call.runtime.cluster.membership.running:
        raise bad_request(f"Node {name} could not be contacted")
    return name


async def perform(call: Call, method: Method) -> None:
    """As the caller's client would do it in the virtual host of the path. The command line of this machine may declare a queue
    without permissions."""
    user = call.principal.user
    if call.principal.is_local and isinstance(method, QueueDeclare):
        user = User(user.name, tags=user.tags, is_operator=True)
    try:
        with Session(call.broker, user, call.vhost_to_change()) as session:
            await session.do(method)
    except AMQPError as error:
        raise from_broker(error) from None


async def delete_queue(call: Call) -> Answer:
    queue = _one(call)
    if_unused, if_empty = call.flag("if-unused"), call.flag("if-empty")
    if isinstance(queue, AwayQueue) and queue.is_mirrored and (queue.is_hopeless() or await _is_lost(call, queue)):
        require(call, queue.name, "configure")
        if if_empty:
            raise from_broker(queue.may_hold_messages())
        _heed(await _delete_here(call.state, queue, {"if_unused": False, "if_empty": False}))
    elif call.principal.is_local:
        await _at_home(call, queue, "delete", if_unused=if_unused, if_empty=if_empty)
    else:
        await perform(call, QueueDelete(queue.name, if_unused=if_unused, if_empty=if_empty))
    return done()


async def purge_queue(call: Call) -> Answer:
    queue = _one(call)
    if call.principal.is_local:
        await _at_home(call, queue, "purge")
    else:
        await perform(call, QueuePurge(queue.name))
    return done()


async def _at_home(call: Call, queue: Queue, what: str, **conditions: bool) -> None:
    """For a caller who needs no permissions: what is to be done is done by the node that has the queue."""
    here = call.state.broker.serving(queue)
    if here is not None:
        told = await DEEDS[what](call.state, here, conditions)
    else:
        assert isinstance(queue, AwayQueue)
        about = {"vhost": queue.vhost, "name": queue.name, "conditions": conditions}
        told = await call.runtime.cluster.ask(queue.home, what, about)
        if told is None:
            raise missing(queue.home_is_down().text)
    _heed(told)


def _heed(told: Json) -> None:
    if told["status"] >= 400:
        raise ApiError(told["status"], told["error"], told["reason"])


async def _is_lost(call: Call, queue: AwayQueue) -> bool:
    """The only copy in sync is damaged or gone, so that there is nobody to ask."""
    if len(queue.holders) != 1:
        return False
    points = await call.runtime.orders.standpoints(queue)
    return points.get(queue.home, {}).get("is_lost") is True


async def _delete_here(state: State, queue: Queue, conditions: Mapping[str, bool]) -> Json:
    journal = state.broker.journal
    try:
        while not queue.is_deleted:         # a proposal that was lost is made anew, on what is there now
            check_deletable(queue, if_unused=conditions["if_unused"], if_empty=conditions["if_empty"])
            before = journal.written
            state.broker.delete_queue(queue)
            await state.runtime.agreed(before)
    except AMQPError as error:
        refusal = from_broker(error)
        return {"status": refusal.status, "error": refusal.error, "reason": refusal.reason}
    except StoreUnheard as fault:
        return {"status": 503, "error": "service_unavailable", "reason": str(fault)}
    return {"status": 204}


async def _purge_here(state: State, queue: Queue, _: Mapping[str, bool]) -> Json:
    purged = Stable()
    try:
        queue.purge()
    except Exception as fault:  # noqa: BLE001 - whatever is wrong with the queue, it is the queue that is out of service
        stop_queue(state.broker, queue, fault)
        purged.is_lost = True
        purged.passed()
    else:
        queue.wait_for_chunk(purged)
        state.runtime.schedule()
    if await purged.future:
        return {"status": 204}
    refusal = from_broker(out_of_service(queue))
    return {"status": refusal.status, "error": refusal.error, "reason": refusal.reason}


class Stable(Barrier):
    """Tells whether what it waits for has become stable."""

    def __init__(self) -> None:
        super().__init__()
        self.future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def passed(self) -> None:
        if not self.future.done():
            self.future.set_result(not self.is_lost)


DEEDS: Final = {"delete": _delete_here, "purge": _purge_here}


async def act_for_other(what: str, state: State, about: Json) -> Json:
    """Another node wants this done with a queue of this node."""
    vhost = state.broker.vhosts.get(about["vhost"])
    known = None if vhost is None else vhost.queues.get(about["name"])
    queue = None if known is None else state.broker.serving(known)
    if queue is None and isinstance(known, AwayQueue) and known.is_mirrored and known.home == state.broker.node_name:
        return {"status": 404, "error": "not_found", "reason": known.home_is_down().text}
    if queue is None:
        return {"status": 404, "error": "Object Not Found", "reason": "Not Found"}
    return await DEEDS[what](state, queue, about["conditions"])


async def act_on_queue(call: Call) -> Answer:
    """RabbitMQ answers nothing, whatever came of it; `tell` asks for the word that its command line shows. `move` is ours."""
    queue, action, mirrors = _one(call), call.need("action"), call.state.mirrors
    if action not in ACTIONS:
        raise bad_request(["unknown", action])
    if action == "move":
        await mirrors.move(queue, str(call.need("node")))
        return done()
    result = await (mirrors.sync(queue) if action == "sync" else mirrors.cancel_sync(queue))
    return Answer(200, {"result": result}) if call.boolean("tell", default=False) else done()
