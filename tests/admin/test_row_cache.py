"""Rows that are told from memory are the rows that would be worked out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from compat.support import eventually
from mirrormq.admin.rates import FORGET_AFTER, Rates
from mirrormq.admin.row_cache import GROUP, Memory, Rows, Teller

from .conftest import Connect
from .support import Node

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def node(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Its statistics interval is short, so that queues are quiet soon."""
    directory: Path = tmp_path_factory.mktemp("cached")
    (directory / "node.conf").write_text("collect_statistics_interval = 100\n")
    server = Node(directory, "--config", str(directory / "node.conf"), name="cached@localhost")
    server.start()
    yield server
    server.stop()


def row(node: Node, vhost: str, query: str = "") -> dict[str, Any]:
    return dict(node.api("GET", f"/api/queues/{vhost}{query}")[0])


def until_quiet(node: Node, vhost: str) -> dict[str, Any]:
    """Looked at until nothing has changed for a while."""
    def looked() -> Any:
        found = row(node, vhost)
        return found if "idle_since" in found and row(node, vhost) == found else None

    return dict(eventually(looked, every=0.15))


def test_a_quiet_queue_is_shown_as_it_is_and_every_change_at_once(node: Node, vhost: str, connect: Connect):
    connection = connect()
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    before = until_quiet(node, vhost)
    alone = node.api("GET", f"/api/queues/{vhost}/q")
    assert {name: alone[name] for name in before if "details" not in name} == {
        name: value for name, value in before.items() if "details" not in name}
    node.set_policy(vhost, "short", "q", {"max-length": 7})
    assert (row(node, vhost)["policy"], row(node, vhost)["effective_policy_definition"]) == ("short", {"max-length": 7})
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x", pika.BasicProperties(delivery_mode=2))
    assert (row(node, vhost)["messages"], row(node, vhost)["messages_persistent"]) == (1, 1)
    until_quiet(node, vhost)
    assert row(node, vhost)["message_stats"]["publish"] == 1
    channel.basic_get("q")
    assert row(node, vhost)["messages_unacknowledged"] == 1
    until_quiet(node, vhost)
    connection.close()
    assert eventually(lambda: row(node, vhost)["messages_ready"] == 1)


def test_columns_and_samples_get_what_they_ask_for(node: Node, vhost: str, connect: Connect):
    connect().channel().queue_declare("q")
    until_quiet(node, vhost)
    for _ in range(3):
        assert row(node, vhost, "?columns=name,messages") == {"name": "q", "messages": 0}
        assert row(node, vhost, "?columns=name") == {"name": "q"}
        assert "samples" in row(node, vhost, "?lengths_age=60&lengths_incr=5")["messages_details"]
        assert "samples" not in row(node, vhost)["messages_details"]


def test_a_queue_made_anew_is_another_one(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q", durable=True)
    until_quiet(node, vhost)
    channel.queue_delete("q")
    channel.queue_declare("q", durable=False)
    assert row(node, vhost)["durable"] is False


def test_consumers_show_at_once(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q")
    until_quiet(node, vhost)
    tag = channel.basic_consume("q", lambda *_: None)
    assert (row(node, vhost)["consumers"], row(node, vhost)["consumer_capacity"]) == (1, 1.0)
    until_quiet(node, vhost)
    channel.basic_cancel(tag)
    assert row(node, vhost)["consumers"] == 0


# --- connections and channels ---------------------------------------------------------------------------------------------


def until_kept(node: Node, path: str) -> None:
    """Rates are known and zero, and the row is as it was."""
    def looked() -> bool:
        [found] = node.api("GET", path)
        return found == node.api("GET", path)[0]

    eventually(looked, every=0.15)
    eventually(looked, every=0.15)


def test_a_quiet_connection_shows_every_change_at_once(node: Node, vhost: str, connect: Connect):
    connection, path = connect(), f"/api/vhosts/{vhost}/connections"
    until_kept(node, path)
    before = node.api("GET", path)[0]
    channels = [connection.channel() for _ in range(2)]
    [after] = node.api("GET", path)
    assert (before["channels"], after["channels"]) == (0, 2)
    assert after["recv_oct"] > before["recv_oct"]
    channels[0].close()
    assert node.api("GET", path)[0]["channels"] == 1


def test_a_quiet_channel_shows_every_change_at_once(node: Node, vhost: str, connect: Connect):
    channel, path = connect().channel(), f"/api/vhosts/{vhost}/channels"
    queue = channel.queue_declare("", exclusive=True).method.queue
    until_kept(node, path)
    channel.basic_consume(queue, lambda *_: None)
    assert node.api("GET", path)[0]["consumer_count"] == 1
    until_kept(node, path)
    channel.basic_qos(prefetch_count=7)
    assert node.api("GET", path)[0]["prefetch_count"] == 7
    until_kept(node, path)
    channel.tx_select()
    assert node.api("GET", path)[0]["transactional"] is True
    channel.basic_publish("", queue, b"x")
    assert eventually(lambda: node.api("GET", path)[0]["messages_uncommitted"] == 1)


@pytest.mark.parametrize("column", [
    "messages", "messages_ready", "consumers", "message_bytes", "policy", "state", "node", "durable"])
def test_lists_are_sorted_by_what_their_rows_show(node: Node, vhost: str, connect: Connect, column: str):
    channel = connect().channel()
    channel.confirm_delivery()
    for number in (2, 0, 1):
        channel.queue_declare(f"q{number}", durable=number == 1)
        for _ in range(number):
            channel.basic_publish("", f"q{number}", b"x")
    channel.basic_consume("q0", lambda *_: None)
    node.set_policy(vhost, "second", "q2", {"max-length": 7})
    plain = node.api("GET", f"/api/queues/{vhost}")
    wanted = sorted((row[column] for row in plain), key=lambda value: (value is not None, value or 0))
    assert [row[column] for row in node.api("GET", f"/api/queues/{vhost}?sort={column}&page=1")["items"]] == wanted


# --- many at once ---------------------------------------------------------------------------------------------------------


def test_among_many_quiet_queues_every_change_shows_at_once(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.confirm_delivery()
    names = [f"q{number:03}" for number in range(0, 3 * GROUP, 2)]
    for name in names:
        channel.queue_declare(name)

    def rows() -> dict[str, Any]:
        return {row["name"]: row for row in node.api("GET", f"/api/queues/{vhost}")}

    def looked() -> bool:
        before = rows()
        return all("idle_since" in row for row in before.values()) and rows() == before

    for _ in range(2):
        eventually(looked, every=0.15)
    channel.basic_publish("", names[70], b"x")
    assert {name: row["messages"] for name, row in rows().items() if row["messages"]} == {names[70]: 1}
    channel.queue_declare("q001")
    assert list(rows()) == sorted([*names, "q001"])
    channel.queue_delete(names[5])
    assert list(rows()) == sorted([*names[:5], *names[6:], "q001"])
    node.set_policy(vhost, "last", f"^{names[-1]}$", {"max-length": 7})
    assert {name for name, row in rows().items() if row["policy"] == "last"} == {names[-1]}


class Thing:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0


def teller(rates: Rates, rows: Rows, now: int) -> Callable[[list[Thing]], str]:
    """Shows things at a moment as their counts and rates."""
    def show(thing: Thing) -> str:
        figures = rates.look((thing.name,), {"count": thing.count}, now)
        return f"{thing.name} {thing.count} at {figures.rates.get('count')}"

    memory: Memory[Thing] = Memory(
        lambda thing: (thing.name,), lambda thing: {"count": thing.count}, lambda thing: (thing.count,),
        together=lambda things: [(thing.name, thing.count) for thing in things])
    telling = Teller(memory, memory.rows(rows.by_key, show, rates, now), rates, now)
    return lambda things: telling.tell(rows, rows.groups("all", len(things)), 0, things).decode()


def test_rates_of_what_was_told_together_are_of_the_time_since_the_last_look():
    rates, rows, things = Rates(5000), Rows(), [Thing("a"), Thing("b")]
    for now in range(0, 20_000, 1000):
        told = teller(rates, rows, now)(things)
    assert told == "a 0 at 0.0,b 0 at 0.0"
    assert rows.groups("all", 2)[0].looked == 19_000
    things[0].count = 30
    assert teller(rates, rows, 20_000)(things) == "a 30 at 0.0,b 0 at 0.0"
    assert rows.groups("all", 2) == {}
    assert teller(rates, rows, 25_000)(things) == "a 30 at 5.0,b 0 at 0.0"


def test_things_told_together_for_long_are_not_forgotten_and_a_reset_takes_them_apart():
    rates, rows, things = Rates(5000), Rows(), [Thing("a")]
    for now in range(0, 10 * FORGET_AFTER, 1000):
        teller(rates, rows, now)(things)
    rates.look(("another",), {}, 10 * FORGET_AFTER)     # something new is when what nobody looks at is forgotten
    assert rates.is_still(("a",))
    rates.reset()
    assert teller(rates, rows, 10 * FORGET_AFTER)(things) == "a 0 at None"
