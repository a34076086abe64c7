"""Random schedules of publishes, acks and broken links over three nodes, and what must hold of them all.

Confirmed messages are there exactly once unless they were delivered; the order of each publisher is kept; a message that
comes twice comes as redelivered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.forward.cluster import Client, Cluster, Heard, bodies
from mirrormq.broker.queue import Queue
from mirrormq.wire.methods import BasicAck, BasicConsume, BasicDeliver, BasicGet, BasicNack, BasicQos, ConfirmSelect, QueueDeclare

NAMES = ("a", "b", "c")
PAIRS = (("a", "b"), ("a", "c"), ("b", "c"))

Step = tuple[str, int, int]
STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 2), st.integers(1, 5)),
    st.tuples(st.just("ack"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("requeue"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("turn"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("carry"), st.integers(0, 5), st.integers(1, 3)),
    st.tuples(st.just("cut"), st.integers(0, 2), st.integers(0, 8)),
    st.tuples(st.just("heal"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("disk"), st.integers(0, 2), st.integers(0, 1)),
)
STEPS = st.lists(STEP, max_size=60)


@dataclass
class Story:
    """What a client said and heard."""

    client: Client
    number: int
    sent: int = 0
    confirmed: int = 0
    refused: set[int] = field(default_factory=set)
    seen: list[tuple[bytes, bool]] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    acked: int = 0

    def listen(self, *, rest: bool) -> None:
        for each in self.client.heard(rest=rest):
            self.note(each)

    def note(self, each: Heard) -> None:
        method = each.method
        if isinstance(method, BasicDeliver):
            self.seen.append((each.body, method.redelivered))
            self.held.append(method.delivery_tag)
        elif isinstance(method, BasicAck):
            self.confirmed = method.delivery_tag
        elif isinstance(method, BasicNack):
            self.refused.add(method.delivery_tag)


class Drama:
    queue = "q"

    def __init__(self) -> None:
        self.cluster = self.new_cluster()
        self.linked = dict.fromkeys(PAIRS, True)
        self.stories = [self.new_story(self.cluster.client(name), number) for number, name in enumerate(NAMES)]
        self.stories[0].client.ask(QueueDeclare(self.queue, durable=True))
        for story in self.stories:
            story.client.ask(ConfirmSelect(), BasicQos(0, 4), BasicConsume(self.queue, "t"))

    def new_cluster(self) -> Cluster:
        return Cluster(*NAMES)

    def new_story(self, client: Client, number: int) -> Story:
        return Story(client, number)

    def served(self) -> Queue:
        return self.cluster.nodes["a"].queue(self.queue)

    def step(self, what: str, which: int, much: int) -> None:
        cluster = self.cluster
        if what == "publish":
            self.publish(self.stories[which], much)
        elif what == "ack":
            self.settle(self.stories[which], much, requeue=False)
        elif what == "requeue":
            self.settle(self.stories[which], 1, requeue=True)
        elif what == "turn":
            cluster.turn(NAMES[which])
        elif what == "carry":
            pair = PAIRS[which // 2]
            cluster.carry(*(pair if which % 2 else pair[::-1]), much)
        elif what == "disk":
            cluster.nodes[NAMES[which]].is_disk_fast = much == 1
        elif self.linked[PAIRS[which]] and what == "cut":
            self.linked[PAIRS[which]] = False
            cluster.cut(*PAIRS[which], (much // 3, much % 3))
        elif not self.linked[PAIRS[which]] and what == "heal":
            self.linked[PAIRS[which]] = True
            cluster.heal(*PAIRS[which])
        for story in self.stories:
            story.listen(rest=False)

    def publish(self, story: Story, count: int) -> None:
        story.client.publish(self.queue, *(b"%d %d" % (story.number, story.sent + n) for n in range(1, count + 1)))
        story.sent += count

    def settle(self, story: Story, count: int, *, requeue: bool) -> None:
        story.listen(rest=False)
        for tag in story.held[:count]:
            story.client.say(BasicNack(tag, requeue=True) if requeue else BasicAck(tag))
        story.held = story.held[count:]

    def finish(self) -> None:
        """Everything heals, and everybody takes what there is."""
        for which in range(3):
            self.step("heal", which, 0)
            self.step("disk", which, 1)
        self.cluster.rest()
        for _ in range(200):
            for story in self.stories:
                story.listen(rest=False)
                self.settle(story, 100, requeue=False)
            self.cluster.rest()
            if not self.served().backlog.count and not self.served().held:
                return
        raise AssertionError("the queue is never empty")


@settings(max_examples=150)
@given(STEPS)
def test_whatever_happens_to_links_nothing_confirmed_is_lost_doubled_or_out_of_order(steps: list[Step]) -> None:
    drama = Drama()
    for step in steps:
        drama.step(*step)
    drama.finish()
    check(drama)


def check(drama: Drama) -> None:
    seen = [each for story in drama.stories for each in story.seen]
    counts = Counter(body for body, _ in seen)
    firsts = Counter(body for body, redelivered in seen if not redelivered)
    assert max(firsts.values(), default=0) <= 1
    for story in drama.stories:
        assert (story.confirmed, story.refused) == (story.sent, set())
        for number in range(1, story.sent + 1):
            assert counts[b"%d %d" % (story.number, number)] >= 1
    _check_order(drama)
    assert not drama.served().kept


def _check_order(drama: Drama) -> None:
    """One consumer that saw messages of one publisher for the first time saw them in their order."""
    for story in drama.stories:
        last: dict[bytes, int] = {}
        for body, redelivered in story.seen:
            publisher, number = body.split()
            if not redelivered:
                assert int(number) > last.get(publisher, 0)
                last[publisher] = int(number)


@settings(max_examples=100)
@given(STEPS)
def test_whatever_happens_to_links_every_message_is_in_the_queue_exactly_once_and_in_order(steps: list[Step]) -> None:
    drama = Drama()
    for story in drama.stories:
        story.client.lose()
    drama.stories = [Story(drama.cluster.client(name), number) for number, name in enumerate(NAMES)]
    for story in drama.stories:
        story.client.ask(ConfirmSelect())
    for step in steps:
        if step[0] not in ("ack", "requeue"):
            drama.step(*step)
    for which in range(3):
        drama.step("heal", which, 0)
        drama.step("disk", which, 1)
    drama.cluster.rest()
    client = drama.cluster.client("a")
    found: list[bytes] = []
    while got := bodies(client.ask(BasicGet("q", no_ack=True))):
        found += got
    for story in drama.stories:
        mine = [body for body in found if body.startswith(b"%d " % story.number)]
        assert mine == [b"%d %d" % (story.number, number) for number in range(1, story.sent + 1)]
        story.listen(rest=False)
        assert story.confirmed == story.sent
