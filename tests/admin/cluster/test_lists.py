"""Lists, objects and sums of a cluster: the same from every node."""

from __future__ import annotations

from typing import Any

import pytest

from admin.support import quote
from compat.support import eventually

from .conftest import Open
from .support import Member, Members

pytestmark = pytest.mark.live


def spread(members: Members, vhost: str, count: int = 9) -> list[str]:
    """Queues q0, q1, …, each on the next node, with so many messages as its number says."""
    names = [f"q{number}" for number in range(count)]
    for number, name in enumerate(names):
        node = members[number % 3]
        members[0].declare(vhost, name, node=node.name)
        for _ in range(number):
            publish(members[0], vhost, name)
    return names


def publish(node: Member, vhost: str, queue: str) -> None:
    body = {"routing_key": queue, "payload": "x", "payload_encoding": "string", "properties": {"delivery_mode": 2}}
    reply = node.ask("POST", f"/api/exchanges/{quote(vhost)}/amq.default/publish", body)
    assert reply.body == {"routed": True}


def stable(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what changes from one look to the next."""
    moving = ("details", "idle_since", "reductions", "memory", "message_stats", "garbage_collection")
    return {name: value for name, value in row.items() if not name.endswith(moving)}


def test_queues_of_all_nodes_are_listed_by_each(members: Members, vhost: str):
    names = spread(members, vhost)
    for member in members:
        rows = member.queues(vhost)
        assert [(row["name"], row["messages"]) for row in rows] == [(name, at) for at, name in enumerate(names)]
        assert [row["node"] for row in rows] == [members[at % 3].name for at in range(9)]
        assert {row["state"] for row in rows} == {"running"}
    lists = [[stable(row) for row in member.queues(vhost)] for member in members]
    assert lists[0] == lists[1] == lists[2]


def test_one_queue_is_shown_as_its_home_tells(members: Members, vhost: str, open_at: Open):
    members[0].declare(vhost, "orders", node="b@localhost", arguments={"x-max-length": 10})
    publish(members[0], vhost, "orders")
    channel = open_at(members[2]).channel()
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("orders", lambda *_: None, consumer_tag="mine")
    for member in members:
        row = eventually(lambda member=member: _held(member.queue(vhost, "orders")))
        assert (row["node"], row["arguments"], row["consumers"]) == ("b@localhost", {"x-max-length": 10}, 1)
        details = row["consumer_details"][0]
        assert (details["consumer_tag"], details["prefetch_count"]) == ("mine", 7)
        assert (details["channel_details"]["node"], details["channel_details"]["user"]) == ("c@localhost", "guest")


def _held(row: dict[str, Any]) -> dict[str, Any] | None:
    return row if row["messages_unacknowledged"] == 1 else None


@pytest.mark.parametrize(("query", "names"), [
    ("?page=1&page_size=4", ["q0", "q1", "q2", "q3"]),
    ("?page=3&page_size=4", ["q8"]),
    ("?page=1&page_size=4&sort=messages&sort_reverse=true", ["q8", "q7", "q6", "q5"]),
    ("?page=2&page_size=4&sort=messages&sort_reverse=true", ["q4", "q3", "q2", "q1"]),
    ("?page=1&page_size=3&sort=node", ["q0", "q3", "q6"]),
    ("?page=2&page_size=2&sort=node&sort_reverse=true", ["q8", "q1"]),
    ("?page=1&page_size=3&sort=name&sort_reverse=true", ["q8", "q7", "q6"]),
    ("?page=1&page_size=9&name=^q[135]$&use_regex=true&sort=backing_queue_status.len&sort_reverse=true", ["q5", "q3", "q1"]),
])  # fmt: skip
def test_pages_are_cut_from_the_list_of_the_whole_cluster(members: Members, vhost: str, query: str, names: list[str]):
    spread(members, vhost)
    for member in members:
        page = member.queues(vhost, query)
        assert [row["name"] for row in page["items"]] == names
        assert (page["total_count"], page["item_count"]) == (9, len(names))
        assert page["filtered_count"] == (3 if "name=" in query else 9)


def test_lists_may_be_sorted_and_narrowed_to_columns(members: Members, vhost: str):
    spread(members, vhost)
    for member in members:
        rows = member.queues(vhost, "?columns=name,node&sort=messages&sort_reverse=true")
        assert rows[:2] == [{"name": "q8", "node": "c@localhost"}, {"name": "q7", "node": "b@localhost"}]


def test_long_lists_come_whole(members: Members, vhost: str, open_at: Open):
    """Longer than one piece of an answer."""
    names = [f"long-{number:03}" for number in range(450)]
    channels = [open_at(member).channel() for member in members]
    for number, name in enumerate(names):
        channels[number % 2].queue_declare(name, durable=False)
    for member in members:
        assert [row["name"] for row in member.queues(vhost)] == names
        page = member.queues(vhost, "?page=5&page_size=100&sort=memory")
        assert (len(page["items"]), page["filtered_count"]) == (50, 450)


def test_clients_of_all_nodes_are_listed_by_each(members: Members, vhost: str, open_at: Open):
    members[0].declare(vhost, "work", node="a@localhost")
    for member in members:
        open_at(member).channel().basic_consume("work", lambda *_: None)
    everyone = members.names
    for member in members:
        rows = eventually(lambda member=member: _if_three(member.get(f"/api/vhosts/{quote(vhost)}/connections")))
        assert sorted(row["node"] for row in rows) == everyone
        assert [row["name"] for row in rows] == sorted(row["name"] for row in rows)
        channels = member.get(f"/api/vhosts/{quote(vhost)}/channels")
        assert sorted(row["node"] for row in channels) == everyone
        consumers = member.get(f"/api/consumers/{quote(vhost)}")
        assert sorted(row["channel_details"]["node"] for row in consumers) == everyone
        page = member.get(f"/api/vhosts/{quote(vhost)}/connections?page=2&page_size=2")
        assert (len(page["items"]), page["filtered_count"], page["items"][0]["name"]) == (1, 3, rows[2]["name"])


def _if_three(rows: list[Any]) -> list[Any] | None:
    return rows if len(rows) == 3 else None


def test_one_client_is_shown_by_every_node(members: Members, vhost: str, open_at: Open):
    members[0].declare(vhost, "work", node="a@localhost")
    channel = open_at(members[1]).channel()
    channel.basic_consume("work", lambda *_: None, consumer_tag="mine")
    name = members[1].get(f"/api/vhosts/{quote(vhost)}/connections")[0]["name"]
    for member in members:
        assert member.get(f"/api/connections/{quote(name)}")["node"] == "b@localhost"
        assert [row["number"] for row in member.get(f"/api/connections/{quote(name)}/channels")] == [1]
        whole = member.get(f"/api/channels/{quote(name + ' (1)')}")
        assert (whole["node"], whole["consumer_details"][0]["consumer_tag"]) == ("b@localhost", "mine")
        mine = member.get("/api/connections/username/guest")
        assert {"name": name, "node": "b@localhost", "user": "guest", "vhost": vhost} in mine
        assert member.ask("GET", f"/api/channels/{quote(name + ' (2)')}").status == 404
        assert member.ask("GET", "/api/connections/nobody").status == 404


def test_sums_are_over_all_nodes(members: Members, vhost: str, open_at: Open):
    spread(members, vhost, 6)
    clients = [open_at(member) for member in members]
    for client in clients:
        client.channel().basic_consume("q0", lambda *_: None)
    for member in members:
        row = member.get(f"/api/vhosts/{quote(vhost)}")
        assert (row["messages"], row["messages_ready"]) == (15, 15)
        assert row["cluster_state"] == dict.fromkeys(members.names, "running")
        overview = member.get("/api/overview")
        totals = overview["object_totals"]
        assert (totals["connections"], totals["channels"], totals["consumers"]) == (3, 3, 3)
        assert overview["queue_totals"]["messages"] == sum(row["messages"] for row in member.get("/api/vhosts"))
        assert overview["node"] == member.name
        assert {(item["node"], item["protocol"]) for item in overview["listeners"]} == {
            (name, protocol) for name in members.names for protocol in ("amqp", "http", "clustering")}
        assert {item["node"] for item in overview["contexts"]} == set(members.names)


def test_samples_are_summed_over_nodes(members: Members, vhost: str):
    spread(members, vhost, 4)
    query = "?lengths_age=60&lengths_incr=5"
    whole = members[1].get(f"/api/vhosts/{quote(vhost)}{query}")
    assert whole["messages_details"]["samples"][0]["sample"] in (0, 6)
    assert set(whole["messages_details"]) == {"rate", "samples", "avg", "avg_rate"}


def test_each_sees_their_own(members: Members, vhost: str, open_at: Open):
    """Whoever is no monitor sees their own connections, wherever they are, and queues of their virtual hosts."""
    members[0].add_user("plain", "plain", "management")
    open_at(members[1])
    assert members[2].ask("GET", "/api/connections", user="plain").body == []
    assert members[2].ask("GET", "/api/queues", user="plain").body == []
    name = quote(members[1].get(f"/api/vhosts/{quote(vhost)}/connections")[0]["name"])
    assert members[2].ask("GET", f"/api/connections/{name}", user="plain").status == 401
    assert members[2].ask("DELETE", f"/api/connections/{name}", user="plain").status == 401
    members[0].delete_user("plain")
