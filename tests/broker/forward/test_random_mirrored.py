"""Random schedules over a mirrored queue whose lead moves, stops and goes on, while links break and nodes miss views.

Beyond what holds of every queue: whoever waits is answered, and what a committed transaction took never comes again.
"""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.forward.cluster import Client, Heard
from broker.forward.mirrored import MirroredCluster
from broker.forward.test_random import NAMES, STEP, Drama, Step, Story, check
from mirrormq.broker.queue import Queue
from mirrormq.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    TxCommit,
    TxCommitOk,
    TxSelect,
)

TAKING = 2  # the channel with transactions
MOVES = st.one_of(
    st.tuples(st.just("lead"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("stop"), st.just(0), st.just(0)),
    st.tuples(st.just("blind"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("see"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("wait"), st.just(0), st.integers(1, 9)),
    st.tuples(st.just("take"), st.integers(0, 2), st.integers(0, 1)),
    st.tuples(st.just("rest"), st.just(0), st.just(0)),
)


class MirroredStory(Story):
    """This client also takes messages one by one, each in a transaction."""

    def __init__(self, client: Client, number: int, committed: set[bytes], last: dict[bytes, str]) -> None:
        super().__init__(client, number)
        self.committed = committed
        self.last = last  # by whose delivery each message was seen last
        self.taking = b""
        self.tag = 0  # of what it has taken and not committed
        self.is_taking = False
        self.client.say(ChannelOpen(), TxSelect(), channel=TAKING)

    def take(self) -> None:
        """The next message, or the commit of the last."""
        if self.tag:
            self.client.say(BasicAck(self.tag), TxCommit(), channel=TAKING)
            self.tag = 0
        elif not self.is_taking:
            self.is_taking = True
            self.client.say(BasicGet("m"), channel=TAKING)

    def note(self, each: Heard) -> None:
        method = each.method
        if isinstance(method, BasicDeliver | BasicGetOk):
            assert each.body not in self.committed, "a transaction has taken it"
            self.last[each.body] = f"{self.number} {each.channel}"
        if isinstance(method, BasicGetOk):
            self.seen.append((each.body, method.redelivered))
            self.taking = each.body
            self.tag = method.delivery_tag
        elif isinstance(method, TxCommitOk):
            assert self.last[self.taking] == f"{self.number} {TAKING}", "it has gone to somebody else"
            self.committed.add(self.taking)
            self.is_taking = False
        elif isinstance(method, BasicGetEmpty):
            self.is_taking = False
        elif isinstance(method, ChannelClose):
            assert method.reply_text.endswith("partial tx completion")
            self.client.say(ChannelCloseOk(), ChannelOpen(), TxSelect(), channel=TAKING)
            self.is_taking = False
        else:
            super().note(each)


class MirroredDrama(Drama):
    queue = "m"

    def __init__(self) -> None:
        super().__init__()
        for story in self.stories:
            story.client.ask(BasicCancel("t"))
        self.stories[0].client.ask(BasicQos(0, 1), BasicConsume("m", "t"))  # the others have something to take
        self.publish(self.stories[0], 5)
        self.mirrored.rest()

    def new_cluster(self) -> MirroredCluster:
        self.mirrored = MirroredCluster(*NAMES)
        self.committed: set[bytes] = set()
        self.last: dict[bytes, str] = {}
        return self.mirrored

    def new_story(self, client: Client, number: int) -> MirroredStory:
        return MirroredStory(client, number, self.committed, self.last)

    @property
    def leader(self) -> str:
        leader: str = self.mirrored.record("m")["view"]["ring"][0]
        return leader

    def served(self) -> Queue:
        return self.mirrored.served("m")

    def step(self, what: str, which: int, much: int) -> None:
        store = self.mirrored.store
        name = NAMES[which % 3]
        broker = self.mirrored.nodes[name].broker
        if what == "lead":
            self.see(name)  # who follows nothing does not lead
            self.mirrored.lead("m", name)
        elif what == "stop":
            self.mirrored.stop_leading("m")
        elif what == "blind" and name != self.leader and broker not in store.blind:
            store.blindfold(broker)
        elif what == "see":
            self.see(name)
        elif what == "wait":
            self.mirrored.wait(much * 1000)
        elif what == "rest":
            self.mirrored.rest()
        elif what == "take":
            story = self.stories[which]
            assert isinstance(story, MirroredStory)
            story.take()
            if much:
                self.mirrored.rest()
        super().step(what, which, much)

    def see(self, name: str) -> None:
        broker = self.mirrored.nodes[name].broker
        if broker in self.mirrored.store.blind:
            self.mirrored.store.uncover(broker)

    def finish(self) -> None:
        for name in NAMES:
            self.see(name)
        self.mirrored.lead("m", self.leader)
        for which in range(3):
            self.step("heal", which, 0)
            self.step("disk", which, 1)
        self.mirrored.rest()
        for which, story in enumerate(self.stories):
            story.listen(rest=True)
            assert isinstance(story, MirroredStory)
            if story.tag:
                self.step("take", which, 0)
        super().finish()
        for story in self.stories:
            story.listen(rest=True)
        for story in self.stories:
            story.listen(rest=True)
            assert isinstance(story, MirroredStory)
            assert story.tag or not story.is_taking, "a client waits for ever"


@settings(max_examples=400)
@example([("lead", 1, 0), ("take", 0, 0), ("publish", 0, 1), ("lead", 0, 0), ("lead", 1, 0)])
@given(st.lists(st.one_of(STEP, MOVES), max_size=60))
def test_however_the_lead_moves_nobody_waits_for_ever_and_nothing_is_lost_or_doubled(steps: list[Step]) -> None:
    drama = MirroredDrama()
    for step in steps:
        drama.step(*step)
    drama.finish()
    check(drama)
