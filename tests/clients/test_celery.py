"""A real Celery worker over kombu and py-amqp: late acknowledgement, ETA, retry, priorities, results, remote control.

What Celery 5 asks of a broker, beyond publish and consume, as seen on RabbitMQ:
- rpc:// results: a queue per client, named by a UUID, durable, auto-delete, with `x-expires` (result_expires in ms);
  replies go through the default exchange with a correlation-id, each on a channel with confirms.
- remote control: fanout exchange `celery.pidbox` and direct `reply.celery.pidbox`, both transient; a queue
  `NODE.celery.pidbox` per worker that is exclusive, auto-delete, `x-expires` 10 s and `x-message-ttl` 300 s.
- events, gossip, mingle: durable topic exchange `celeryev`; exclusive auto-delete queues `celeryev.UUID` bound with
  `worker.#`, with `x-message-ttl` 5 s and `x-expires`.
- prefetch: `basic.qos` with the global flag, changed while consuming, by one for each task that waits for its ETA.
- `x-max-priority`; requeue of what a dead connection or a rejected task held, marked redelivered.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, group
from celery.exceptions import TaskRevokedError

from compat.support import Broker, eventually, quote

from .celery_fleet import WAIT, Fleet

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@pytest.fixture
def fleet(broker: Broker, vhost: str, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(broker.url(vhost), tmp_path)
    yield made
    made.close()


def lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def test_a_task_runs_and_its_result_comes_back_through_rpc(fleet: Fleet) -> None:
    fleet.start()
    assert fleet.call("add", 2, 3).get(timeout=WAIT) == 5
    value = {"text": "grüße", "list": [1, 2, {"x": None}], "big": "x" * 300_000}
    assert fleet.call("echo", value).get(timeout=WAIT) == value
    with pytest.raises(ValueError, match="sorry"):
        fleet.call("fail", "sorry").get(timeout=WAIT)


@pytest.mark.chaos
def test_a_group_of_tasks_on_two_workers_answers_in_full(fleet: Fleet) -> None:
    fleet.start()
    fleet.start()
    results = [fleet.call("add", n, n) for n in range(50)]
    assert [result.get(timeout=WAIT) for result in results] == [2 * n for n in range(50)]


def test_a_worker_of_three_queues_serves_them_alike(fleet: Fleet) -> None:
    queues = [f"{fleet.queue}.{word}" for word in "abc"]
    path = fleet.path("done")
    for name in queues:
        for _ in range(100):
            fleet.call("record", path, name, queue=name, ignore_result=True)
    fleet.start("-Q", ",".join(queues))
    eventually(lambda: len(lines(path)) >= 100, within=WAIT)
    done = lines(path)[:100]
    assert min(done.count(name) for name in queues) >= 25


def test_the_reply_queue_is_the_one_celery_expects(fleet: Fleet, broker: Broker, vhost: str) -> None:
    fleet.start()
    assert fleet.call("add", 1, 1).get(timeout=WAIT) == 2
    name = fleet.app.thread_oid
    row = broker.api("GET", f"/api/queues/{quote(vhost)}/{name}")
    assert (row["durable"], row["auto_delete"], row["arguments"]) == (True, True, {"x-expires": 60_000})


def test_an_acknowledgement_comes_only_after_the_task_when_acks_are_late(
    fleet: Fleet, broker: Broker, vhost: str
) -> None:
    fleet.start()
    path, gate = fleet.path("runs"), fleet.path("gate")
    result = fleet.call("wait_for", path, gate)
    eventually(lambda: lines(path), within=WAIT)
    unacknowledged = f"/api/queues/{quote(vhost)}/{quote(fleet.queue)}"
    eventually(lambda: broker.api("GET", unacknowledged).get("messages_unacknowledged") == 1, within=WAIT)
    Path(gate).touch()
    assert result.get(timeout=WAIT) == "through"
    eventually(lambda: broker.api("GET", unacknowledged).get("messages") == 0, within=WAIT)


def test_countdown_and_eta_hold_a_task_back_without_holding_others(fleet: Fleet) -> None:
    """Each task with an ETA stays unacknowledged at the worker, which raises its prefetch count by one for it."""
    fleet.start()
    path = fleet.path("order")
    start = time.time()
    later = [fleet.call("record", path, "later", countdown=6) for _ in range(8)]
    at = fleet.call("record", path, "at", eta=datetime.now(UTC) + timedelta(seconds=7))
    now = fleet.call("record", path, "now")
    assert now.get(timeout=WAIT) == 1
    for result in later:
        result.get(timeout=WAIT)
    assert at.get(timeout=WAIT) == 10
    assert time.time() - start >= 6.9
    assert lines(path) == ["now", *["later"] * 8, "at"]


def test_a_failing_task_is_retried_with_growing_pauses_until_it_succeeds(fleet: Fleet) -> None:
    fleet.start()
    path = fleet.path("tries")
    assert fleet.call("flaky", path, 3).get(timeout=WAIT) == 4
    assert lines(path) == ["try 0", "try 1", "try 2", "try 3"]


@pytest.mark.chaos
def test_a_task_that_never_succeeds_ends_with_its_error_after_the_last_retry(fleet: Fleet) -> None:
    fleet.start()
    path = fleet.path("tries")
    with pytest.raises(ValueError, match="still broken"):
        fleet.call("always_failing", path).get(timeout=WAIT)
    assert lines(path) == ["try"] * 3


def test_a_task_that_rejects_itself_is_redelivered_and_marked_so(fleet: Fleet) -> None:
    fleet.start()
    path = fleet.path("tries")
    assert fleet.call("rejected_once", path).get(timeout=WAIT) == "taken"
    assert lines(path) == ["redelivered False", "redelivered True"]


def test_urgent_tasks_overtake_when_the_queue_has_priorities(fleet: Fleet) -> None:
    path = fleet.path("order")
    queue = f"{fleet.queue}.urgent"
    priorities = [1, 5, 9, 0, 5, 3, 9]
    with fleet.app.connection_for_write() as connection:
        fleet.app.amqp.queues[queue](connection).declare()
    results = [fleet.call("record", path, str(p), queue=queue, priority=p) for p in priorities]
    fleet.start("-Q", queue)
    for result in results:
        result.get(timeout=WAIT)
    assert lines(path) == ["9", "9", "5", "5", "3", "1", "0"]


@pytest.mark.chaos
def test_a_task_whose_pool_process_is_killed_runs_again(fleet: Fleet) -> None:
    """reject_on_worker_lost: the worker's parent rejects with requeue when its child has gone."""
    fleet.start("-c", "1", pool="prefork")
    path = fleet.path("tries")
    assert fleet.call("killed_once", path).get(timeout=WAIT) == "survived"
    assert lines(path) == ["redelivered False", "redelivered True"]


def test_what_a_worker_killed_with_9_held_runs_on_another(fleet: Fleet) -> None:
    path, gate = fleet.path("runs"), fleet.path("gate")
    first = fleet.start("-c", "2", pool="prefork")
    results = [fleet.call("wait_for", path, gate) for _ in range(2)]
    eventually(lambda: len(lines(path)) == 2, within=WAIT)
    fleet.kill(first)
    Path(gate).touch()
    fleet.start("-c", "2", pool="prefork")
    assert [result.get(timeout=WAIT) for result in results] == ["through"] * 2
    assert lines(path) == ["redelivered False"] * 2 + ["redelivered True"] * 2


def test_remote_control_pings_inspects_and_changes_workers(fleet: Fleet) -> None:
    names = {fleet.start(), fleet.start()}
    control = fleet.app.control
    assert {next(iter(answer)) for answer in control.ping(timeout=WAIT, limit=2)} == names
    inspect = control.inspect(timeout=WAIT, limit=2)
    assert set(inspect.ping() or {}) == names
    assert all("clients.celery_app.add" in tasks for tasks in (inspect.registered() or {}).values())
    one = min(names)
    stats = control.inspect(destination=[one], timeout=WAIT, limit=1).stats() or {}
    assert stats[one]["broker"]["transport"] == "amqp"
    extra = f"{fleet.queue}.extra"
    control.add_consumer(extra, destination=[one], reply=True, timeout=WAIT, limit=1)
    assert fleet.call("add", 20, 22, queue=extra).get(timeout=WAIT) == 42
    queues = control.inspect(destination=[one], timeout=WAIT, limit=1).active_queues() or {}
    assert extra in {queue["name"] for queue in queues[one]}
    control.cancel_consumer(extra, destination=[one], reply=True, timeout=WAIT, limit=1)


@pytest.mark.chaos
def test_the_remote_control_queues_are_gone_when_the_worker_has_stopped(
    fleet: Fleet, broker: Broker, vhost: str
) -> None:
    name = fleet.start()

    def queues() -> set[str]:
        return {row["name"] for row in broker.api("GET", f"/api/queues/{quote(vhost)}")}

    assert f"{name}.celery.pidbox" in queues()
    row = broker.api("GET", f"/api/queues/{quote(vhost)}/{quote(name)}.celery.pidbox")
    assert (row["exclusive"], row["auto_delete"]) == (True, True)
    assert row["arguments"] == {"x-expires": 10_000, "x-message-ttl": 300_000}
    assert any(queue.startswith("celeryev.") for queue in queues())
    fleet.stop()
    eventually(lambda: f"{name}.celery.pidbox" not in queues(), within=WAIT)
    eventually(lambda: not any(queue.startswith("celeryev.") for queue in queues()), within=WAIT)


@pytest.mark.chaos
def test_a_revoked_task_does_not_run(fleet: Fleet) -> None:
    fleet.start()
    path, gate, never = fleet.path("runs"), fleet.path("gate"), fleet.path("never")
    waiting = fleet.call("record", never, "ran", countdown=3)
    busy = fleet.call("wait_for", path, gate, countdown=0)
    fleet.app.control.revoke(waiting.id)
    Path(gate).touch()
    assert busy.get(timeout=WAIT) == "through"
    with pytest.raises(TaskRevokedError):
        waiting.get(timeout=WAIT)
    assert lines(never) == []


@pytest.mark.chaos
def test_a_running_task_is_revoked_with_terminate(fleet: Fleet) -> None:
    fleet.start("-c", "1", pool="prefork")
    path = fleet.path("runs")
    running = fleet.call("wait_for", path, fleet.path("no-gate"))
    eventually(lambda: lines(path), within=WAIT)
    fleet.app.control.revoke(running.id, terminate=True, signal="SIGKILL")
    with pytest.raises(TaskRevokedError):
        running.get(timeout=WAIT)


@pytest.mark.chaos
def test_events_of_workers_and_tasks_reach_a_receiver(fleet: Fleet) -> None:
    seen: list[dict[str, Any]] = []
    with listening(fleet.app, seen.append):
        name = fleet.start()
        result = fleet.call("add", 1, 2)
        assert result.get(timeout=WAIT) == 3
        wanted = {"task-sent", "task-received", "task-started", "task-succeeded"}
        eventually(lambda: wanted <= {e["type"] for e in seen if e.get("uuid") == result.id}, within=WAIT)
        eventually(lambda: {"worker-online", "worker-heartbeat"} <= types_from(seen, name), within=WAIT)


def types_from(events: list[dict[str, Any]], name: str) -> set[str]:
    return {event["type"] for event in events if event.get("hostname") == name}


@contextlib.contextmanager
def listening(app: Celery, take: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    """Captures events in a thread until the block ends."""
    ready = threading.Event()
    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": take})
        receiver.on_consume_ready = lambda *_, **__: ready.set()  # type: ignore[method-assign]
        thread = threading.Thread(target=receiver.capture, kwargs={"limit": None, "wakeup": True}, daemon=True)
        thread.start()
        assert ready.wait(WAIT)
        yield
        receiver.should_stop = True
        thread.join(10)


@pytest.mark.chaos
def test_workers_find_each_other_by_gossip_and_mingle(fleet: Fleet) -> None:
    first = fleet.start()
    second = fleet.start()
    eventually(lambda: "mingle: sync with 1 nodes" in fleet.log_of(second).read_text(), within=WAIT)
    assert fleet.app.control.ping(destination=[first], timeout=WAIT, limit=1) == [{first: {"ok": "pong"}}]


def test_a_worker_reconnects_after_kill_and_restart_of_the_server(fleet: Fleet, broker: Broker) -> None:
    fleet.start()
    assert fleet.call("add", 1, 1).get(timeout=WAIT) == 2
    path = fleet.path("runs")
    fleet.call("record", path, "late", countdown=2)
    broker.kill()
    broker.start()
    eventually(lambda: lines(path), within=WAIT)
    assert fleet.call("add", 2, 2).get(timeout=WAIT) == 4


def test_a_chain_and_a_group_run_through_the_broker(fleet: Fleet) -> None:
    fleet.start()
    fleet.app.set_current()
    add = fleet.app.signature("clients.celery_app.add")
    chained = add.clone(args=(1, 1)) | add.clone(args=(10,)) | add.clone(args=(100,))
    assert chained.apply_async().get(timeout=WAIT) == 112
    grouped = group(add.clone(args=(n, 1)) for n in range(5)).apply_async()
    assert grouped.get(timeout=WAIT) == [1, 2, 3, 4, 5]
