"""Exchanges: list, show, declare, delete. In a path the default exchange goes by `amq.default`."""

from __future__ import annotations

from typing import Final

from mirrormq.admin.call import Answer, Call, Json, created, done
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queue_view import span_of
from mirrormq.admin.queues import perform
from mirrormq.admin.values import from_table, new_name, to_table
from mirrormq.broker.broker import Broker
from mirrormq.broker.exchange import PREDECLARED, Exchange
from mirrormq.wire.methods import ExchangeDeclare, ExchangeDelete

DEFAULT: Final = "amq.default"
_BUILT_IN: Final = frozenset(name for name, _ in PREDECLARED)


def real_name(name: str) -> str:
    return "" if name == DEFAULT else name


def describe(exchange: Exchange) -> Json:
    row: Json = {
        "arguments": from_table(exchange.arguments), "auto_delete": exchange.auto_delete, "durable": exchange.durable,
        "internal": exchange.internal, "name": exchange.name,
    }  # fmt: skip
    if exchange.policy:
        row["policy"] = exchange.policy
    who = "rmq-internal" if exchange.name in _BUILT_IN else "unknown"
    return row | {"type": exchange.type, "user_who_performed_action": who, "vhost": exchange.vhost}


def _settle_counts(broker: Broker) -> None:
    """Publishes are counted by route; the exchanges get to know of them when somebody asks."""
    for connection in broker.routed:
        for route in connection.routes.values():
            route.settle()


def _show(call: Call, exchange: Exchange) -> Json:
    counters = {"publish_in": int(exchange.published_in), "publish_out": int(exchange.published_out)}
    row = describe(exchange)
    if exchange.published_in:
        span = span_of(call.query, "msg_rates")
        key = ("exchange", exchange.vhost, exchange.name)
        figures = call.state.rates.look(key, counters, call.broker.now, keep=span is not None)
        row["message_stats"] = figures.fields(counters, span)
    return row


async def list_exchanges(call: Call) -> Answer:
    exchanges = [
        exchange for vhost in call.vhosts() for exchange in sorted(vhost.exchanges.values(), key=lambda item: item.name)
    ]
    _settle_counts(call.broker)
    rows = Rows(exchanges, lambda one: _show(call, one), lambda one: one.name, lambda one: one.vhost)
    return await answer_rows(call, rows, is_paged=True)


def _one(call: Call) -> Exchange:
    exchange = call.vhost().exchanges.get(real_name(call.args["name"]))
    if exchange is None:
        raise not_found()
    return exchange


def show_exchange(call: Call) -> Answer:
    exchange = _one(call)
    _settle_counts(call.broker)
    return answer_one(call, {"incoming": [], "outgoing": [], **_show(call, exchange)})


async def declare_exchange(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    name, body = real_name(new_name(call.args["name"])), call.body
    type = body.get("type", "direct")
    if not isinstance(type, str):
        raise bad_request(["not_string", type])
    is_new = name not in vhost.exchanges
    await perform(call, ExchangeDeclare(
        name, type, durable=call.boolean("durable", default=False),
        auto_delete=call.boolean("auto_delete", default=False), internal=call.boolean("internal", default=False),
        arguments=to_table(body.get("arguments"))))
    return created(is_new=is_new)


async def delete_exchange(call: Call) -> Answer:
    exchange = _one(call)
    await perform(call, ExchangeDelete(exchange.name, if_unused=call.flag("if-unused")))
    return done()
