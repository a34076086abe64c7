"""What the disk may do to a node: fill up, lose its last bytes, flip one in the middle."""
from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from compat.support import ServerProcess, eventually
from mirrormq.log.chunk import decode_chunk

from .load import Publisher, drain

REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path)
    server.start()
    yield server
    server.stop()


def publish(server: ServerProcess, queue: str, count: int) -> None:
    publisher = Publisher(server.port, queue)
    while publisher.sent < count:
        publisher.step(min(32, count - publisher.sent))
    publisher.finish()
    publisher.close()


def wal_files(server: ServerProcess) -> list[Path]:
    return sorted((server.directory / "data/log/wal").glob("*.wal"))


def test_a_torn_tail_is_cut_and_everything_before_it_is_served(server: ServerProcess) -> None:
    publish(server, "torn", 500)
    server.kill()
    path = wal_files(server)[-1]
    data = path.read_bytes()
    data = data[:decode_chunk(data, data.rindex(b"MQCH")).end]      # behind it are zeros; its checksum may end with one, too
    path.write_bytes(data + data[-700:-350] + os.urandom(90))
    server.start()
    assert [number for number, _ in drain(server.port, "torn")] == list(range(1, 501))


def test_a_flipped_byte_is_named_and_the_other_queues_are_served(server: ServerProcess) -> None:
    publish(server, "broken", 300)
    publish(server, "whole", 300)
    server.kill()
    path = wal_files(server)[-1]
    data = bytearray(path.read_bytes())
    at = data.index(b"%019d" % 150) + 40
    data[at] ^= 0x10
    path.write_bytes(data)
    server.start()
    assert [number for number, _ in drain(server.port, "whole")] == list(range(1, 301))
    connection = pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port))
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as closed:
        connection.channel().basic_get("broken")
    assert closed.value.reply_code == 404
    assert "'broken'" in closed.value.reply_text
    assert path.name in server.log()
    channel = connection.channel()
    channel.queue_delete("broken")
    channel.queue_declare("broken", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "broken", b"again", pika.BasicProperties(delivery_mode=2))
    assert channel.basic_get("broken", auto_ack=True)[2] == b"again"
    connection.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 400 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(folder)], capture_output=True, check=False)
    if mounted.returncode:
        if REQUIRED and os.geteuid() == 0:
            pytest.fail(f"cannot mount a small file system: {mounted.stderr.decode()}")
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def limit() -> str:
    return "1MB"


@pytest.fixture
def cramped(small_disk: Path, limit: str) -> Iterator[ServerProcess]:
    config = small_disk.parent / "small.conf"
    config.write_text(f"disk_free_limit.absolute = {limit}\n")
    server = ServerProcess(small_disk, "--config", str(config))
    server.log_path = small_disk.parent / "server.log"
    server.start()
    yield server
    server.leave_nothing()


def test_a_full_disk_blocks_publishers_loses_nothing_and_goes_on_when_there_is_space(
    cramped: ServerProcess, small_disk: Path,
) -> None:
    publisher = Publisher(cramped.port, "full", size=10_000)
    publisher.step()
    filler = small_disk / "filler"
    fill(small_disk, filler, leave=2_000_000)
    try:
        eventually(lambda: (publisher.step(), cramped.api("GET", "/api/nodes")[0]["disk_free_alarm"])[1], every=0.0)
        until_stuck(publisher)
        stuck_at = publisher.confirmed
        filler.unlink()
        eventually(lambda: (publisher.step(), publisher.confirmed > stuck_at)[1])
        publisher.finish()
        eventually(lambda: cramped.api("GET", "/api/nodes")[0]["disk_free_alarm"] is False)
    finally:
        publisher.close()
    cramped.restart()
    found = [number for number, _ in drain(cramped.port, "full")]
    cramped.stop()
    assert found == list(range(1, publisher.sent + 1))


def deleted(server: ServerProcess, queue: str) -> int:
    with pika.BlockingConnection(pika.ConnectionParameters(server.host, server.port)) as connection:
        channel = connection.channel()
        return int(channel.queue_delete(queue).method.message_count)


@pytest.mark.parametrize("limit", ["5MB"])
@pytest.mark.parametrize("way_out", [deleted, lambda server, queue: len(drain(server.port, queue))], ids=["deleted", "drained"])
def test_a_disk_that_backlogs_have_filled_is_free_again_when_one_of_them_is_gone(
    cramped: ServerProcess, small_disk: Path, way_out: Callable[[ServerProcess, str], int],
) -> None:
    """Nothing else makes room: what the log still has to move when the disk is full must not keep what is gone from going."""
    first = Publisher(cramped.port, "first", size=10_000)
    second = Publisher(cramped.port, "second", size=10_000)
    while first.sent < 12_800:          # a file of the write-ahead log is full again soon, and there is no room to move it
        first.step()
    first.finish()
    fill(small_disk, small_disk / "filler", leave=20_000_000)
    try:
        # Slowly: a publisher that takes all there is between two looks at the disk leaves no room for what would make some.
        eventually(lambda: (second.step(8), cramped.api("GET", "/api/nodes")[0]["disk_free_alarm"])[1], every=0.01)
        until_stuck(second)
        stuck_at = second.confirmed
        assert way_out(cramped, "first") == first.sent
        eventually(lambda: (second.step(), second.confirmed > stuck_at)[1])
        second.finish()
    finally:
        first.close()
        second.close()
    found = [number for number, _ in drain(cramped.port, "second")]
    cramped.stop()
    assert found == list(range(1, second.sent + 1))


def free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def fill(folder: Path, filler: Path, *, leave: int) -> None:
    """Leave no more than that free."""
    with filler.open("wb") as file:
        while free(folder) >= leave:
            file.write(b"\0" * min(free(folder) - leave + 500_000, 1 << 20))
            file.flush()


def until_stuck(publisher: Publisher) -> None:
    """Publish until nothing is confirmed any more for a while."""
    last, since = publisher.confirmed, time.monotonic()
    while time.monotonic() - since < 3:
        publisher.step()
        if publisher.confirmed != last:
            last, since = publisher.confirmed, time.monotonic()
