"""Queues and consumers: list, show, declare, delete, purge, and the actions on mirrors."""

from __future__ import annotations

from mirrormq.admin.call import Answer, Call, created, done
from mirrormq.admin.errors import bad_request, from_broker, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queue_view import QueueView, show_consumer
from mirrormq.admin.session import Session
from mirrormq.admin.values import to_table
from mirrormq.broker.ops_queue import check_deletable
from mirrormq.broker.queue import Queue
from mirrormq.wire.errors import AMQPError
from mirrormq.wire.methods import Method, QueueDeclare, QueueDelete, QueuePurge

ACTIONS = ("sync", "cancel_sync")


def _all(call: Call) -> list[Queue]:
    return [queue for vhost in call.vhosts() for queue in sorted(vhost.queues.values(), key=lambda queue: queue.name)]


def _one(call: Call) -> Queue:
    queue = call.vhost().queues.get(call.args["name"])
    if queue is None:
        raise not_found()
    return queue


async def list_queues(call: Call) -> Answer:
    view = QueueView(call.state, call.query)
    rows = Rows(_all(call), view.show, lambda queue: queue.name, lambda queue: queue.vhost)
    return await answer_rows(call, rows, is_paged=True)


def show_queue(call: Call) -> Answer:
    return answer_one(call, QueueView(call.state, call.query).show_whole(_one(call)))


def declare_queue(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    name, body = call.args["name"], call.body
    wanted = body.get("node")
    if wanted is not None and wanted != call.broker.node_name:
        raise bad_request(f"Node {wanted} could not be contacted")
    is_new = name not in vhost.queues
    perform(call, QueueDeclare(
        name, durable=call.boolean("durable", default=False), auto_delete=call.boolean("auto_delete", default=False),
        arguments=to_table(body.get("arguments"))))
    return created(is_new=is_new)


def perform(call: Call, method: Method) -> None:
    """As the caller's client would do it in the virtual host of the path."""
    try:
        with Session(call.broker, call.principal.user, call.vhost_to_change()) as session:
            session.do(method)
    except AMQPError as error:
        raise from_broker(error) from None


def delete_queue(call: Call) -> Answer:
    queue = _one(call)
    if_unused, if_empty = call.flag("if-unused"), call.flag("if-empty")
    if call.principal.is_local:
        try:
            check_deletable(queue, if_unused=if_unused, if_empty=if_empty)
        except AMQPError as error:
            raise from_broker(error) from None
        call.broker.delete_queue(queue)
    else:
        perform(call, QueueDelete(queue.name, if_unused=if_unused, if_empty=if_empty))
    return done()


def purge_queue(call: Call) -> Answer:
    queue = _one(call)
    if call.principal.is_local:
        queue.purge()
    else:
        perform(call, QueuePurge(queue.name))
    return done()


def act_on_queue(call: Call) -> Answer:
    """Mirrors are always brought in sync by themselves, so there is nothing to start or to cancel."""
    _one(call)
    action = call.need("action")
    if action not in ACTIONS:
        raise bad_request(["unknown", action])
    return done()


async def list_consumers(call: Call) -> Answer:
    node = call.broker.node_name
    consumers = [consumer for queue in _all(call) for consumer in queue.turns.everyone]
    return await answer_rows(call, Rows(consumers, lambda consumer: show_consumer(consumer, node)))
