"""Bindings: list, make and remove. Every queue is shown bound to the default exchange by its own name."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from mirrormq.admin.call import Answer, Call, Json, done
from mirrormq.admin.errors import bad_request, not_found
from mirrormq.admin.exchanges import real_name
from mirrormq.admin.listing import Rows, answer_one, answer_rows
from mirrormq.admin.queues import perform
from mirrormq.admin.values import OCTET, from_table, to_table
from mirrormq.broker.bindings import Binding, Destination
from mirrormq.broker.vhost import VirtualHost
from mirrormq.wire.methods import ExchangeBind, ExchangeUnbind, Method, QueueBind, QueueUnbind
from mirrormq.wire.table import Table


def _show(binding: Binding) -> Json:
    return {
        "source": binding.source.name, "vhost": binding.source.vhost, "destination": binding.destination.name,
        "destination_type": binding.destination.kind, "routing_key": binding.routing_key,
        "arguments": from_table(binding.arguments), "properties_key": binding.properties_key,
    }  # fmt: skip


def _implied(vhost: VirtualHost, queues: Iterable[str]) -> list[Binding]:
    """The bindings to the default exchange, which keeps none itself."""
    default = vhost.exchanges[""]
    return [Binding(default, Destination(name, "queue"), name, {}) for name in queues]


def _order(binding: Binding) -> tuple[str, str, str, str]:
    return binding.source.name, binding.destination.kind, binding.destination.name, binding.routing_key


def _of_vhost(vhost: VirtualHost) -> list[Binding]:
    kept = [binding for exchange in vhost.exchanges.values() for binding in exchange.bindings()]
    return _implied(vhost, sorted(vhost.queues)) + sorted(kept, key=_order)


async def _answer(call: Call, bindings: list[Binding]) -> Answer:
    return await answer_rows(call, Rows(bindings, _show))


async def list_bindings(call: Call) -> Answer:
    return await _answer(call, [binding for vhost in call.vhosts() for binding in _of_vhost(vhost)])


async def of_queue(call: Call) -> Answer:
    vhost, name = call.vhost(), call.args["name"]
    queue = vhost.queues.get(name)
    kept = [] if queue is None else _to(vhost, queue)
    return await _answer(call, _implied(vhost, [name]) + kept)


def _to(vhost: VirtualHost, destination: Destination) -> list[Binding]:
    sources = vhost.sources.get(destination, {})
    return sorted([binding for source in sources for binding in source.bindings_to(destination)], key=_order)


async def from_exchange(call: Call) -> Answer:
    vhost, name = call.vhost(), real_name(call.args["name"])
    if not name:
        return await _answer(call, _implied(vhost, sorted(vhost.queues)))
    exchange = vhost.exchanges.get(name)
    return await _answer(call, [] if exchange is None else sorted(exchange.bindings(), key=_order))


async def to_exchange(call: Call) -> Answer:
    vhost = call.vhost()
    exchange = vhost.exchanges.get(real_name(call.args["name"]))
    return await _answer(call, [] if exchange is None else _to(vhost, exchange))


# --- between two ----------------------------------------------------------------------------------------------------


def _destination(call: Call, vhost: VirtualHost) -> Destination | None:
    name = call.args["destination"]
    return vhost.queues.get(name) if call.args["kind"] == "q" else vhost.exchanges.get(real_name(name))


def _between(call: Call) -> list[Binding]:
    vhost = call.vhost()
    source = vhost.exchanges.get(real_name(call.args["source"]))
    destination = _destination(call, vhost)
    if source is None or destination is None:
        return []
    if source.name == "" and destination.kind == "queue":
        return _implied(vhost, [destination.name])
    return sorted(source.bindings_to(destination), key=_order)


async def list_between(call: Call) -> Answer:
    return await _answer(call, _between(call))


def _one(call: Call) -> Binding:
    for binding in _between(call):
        if binding.properties_key == call.args["properties"]:
            return binding
    raise not_found()


def show_one(call: Call) -> Answer:
    return answer_one(call, _show(_one(call)))


async def make_binding(call: Call) -> Answer:
    vhost = call.vhost_to_change()
    key = _routing_key(call.body.get("routing_key", ""))
    arguments = to_table(call.body.get("arguments"))
    names = real_name(call.args["source"]), real_name(call.args["destination"])
    if any(len(name.encode("utf-8", "surrogateescape")) > OCTET for name in (*names, key)):
        raise bad_request(f"a name or routing key has at most {OCTET} bytes")
    await perform(call, _bind(call, *names, key, arguments))
    source, destination = vhost.exchanges[call.args["source"]], _destination(call, vhost)
    assert destination is not None
    made = Binding(source, destination, key, arguments)
    place = f"{quote(destination.name, safe='')}/{quote(made.properties_key, safe='~')}"
    return Answer(201, headers={"location": place})


def _routing_key(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise bad_request(["not_string", value])
    return value


def _bind(call: Call, source: str, destination: str, key: str, arguments: Table) -> Method:
    if call.args["kind"] == "q":
        return QueueBind(destination, source, key, arguments=arguments)
    return ExchangeBind(destination, source, key, arguments=arguments)


async def remove(call: Call) -> Answer:
    binding = _one(call)
    source, destination = binding.source.name, binding.destination.name
    if call.args["kind"] == "q":
        await perform(call, QueueUnbind(destination, source, binding.routing_key, binding.arguments))
    else:
        await perform(call, ExchangeUnbind(destination, source, binding.routing_key, arguments=binding.arguments))
    return done()
