"""Mirrors that come into sync while the queue goes on serving: new ones, those that were away, with a big backlog, under load.

MIRRORMQ_SYNC_MESSAGES says how many messages of 1 KiB the backlog has.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

import pytest

from cluster.live.nodes import Nodes
from compat.support import quote
from live.load import Publisher, drain

from .probe import Report, Witness
from .probe import count as account
from .rings import count, declare, eventually, leader_of, look, mirror, named, others, publish, standing, until_in_sync

MANY = int(os.environ.get("MIRRORMQ_SYNC_MESSAGES", "5000"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(300 + MANY // 300)]


def fill(nodes: Nodes, queue: str, number: int, home: int = 0) -> None:
    """So many messages of 1 KiB."""
    publisher = Publisher(nodes[home].port, queue, size=1024, window=1000)
    while publisher.sent < number:
        publisher.step(min(200, number - publisher.sent))
    publisher.finish()
    publisher.close()


def act(nodes: Nodes, queue: str, action: str) -> None:
    nodes[0].api("POST", f"/api/queues/%2F/{quote(queue)}/actions", {"action": action})


def numbers_of(nodes: Nodes, queue: str) -> list[int]:
    return [number for number, _ in drain(nodes[0].port, queue)]


def lead_with(nodes: Nodes, queue: str, leader: str) -> None:
    """Kill everybody else's chance: the leader dies, and who takes over must be this one."""
    old = leader_of(nodes[1], queue)
    named(nodes, old).kill()
    survivor = others(nodes, old)[0]
    eventually(lambda: leader_of(survivor, queue) not in ("", old))
    assert leader_of(survivor, queue) == leader


def test_new_mirrors_of_a_full_queue_come_into_sync_by_themselves_under_automatic(nodes: Nodes) -> None:
    """69 too: manual first, and nothing happens until the policy says automatic."""
    declare(nodes[0], "new")
    fill(nodes, "new", MANY)
    mirror(nodes[0], "new", ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[1], "new")[1]) == 2)
    assert standing(nodes[1], "new")[2] == []
    mirror(nodes[0], "new", ha_sync_mode="automatic")
    until_in_sync(nodes, "new")
    nodes[0].kill()
    eventually(lambda: leader_of(nodes[1], "new") not in ("", nodes[0].name))
    assert [number for number, _ in drain(nodes[1].port, "new")] == list(range(1, MANY + 1))


def test_manual_mirrors_come_into_sync_when_told(nodes: Nodes) -> None:
    """63, 64, 66."""
    declare(nodes[0], "told")
    fill(nodes, "told", 500)
    mirror(nodes[0], "told", ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[1], "told")[1]) == 2)
    act(nodes, "told", "cancel_sync")
    assert standing(nodes[1], "told")[2] == []
    act(nodes, "told", "sync")
    until_in_sync(nodes, "told")
    act(nodes, "told", "sync")
    act(nodes, "told", "cancel_sync")
    until_in_sync(nodes, "told")
    assert numbers_of(nodes, "told") == list(range(1, 501))


def test_manual_mirrors_come_into_sync_as_the_old_messages_are_consumed(nodes: Nodes) -> None:
    declare(nodes[0], "drained")
    fill(nodes, "drained", 50)
    mirror(nodes[0], "drained", ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[1], "drained")[1]) == 2)
    publish(nodes[1], "drained", b"%019d" % 51)
    assert standing(nodes[1], "drained")[2] == []
    assert len(numbers_of(nodes, "drained")) == 51
    until_in_sync(nodes, "drained")


def test_a_cancelled_sync_keeps_serving_and_can_be_asked_for_again(nodes: Nodes) -> None:
    declare(nodes[0], "cancelled")
    fill(nodes, "cancelled", MANY)
    mirror(nodes[0], "cancelled", ha_sync_mode="manual")
    eventually(lambda: len(standing(nodes[1], "cancelled")[1]) == 2)
    act(nodes, "cancelled", "sync")
    act(nodes, "cancelled", "cancel_sync")
    publish(nodes[1], "cancelled", b"%019d" % (MANY + 1))
    act(nodes, "cancelled", "sync")
    until_in_sync(nodes, "cancelled")
    assert count(nodes[2], "cancelled") == MANY + 1


def test_a_mirror_that_restarts_under_a_backlog_never_stops_the_publishers(nodes: Nodes) -> None:
    mirror(nodes[0], "backlog", ha_sync_mode="automatic")
    declare(nodes[0], "backlog")
    until_in_sync(nodes, "backlog")
    fill(nodes, "backlog", MANY)
    witnesses = [Witness(number, node.port, "backlog", 20) for number, node in enumerate((nodes[0], nodes[1]), 1)]
    for witness in witnesses:
        witness.start()
    try:
        eventually(lambda: all(len(witness.stamps) > 20 for witness in witnesses))
        since = witnesses[0].stamps[-1]
        nodes[2].kill()
        nodes[2].start()
        until_in_sync(nodes, "backlog")
    finally:
        for witness in witnesses:
            witness.finish()
    pause = max(witness.longest_pause(since) for witness in witnesses)
    print(f"\na mirror restarted under {MANY} messages: longest pause {pause:.2f} s")
    got = drain(nodes[1].port, "backlog")
    assert [number for number, _ in got if number <= MANY] == list(range(1, MANY + 1))
    account(Report(), witnesses, [each for each in got if each[0] > MANY], "backlog").must_be_clean()


def test_a_mirror_that_was_away_gets_only_what_it_missed(nodes: Nodes) -> None:
    mirror(nodes[0], "missed", ha_sync_mode="automatic")
    declare(nodes[0], "missed")
    until_in_sync(nodes, "missed")
    fill(nodes, "missed", MANY)
    nodes[2].stop()
    fill(nodes, "missed", 100)
    before = carried(nodes)
    nodes[2].start()
    until_in_sync(nodes, "missed")
    bytes_sent = carried(nodes) - before
    print(f"\n{bytes_sent} bytes on the returning node's links for 100 messages of 1 KiB, of {MANY + 100}")
    assert bytes_sent < 1 << 20, "much more than it missed, and less than the whole backlog"
    assert count(nodes[2], "missed") == MANY + 100


@pytest.mark.parametrize("way", ["stop", pytest.param("kill", marks=pytest.mark.chaos)])
def test_a_mirror_that_lost_its_disk_gets_everything_again_and_nothing_is_lost(nodes: Nodes, way: str) -> None:
    queue = f"disk.{way}"
    mirror(nodes[0], "disk", ha_sync_mode="automatic")
    declare(nodes[0], queue)
    until_in_sync(nodes, queue)
    fill(nodes, queue, MANY)
    getattr(nodes[2], way)()
    shutil.rmtree(nodes[2].directory / "data" / "log")
    publish(nodes[1], queue, b"%019d" % (MANY + 1))
    nodes[2].start()
    until_in_sync(nodes, queue)
    mirror(nodes[0], "disk", ha_sync_mode="automatic", ha_mode="nodes", ha_params=[nodes[2].name])
    eventually(lambda: standing(nodes[1], queue) == (nodes[2].name, [], []))
    assert numbers_of(nodes, queue) == list(range(1, MANY + 2))


def test_a_node_that_lost_its_whole_directory_comes_back_by_itself_and_gets_everything_again(nodes: Nodes) -> None:
    """It led. Where it was alone in sync nobody could lead; here another one does."""
    mirror(nodes[0], "whole", ha_sync_mode="automatic")
    declare(nodes[2], "whole")
    until_in_sync(nodes, "whole")
    fill(nodes, "whole", MANY)
    nodes[2].kill()
    shutil.rmtree(nodes[2].directory / "data")
    eventually(lambda: leader_of(nodes[0], "whole") != nodes[2].name, within=60)
    publish(nodes[1], "whole", b"%019d" % (MANY + 1))
    nodes[2].start()
    until_in_sync(nodes, "whole")
    mirror(nodes[0], "whole", ha_sync_mode="automatic", ha_mode="nodes", ha_params=[nodes[2].name])
    eventually(lambda: standing(nodes[1], "whole") == (nodes[2].name, [], []))
    assert numbers_of(nodes, "whole") == list(range(1, MANY + 2))
    assert "this one takes its place with nothing" in nodes[2].log()
    place = f"queue 'whole' in vhost '/': mirror node {nodes[2].name}"
    assert f"{place} has ended its synchronisation" in nodes[2].log()
    assert any(f"{place} is in sync: " in node.log() for node in (nodes[0], nodes[1]))


@pytest.mark.chaos
@pytest.mark.parametrize("lost", ["data/log", "data"])
def test_all_are_killed_and_one_without_its_disk_starts_first_and_does_not_lead(nodes: Nodes, lost: str) -> None:
    """It led before, and leaves that to those who have the messages."""
    mirror(nodes[0], "bare", ha_sync_mode="automatic")
    declare(nodes[2], "bare")
    until_in_sync(nodes, "bare")
    fill(nodes, "bare", MANY)
    for node in nodes:
        node.kill()
    shutil.rmtree(nodes[2].directory / lost)
    for number in (2, 0, 1):
        nodes[number].start()
    eventually(lambda: leader_of(nodes[0], "bare") in (nodes[0].name, nodes[1].name), within=60)
    until_in_sync(nodes, "bare")
    assert numbers_of(nodes, "bare") == list(range(1, MANY + 1))


def carried(nodes: Nodes) -> int:
    """Octets on the third node's links so far: all of them are dialled by others."""
    return nodes[2].line.carried()


def test_a_source_that_dies_in_the_middle_of_a_full_sync_is_replaced(nodes: Nodes) -> None:
    """The queue has two members in sync and a third that is being filled; the leader is killed."""
    one, two, three = (node.name for node in nodes)
    mirror(nodes[0], "middle", ha_sync_mode="automatic", ha_mode="nodes", ha_params=[one, two])
    declare(nodes[0], "middle")
    until_in_sync(nodes, "middle", copies=2)
    fill(nodes, "middle", MANY)
    everyone: dict[str, Any] = {"ha_mode": "nodes", "ha_params": [one, two, three]}
    mirror(nodes[0], "middle", ha_sync_mode="automatic", **everyone)
    eventually(lambda: three in look(nodes[1], "middle").get("slave_nodes", []))
    nodes[0].kill()
    eventually(lambda: leader_of(nodes[1], "middle") == two)
    nodes[0].start()
    until_in_sync(nodes, "middle")
    lead_with(nodes, "middle", three if standing_order(nodes, "middle")[0] == three else one)
    assert count(nodes[2], "middle") == MANY


def standing_order(nodes: Nodes, queue: str) -> list[str]:
    """Its mirrors in sync, in the order of the ring."""
    found: list[str] = look(nodes[1], queue)["synchronised_slave_nodes"]
    return found


def test_a_learner_that_is_killed_in_the_middle_of_a_full_sync_begins_again(nodes: Nodes) -> None:
    one, three = nodes[0].name, nodes[2].name
    declare(nodes[0], "learner")
    fill(nodes, "learner", MANY)
    mirror(nodes[0], "learner", ha_sync_mode="automatic")
    eventually(lambda: three in look(nodes[1], "learner").get("slave_nodes", []))
    nodes[2].kill()
    publish(nodes[0], "learner", b"%019d" % (MANY + 1))
    nodes[2].start()
    until_in_sync(nodes, "learner")
    nodes[0].kill()
    eventually(lambda: leader_of(nodes[2], "learner") not in ("", one))
    assert [number for number, _ in drain(nodes[2].port, "learner")] == list(range(1, MANY + 2))
