"""`mirrormq perf` as a user starts it, against a real server process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from compat.support import Broker, eventually

pytestmark = pytest.mark.live
PERF = (sys.executable, "-c", "from mirrormq.cli.perf.command import perf; perf()")
LIMIT = 180


def perf(uri: str, *options: str) -> subprocess.CompletedProcess[str]:
    command = [*PERF, "-h", uri, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)


def outcome(broker: Broker, *options: str) -> dict[str, Any]:
    done = perf(broker.url(), "--json", *options)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_small_run_sends_confirms_and_receives_everything(broker: Broker) -> None:
    total = outcome(broker, "-C", "500", "-s", "100", "-c", "20", "-q", "30", "-A", "7")["total"]
    assert (total["sent"], total["confirmed"], total["received"]) == (500, 500, 500)
    assert total["confirm_us"]["p50"] > 0
    assert total["delivery_us"]["p99"] > 0


def test_the_queue_that_was_made_for_the_run_is_gone_after_it(broker: Broker) -> None:
    name = outcome(broker, "-C", "10")["options"]["queues"][0]
    eventually(lambda: name not in {queue["name"] for queue in broker.api("GET", "/api/queues")})


@pytest.mark.parametrize(
    "options",
    [
        ("-f", "persistent", "-x", "3", "-y", "3", "--queues", "3"),
        ("-t", "topic", "-k", "a.b.c", "--binding-key", "a.*.c", "--queues", "4", "-y", "4"),
        ("-s", "300k", "-C", "20"),
        ("-x", "2", "-y", "2", "--processes", "2"),
        ("-a",),
        ("-r", "2000"),
    ],
    ids=["persistent", "topic", "large", "processes", "autoack", "rate"],
)
def test_a_verified_run_finds_nothing_lost_doubled_or_disordered(broker: Broker, options: tuple[str, ...]) -> None:
    document = outcome(broker, "-C", "300", "-s", "64", "-c", "25", "--verify", *options)
    assert document["verify"]["good"], document["verify"]
    assert document["verify"]["checked"] == document["total"]["received"]


def test_a_backlog_is_filled_by_one_run_and_drained_by_another(broker: Broker) -> None:
    queue = ("-u", "perf-backlog", "-ad", "true")
    assert outcome(broker, *queue, "-y", "0", "-C", "400", "-c", "50")["total"]["confirmed"] == 400
    drained = outcome(broker, *queue, "-x", "0", "-D", "400", "-q", "100", "-A", "10")["total"]
    assert (drained["received"], drained["redelivered"]) == (400, 0)


def publish(broker: Broker, queue: str, *options: str) -> None:
    options = ("-u", queue, "-y", "0", "-s", "64", "-c", "50", "-d", queue, "--verify", *options)
    assert outcome(broker, *options)["verify"] is None


def audit(broker: Broker, queue: str, *options: str) -> dict[str, Any]:
    done = perf(broker.url(), "--json", "-u", queue, "-x", "0", "-d", queue, "--verify", "-st", "3", *options)
    verdict: dict[str, Any] = json.loads(done.stdout)["verify"]
    assert done.returncode == (0 if verdict["good"] else 5), done.stderr
    return verdict


def test_one_run_verifies_what_another_published(broker: Broker) -> None:
    publish(broker, "perf-audit", "-x", "3", "-C", "400")
    verdict = audit(broker, "perf-audit", "-D", "1200", "-q", "100", "-A", "10")
    assert (verdict["good"], verdict["checked"], verdict["foreign"]) == (True, 1200, 0)


def test_a_run_finds_what_of_another_was_lost_doubled_and_disordered(broker: Broker, connect: Any) -> None:
    publish(broker, "perf-broken", "-C", "10")
    channel = connect(vhost="/").channel()
    bodies = [channel.basic_get("perf-broken", auto_ack=True)[2] for _ in range(10)]
    for place in (0, 1, 2, 2, 5, 4, 6, 7):       # the fourth and the last two are lost, the third comes twice
        channel.basic_publish("", "perf-broken", bodies[place])
    verdict = audit(broker, "perf-broken", "-C", "10")
    assert (verdict["lost"], verdict["duplicated"], verdict["disordered"]) == (3, 1, 1)


def test_unroutable_mandatory_messages_come_back(broker: Broker) -> None:
    options = ("-e", "amq.direct", "-k", "nowhere", "-p", "-y", "0", "-f", "mandatory", "-c", "5", "-C", "50")
    assert outcome(broker, *options)["total"]["returned"] == 50


def test_a_run_for_a_time_prints_a_line_every_interval_and_the_averages(broker: Broker) -> None:
    done = perf(broker.url(), "-z", "2", "-i", "0.2", "-r", "100", "-d", "mine")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert sum(line.startswith("id: mine, time: ") for line in lines) >= 3
    assert any("sending rate avg: " in line for line in lines)


@pytest.mark.usefixtures("heard_signals")
def test_an_interrupted_run_prints_its_summary(broker: Broker) -> None:
    command = [*PERF, "-h", broker.url(), "-i", "0.1", "-r", "100"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "sent: " in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert "sending rate avg: " in rest


def test_a_refused_connection_is_exit_code_3() -> None:
    done = perf("amqp://127.0.0.1:1", "-z", "1")
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot connect to amqp://127.0.0.1:1: connection refused" in done.stderr


def test_a_wrong_password_is_exit_code_4(broker: Broker) -> None:
    done = perf(broker.url(password="wrong"), "-z", "1")
    assert done.returncode == 4
    assert "refused the login of user 'guest': 403 ACCESS_REFUSED" in done.stderr


def test_a_missing_virtual_host_is_exit_code_4(broker: Broker) -> None:
    done = perf(broker.url("nowhere"), "-z", "1")
    assert done.returncode == 4
    assert "refused the virtual host: 530 NOT_ALLOWED" in done.stderr


def test_a_port_that_speaks_http_is_named_as_such(broker: Broker) -> None:
    done = perf(f"amqp://127.0.0.1:{broker.http_port}", "-z", "1")
    assert done.returncode == 3
    assert "does not speak AMQP 0-9-1" in done.stderr


def test_a_channel_error_ends_the_run_with_the_brokers_words(broker: Broker) -> None:
    done = perf(broker.url(), "-e", "no-such-exchange", "-k", "x", "-p", "-y", "0", "-C", "10", "-c", "1")
    assert done.returncode == 1
    assert "the broker closed the channel: 404 NOT_FOUND - no exchange 'no-such-exchange'" in done.stderr
