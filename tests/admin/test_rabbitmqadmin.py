"""RabbitMQ's own `rabbitmqadmin`, from its package, in all its commands: the same results against a node as against RabbitMQ.

Nothing of it is in this repository: the script is taken from where RabbitMQ is installed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pika
import pika.exceptions
import pytest

from compat.support import ApiError, Broker, eventually

from .rabbitmq import PROGRAMS, RabbitMQ
from .support import Node

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]
VHOST = "tooled"
PLACE = "lib/rabbitmq_server-*/plugins/rabbitmq_management-*/priv/www/cli/rabbitmqadmin"

SCENARIO = """
declare vhost name=tooled tracing=false
declare user name=worker password=secret tags=management,monitoring
declare user name=hashed password_hash=kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR tags=
declare permission vhost=tooled user=worker configure=.* write=.* read=.*
declare permission vhost=tooled user=guest configure=.* write=.* read=.*
-V tooled declare exchange name=sales type=topic
-V tooled declare exchange name=inner type=fanout durable=false internal=true auto_delete=false
-V tooled declare exchange name=sales type=direct
-V tooled declare queue name=orders arguments={"x-max-priority":5}
-V tooled declare queue name=scratch durable=false auto_delete=true
-V tooled declare queue name=orders durable=false
-V tooled declare queue name=typed queue_type=classic
-V tooled declare binding source=sales destination=orders routing_key=eu.* arguments={"x":1}
-V tooled declare binding source=sales destination=inner destination_type=exchange routing_key=#
-V tooled declare binding source=sales destination=scratch
-V tooled declare policy name=ha pattern=^ha- definition={"ha-mode":"all"} priority=3 apply-to=queues
-V tooled declare policy name=bad pattern=.* definition={"nope":1}
-V tooled declare operator_policy name=short pattern=.* definition={"max-length":1000} apply-to=queues
declare vhost_limit vhost=tooled name=max-queues value=50
-V tooled declare parameter component=nope name=x value={}
-V tooled list exchanges
-V tooled list exchanges name type durable auto_delete internal
-V tooled list queues name durable auto_delete arguments
-V tooled list bindings
-V tooled list bindings source destination routing_key properties_key
-V tooled list consumers
-V tooled list queues name node --sort=name
list users name tags
list vhosts name
list permissions
list parameters
list policies
list operator_policies
list vhost_limits
list nodes name type
list connections
list channels
-f tsv -V tooled list queues name durable
-f kvp -V tooled list queues name durable
-f bash -V tooled list queues
-f long -V tooled list exchanges name type
-f raw_json -V tooled list bindings source destination destination_type routing_key
-f pretty_json list users name tags
-d 2 -f tsv -V tooled list exchanges name
show overview cluster_name object_totals.queues
-V tooled publish routing_key=orders payload=first properties={"priority":3,"headers":{"k":"v"}}
-V tooled publish exchange=sales routing_key=eu.de payload=c2Vjb25k payload_encoding=base64
-V tooled publish routing_key=nowhere payload=lost
-V tooled publish exchange=nope routing_key=x payload=lost
-V tooled get queue=orders
-V tooled get queue=orders count=2 ackmode=ack_requeue_false encoding=base64
-V tooled get queue=orders
-V tooled get queue=nope
-V tooled publish routing_key=orders payload=again
-V tooled get queue=orders payload_file=/dev/null
-V tooled purge queue name=orders
-V tooled get queue=orders
-V tooled purge queue name=nope
-V tooled delete binding source=sales destination_type=queue destination=scratch properties_key=~
-V tooled delete binding source=sales destination_type=queue destination=scratch properties_key=~
-V tooled delete policy name=ha
-V tooled delete operator_policy name=short
delete vhost_limit vhost=tooled name=max-queues
-V tooled delete parameter component=nope name=x
-V tooled delete exchange name=inner
-V tooled delete queue name=scratch
-V tooled delete queue name=nope
delete permission vhost=tooled user=worker
close connection name=nope
list nonsense
delete user name=worker
delete user name=worker
declare vhost name=short-lived
delete vhost name=short-lived
delete vhost name=short-lived
-u nobody -p wrong list users
-u hashed -p hare list users
"""
"""One command a line. The password hash is RabbitMQ's own example, of the password test12."""


class Told(NamedTuple):
    code: int
    text: str


@pytest.fixture(scope="module")
def script(rabbit: RabbitMQ) -> Path:
    found = sorted(PROGRAMS.parent.glob(PLACE))
    assert found, "RabbitMQ is installed without its rabbitmqadmin"
    return found[-1]


def run(script: Path, broker: Broker, *words: str) -> Told:
    login = [] if "-u" in words else ["-u", "guest", "-p", "guest"]
    done = subprocess.run(
        [sys.executable, script, "-H", broker.host, "-P", str(broker.http_port), *login, *words], capture_output=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, stdin=subprocess.DEVNULL, text=True,
        timeout=180, check=False)
    return Told(done.returncode, done.stdout + done.stderr)


def normal(told: Told, broker: Broker) -> Told:
    """Without names of nodes and hashes of arguments, and in any order: lists come as they are kept."""
    name = getattr(broker, "name", "")
    text = told.text.replace(name, "NODE").replace(str(broker.http_port), "PORT")
    text = re.sub(r"(?<=%2A~)\S+", "HASH", text)
    if text.startswith("["):
        text = "\n".join(json.dumps(row, sort_keys=True) for row in json.loads(text))
    lines = [re.sub(r"-+", "-", re.sub(r" +", " ", line)).strip().rstrip(",") for line in text.splitlines()]
    return Told(told.code, "\n".join(sorted(line for line in lines if line)))


def prepare(broker: Broker) -> None:
    """Both begin with nothing of what the scenario makes, and with one name for the cluster."""
    for path in (f"/api/vhosts/{VHOST}", "/api/users/worker", "/api/users/hashed"):
        with suppress(ApiError):
            broker.api("DELETE", path)
    broker.api("PUT", "/api/cluster-name", {"name": "compared"})


@pytest.fixture(scope="module")
def ours(run_directory: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    node = Node(tmp_path_factory.mktemp("tooled"), name="tooled@localhost")
    node.start()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def both(rabbit: RabbitMQ, ours: Node) -> tuple[Broker, Broker]:
    for broker in (rabbit, ours):
        prepare(broker)
    return rabbit, ours


LINES = SCENARIO.strip().splitlines()


@pytest.mark.parametrize("line", list(enumerate(LINES)), ids=lambda line: f"{line[0]}: {line[1]}")
def test_a_command_of_rabbitmqadmin_has_rabbitmqs_result(script: Path, both: tuple[Broker, Broker], line: tuple[int, str]):
    words = line[1].split(" ")
    theirs, here = (normal(run(script, broker, *words), broker) for broker in both)
    assert here == theirs


def test_the_scenario_has_every_subcommand_that_names_a_thing(script: Path, ours: Node):
    told = run(script, ours, "help", "subcommands").text
    known = {match[1] for match in re.finditer(r"^  ((?:list|show|declare|delete|close|purge) \w+)", told, re.MULTILINE)}
    assert len(known) > 30
    assert {command for command in known if command not in SCENARIO} == set()


def test_definitions_go_out_and_come_in_by_rabbitmqadmin(script: Path, both: tuple[Broker, Broker], tmp_path: Path):
    """Also what RabbitMQ exported, and with passwords that still open."""
    rabbit, ours = both
    rabbit.add_user("moved", "its-password", "management")
    file = tmp_path / "definitions.json"
    assert run(script, rabbit, "export", str(file)).code == 0
    assert run(script, ours, "import", str(file)).code == 0
    assert ours.api("GET", "/api/whoami", user="moved", password="its-password")["name"] == "moved"
    mine = tmp_path / "mine.json"
    assert run(script, ours, "export", str(mine)).code == 0
    theirs, here = json.loads(file.read_text()), json.loads(mine.read_text())
    for section in ("users", "vhosts", "permissions", "policies", "queues", "exchanges", "bindings"):
        assert _names(theirs[section]) <= _names(here[section]), section
    assert run(script, rabbit, "import", str(mine)).code == 0
    assert run(script, ours, "-V", VHOST, "export", str(mine)).code == 0
    assert run(script, ours, "-V", VHOST, "import", str(mine)).code == 0


def _names(rows: list[dict[str, object]]) -> set[str]:
    keys = ("name", "user", "source", "destination", "routing_key", "vhost")
    return {json.dumps([row.get(key) for key in keys]) for row in rows}


def test_rabbitmqadmin_closes_a_connection(script: Path, both: tuple[Broker, Broker]):
    for broker in both:
        settings = pika.ConnectionParameters(broker.host, broker.port, virtual_host=VHOST, heartbeat=0,
                                             client_properties={"connection_name": "closing"})
        connection = pika.BlockingConnection(settings)
        [name] = eventually(lambda: _closing(broker))  # noqa: B023 - asked at once
        told = run(script, broker, "close", "connection", f"name={name}")
        assert (told.code, told.text) == (0, "connection closed\n")
        with pytest.raises(pika.exceptions.AMQPError):
            connection.channel()
        eventually(lambda: not _closing(broker))  # noqa: B023


def _closing(broker: Broker) -> list[str]:
    """Not those of requests to the API, which RabbitMQ shows for a while."""
    return [row["name"] for row in broker.api("GET", "/api/connections") if row.get("user_provided_name") == "closing"]
