"""Dead letters and delayed messages whose way leads to another node."""

from __future__ import annotations

from broker.forward.cluster import Client, Cluster, bodies, methods
from mirrormq.log.entries import DROP, entries_in
from mirrormq.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicReject,
    ConfirmSelect,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from mirrormq.wire.properties import Properties


def two() -> tuple[Cluster, Client, Client]:
    """Messages that leave q on a go to `dead` on b."""
    cluster = Cluster("a", "b")
    a, b = cluster.client("a"), cluster.client("b")
    b.ask(QueueDeclare("dead", durable=True))
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    a.ask(QueueDeclare("q", durable=True, arguments=letters))
    return cluster, a, b


def drops(cluster: Cluster, queue: int) -> int:
    log = cluster.nodes["a"].log
    return sum(1 for chunk in log.chunks[queue] for entry in entries_in(chunk, 0) if entry.kind == DROP)


def test_the_end_of_a_dead_letter_is_logged_when_the_other_node_has_confirmed_it() -> None:
    cluster, a, b = two()
    queue = cluster.nodes["a"].queue("q")
    a.publish("q", b"1")
    a.ask(BasicGet("q"))
    cluster.nodes["b"].is_disk_fast = False
    a.ask(BasicReject(1, requeue=False))
    assert cluster.nodes["b"].queue("dead").backlog.count == 1
    assert drops(cluster, queue.log_id) == 0
    assert queue.kept == 1
    snapshot = queue.snapshot(final=False)
    assert 1 in snapshot.live or snapshot.cursor <= 1        # a crash would not lose it
    cluster.nodes["b"].is_disk_fast = True
    cluster.rest()
    assert drops(cluster, queue.log_id) == 1
    assert queue.kept == 0
    assert queue.held_logged == set()
    assert bodies(b.ask(BasicGet("dead"))) == [b"1"]


def test_a_dead_letter_waits_out_a_broken_link() -> None:
    cluster, a, b = two()
    a.publish("q", b"1")
    a.ask(BasicGet("q"))
    cluster.cut("a", "b")
    a.ask(BasicReject(1, requeue=False))
    queue = cluster.nodes["a"].queue("q")
    assert queue.kept == 1
    cluster.heal("a", "b")
    cluster.rest()
    assert bodies(b.ask(BasicGet("dead"))) == [b"1"]
    assert queue.kept == 0


def test_a_dead_letter_that_nobody_takes_is_gone() -> None:
    cluster, a, _ = two()
    queue = cluster.nodes["a"].queue("q")
    a.publish("q", b"1", b"2")
    a.ask(BasicConsume("q", "t"))
    cluster.cut("a", "b")
    a.ask(BasicReject(1, requeue=False))
    cluster.nodes["a"].broker.forwarding.node_gone("b")
    cluster.rest()
    a.ask(BasicReject(2, requeue=False))
    assert queue.kept == 0
    assert queue.held_logged == set()


def test_a_letter_from_a_forwarded_reject_goes_from_home_to_home() -> None:
    _, a, b = two()
    a.publish("q", b"1")
    b.ask(BasicConsume("q", "t"))
    b.ask(BasicReject(1, requeue=False))
    heard = b.ask(BasicGet("dead"))
    assert bodies(heard) == [b"1"]


def test_a_delayed_message_reaches_a_queue_on_another_node_and_ends_then() -> None:
    cluster, a, b = two()
    a.ask(ExchangeDeclare("later", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"}))
    b.ask(QueueBind("dead", "later", "k"))
    a.ask(ConfirmSelect())
    a.publish("k", b"1", exchange="later", properties=Properties(delivery_mode=2, headers={"x-delay": 1000}))
    assert methods(a.heard(), BasicAck)
    hidden = next(iter(cluster.nodes["a"].broker.delays.queues.values()))
    cluster.nodes["b"].is_disk_fast = False
    cluster.wait(1001)
    cluster.rest()
    assert hidden.kept == 1
    cluster.nodes["b"].is_disk_fast = True
    assert bodies(b.ask(BasicGet("dead"))) == [b"1"]
    assert hidden.kept == 0


def test_dead_letters_that_pile_up_hold_nobody_who_did_not_publish_there() -> None:
    cluster, a, _ = two()
    cluster.cut("a", "b")
    bystander = cluster.client("a")
    bystander.ask(QueueDeclare("other"))
    for _ in range(50):
        a.publish("q", b"x" * 100_000, properties=Properties(delivery_mode=2, expiration="10"))
        cluster.rest()
    cluster.wait(11)
    cluster.rest()
    assert cluster.nodes["a"].broker.forwarding.embassy("b").load > 4 << 20
    bystander.publish("other", b"1")
    assert not bystander.pipe.is_paused
    a.publish("dead", b"y")
    assert a.pipe.is_paused
    cluster.heal("a", "b")
    cluster.rest()
    assert not a.pipe.is_paused
    assert cluster.nodes["b"].queue("dead").backlog.count == 51
