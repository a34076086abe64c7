"""pika beyond the plain BlockingConnection: event loops, threads, and what a connection's URL can say."""

from __future__ import annotations

import asyncio
import queue as queues
import threading
from collections.abc import Callable
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.adapters.select_connection import SelectConnection

from compat.support import Broker, eventually, free_port, own_server_only, unique

from .conftest import Serve
from .support import DEADLINE

pytestmark = pytest.mark.live

COUNT = 100


class Loop:
    """A client of callbacks: declares, publishes with confirms, consumes what it published, closes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.confirmed: list[int] = []
        self.got: list[bytes] = []
        self.closed: list[BaseException] = []
        self.channel: Any = None
        self.connection: Any = None

    def on_open(self, connection: Any) -> None:
        self.connection = connection
        connection.channel(on_open_callback=self.on_channel)

    def on_channel(self, channel: Any) -> None:
        self.channel = channel
        channel.confirm_delivery(self.on_confirm)
        channel.queue_declare(self.name, exclusive=True, callback=self.on_declared)

    def on_declared(self, _frame: Any) -> None:
        self.channel.basic_qos(prefetch_count=10)
        self.channel.basic_consume(self.name, self.on_message)
        for n in range(COUNT):
            self.channel.basic_publish("", self.name, b"%d" % n)

    def on_confirm(self, frame: Any) -> None:
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        self.confirmed.append(frame.method.delivery_tag)
        self.close_when_done()

    def on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.got.append(body)
        channel.basic_ack(method.delivery_tag)
        self.close_when_done()

    def close_when_done(self) -> None:
        if len(self.got) == COUNT and max(self.confirmed, default=0) == COUNT and self.connection.is_open:
            self.connection.close()

    def check(self) -> None:
        assert self.got == [b"%d" % n for n in range(COUNT)]
        assert isinstance(self.closed[0], pika.exceptions.ConnectionClosedByClient)


def test_a_select_connection_publishes_with_confirms_and_consumes(broker: Broker) -> None:
    client = Loop(unique("select"))

    def on_close(connection: Any, reason: BaseException) -> None:
        client.closed.append(reason)
        connection.ioloop.stop()

    parameters = pika.URLParameters(broker.url())
    connection = SelectConnection(parameters, on_open_callback=client.on_open, on_close_callback=on_close)
    connection.ioloop.start()
    connection.ioloop.close()
    client.check()


async def test_an_asyncio_connection_publishes_with_confirms_and_consumes(broker: Broker) -> None:
    client = Loop(unique("asyncio"))
    ended = asyncio.Event()

    def on_close(_connection: Any, reason: BaseException) -> None:
        client.closed.append(reason)
        ended.set()

    parameters = pika.URLParameters(broker.url())
    AsyncioConnection(parameters, on_open_callback=client.on_open, on_close_callback=on_close)
    await asyncio.wait_for(ended.wait(), 60)
    client.check()


def test_worker_threads_acknowledge_through_the_connections_own_thread(broker: Broker) -> None:
    """pika is not safe for threads: the work is done in threads, the acknowledgement goes back to the loop."""
    connection = pika.BlockingConnection(pika.URLParameters(broker.url()))
    channel = connection.channel()
    name = channel.queue_declare(unique("threads"), exclusive=True).method.queue
    channel.basic_qos(prefetch_count=5)
    done: list[bytes] = []

    def acknowledge(tag: int, body: bytes) -> None:
        channel.basic_ack(tag)
        done.append(body)
        if len(done) == COUNT:
            channel.stop_consuming()

    def work(tag: int, body: bytes) -> None:
        connection.add_callback_threadsafe(lambda: acknowledge(tag, body))

    def on_message(_channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        threading.Thread(target=work, args=(method.delivery_tag, body)).start()

    for n in range(COUNT):
        channel.basic_publish("", name, b"%d" % n)
    channel.basic_consume(name, on_message)
    channel.start_consuming()
    assert sorted(done, key=int) == [b"%d" % n for n in range(COUNT)]
    assert channel.queue_declare(name, passive=True).method.message_count == 0
    connection.close()


def test_ten_threads_with_a_connection_each_share_one_queue(broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url())) as connection:
        channel = connection.channel()
        name = channel.queue_declare(unique("shared")).method.queue
        failures: queues.Queue[BaseException] = queues.Queue()

        def publish() -> None:
            with pika.BlockingConnection(pika.URLParameters(broker.url())) as own:
                out = own.channel()
                out.confirm_delivery()
                for n in range(COUNT):
                    out.basic_publish("", name, b"%d" % n, mandatory=True)

        run_all([guarded(publish, failures)] * 10)
        assert failures.empty(), failures.get()
        assert channel.queue_delete(name).method.message_count == 10 * COUNT


def guarded(work: Callable[[], None], failures: queues.Queue[BaseException]) -> Callable[[], None]:
    def run() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - handed to the test's own thread
            failures.put(error)

    return run


def run_all(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)


def row_of(broker: Broker, label: str) -> dict[str, Any]:
    """What the management API tells of the connection that calls itself `label`."""

    def look() -> dict[str, Any]:
        rows = broker.api("GET", "/api/connections")
        return next((row for row in rows if row.get("client_properties", {}).get("connection_name") == label), {})

    return eventually(look, within=DEADLINE)


def named(url: str, label: str) -> pika.URLParameters:
    parameters = pika.URLParameters(url)
    parameters.client_properties = {"connection_name": label}
    return parameters


def test_the_urls_heartbeat_frame_and_channel_limits_are_negotiated(broker: Broker) -> None:
    query = "?connection_attempts=3&heartbeat=60&frame_max=65536&channel_max=100"
    label = unique("url")
    with pika.BlockingConnection(named(broker.url(query=query), label)):
        row = row_of(broker, label)
        assert (row["timeout"], row["frame_max"], row["channel_max"]) == (60, 65536, 100)
        assert (row["user"], row["vhost"], row["protocol"]) == ("guest", "/", "AMQP 0-9-1")


def test_a_heartbeat_of_zero_switches_heartbeats_off(broker: Broker) -> None:
    label = unique("no-heartbeat")
    with pika.BlockingConnection(named(broker.url(query="?heartbeat=0"), label)):
        assert row_of(broker, label)["timeout"] == 0


def test_an_idle_connection_with_heartbeats_stays_open(broker: Broker) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url(query="?heartbeat=2"))) as connection:
        connection.sleep(6)
        assert connection.channel().is_open


@pytest.mark.parametrize("name", ["shop", "with/slash", "with space", "grüße", "a%2Fb", "."])
def test_a_vhost_with_any_name_is_reached_by_its_encoded_url(broker: Broker, name: str) -> None:
    vhost = f"{name}-{unique()}"
    broker.add_vhost(vhost)
    label = unique("vhost")
    with pika.BlockingConnection(named(broker.url(vhost), label)):
        assert row_of(broker, label)["vhost"] == vhost
    broker.delete_vhost(vhost)


@pytest.mark.parametrize("password", ["p@ss:w/rd?#", "grüße", " blank ", "%41"])
def test_a_user_with_any_password_logs_in_by_its_encoded_url(broker: Broker, password: str) -> None:
    user = unique("us er@")
    broker.add_user(user, password)
    broker.grant("/", user)
    with pika.BlockingConnection(pika.URLParameters(broker.url(user=user, password=password))) as connection:
        assert connection.channel().is_open
    broker.delete_user(user)


def test_deleting_a_vhost_closes_the_connections_in_it(broker: Broker) -> None:
    vhost = unique("doomed")
    broker.add_vhost(vhost)
    connection = pika.BlockingConnection(pika.URLParameters(broker.url(vhost)))
    broker.delete_vhost(vhost)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED") as raised:
        connection.sleep(60)
    assert raised.value.reply_code == 320


def test_connection_attempts_end_with_an_error_where_nothing_listens() -> None:
    url = f"amqp://guest:guest@127.0.0.1:{free_port()}/?connection_attempts=3&retry_delay=0.1"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(url))


@own_server_only
def test_connection_attempts_bridge_a_restart(serve: Serve) -> None:
    server = serve()
    server.kill()
    starting = threading.Thread(target=server.start)
    starting.start()
    url = server.url(query="?connection_attempts=400&retry_delay=0.2")
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        assert connection.channel().is_open
    starting.join()


@own_server_only
def test_the_configuration_file_names_the_first_user_and_vhost(serve: Serve) -> None:
    server = serve("default_user = alice\ndefault_pass = s3cret\ndefault_vhost = shop\nheartbeat = 17\n")
    server.user, server.password = "alice", "s3cret"
    parameters = pika.URLParameters(server.url("shop"))
    parameters.heartbeat = lambda _connection, offered: offered
    parameters.client_properties = {"connection_name": "alice's"}
    with pika.BlockingConnection(parameters):
        assert row_of(server, "alice's")["timeout"] == 17
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))


@own_server_only
def test_the_server_listens_on_ipv6_too(serve: Serve) -> None:
    server = serve()
    with pika.BlockingConnection(named(f"amqp://guest:guest@[::1]:{server.port}/%2F", "six")) as connection:
        assert connection.channel().is_open
        row = row_of(server, "six")
        assert (row["peer_host"], row["host"]) == ("::1", "::1")
        assert row["name"] == f"[::1]:{row['peer_port']} -> [::1]:{server.port}"
