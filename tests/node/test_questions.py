"""Questions between nodes, over a line that the test holds in its hands."""

from __future__ import annotations

import asyncio
from typing import Any

from mirrormq.cluster.link import BULK
from mirrormq.node.questions import ASK, TOLD, Questions


class Line:
    """What is sent to this node waits until it is delivered."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent: list[tuple[int, bytes]] = []
        self.has_news = asyncio.Event()

    def send(self, lane: int, kind: int, payload: bytes) -> None:
        assert lane == BULK
        self.sent.append((kind, payload))
        self.has_news.set()


class Two:
    def __init__(self) -> None:
        self.faults: list[BaseException] = []
        self.asking = Questions(self.faults.append)
        self.asked = Questions(self.faults.append)
        self.there, self.back = Line("b"), Line("a")

    async def deliver(self) -> None:
        for kind, payload in self.there.sent:
            assert kind == ASK
            await self.asked.reply(self.back, payload)
        for kind, payload in self.back.sent:
            assert kind == TOLD
            self.asking.told(payload)
        self.there.sent, self.back.sent = [], []


async def asking(two: Two, what: str, about: dict[str, Any]) -> asyncio.Task[Any]:
    task = asyncio.create_task(two.asking.ask(two.there, what, about))
    await asyncio.sleep(0)
    return task


async def test_a_question_is_answered():
    two = Two()

    async def answer(what: str, about: dict[str, Any]) -> Any:
        return [what, about]

    two.asked.answer = answer
    first, second = await asking(two, "one", {"a": 1}), await asking(two, "two", {})
    await two.deliver()
    assert (await first, await second) == (["one", {"a": 1}], ["two", {}])


async def test_a_node_that_fails_to_answer_says_so_and_logs_why():
    two = Two()

    async def answer(what: str, about: dict[str, Any]) -> Any:
        raise RuntimeError(what)

    two.asked.answer = answer
    task = await asking(two, "one", {})
    await two.deliver()
    assert await task is None
    assert [str(fault) for fault in two.faults] == ["one"]


async def test_a_link_that_breaks_ends_the_waiting_for_its_node_alone():
    two, other = Two(), Line("c")
    task = await asking(two, "one", {})
    rest = asyncio.create_task(two.asking.ask(other, "one", {}))
    await asyncio.sleep(0)
    two.asking.lost(two.there)
    assert await task is None
    assert not rest.done()
    two.asking.lost(other)
    assert await rest is None


async def test_an_answer_that_comes_too_late_is_dropped():
    two = Two()
    task = await asking(two, "one", {})
    two.asking.lost(two.there)
    await two.deliver()
    assert await task is None


async def test_all_are_asked_and_those_without_an_answer_are_left_out():
    two, other = Two(), Line("c")

    async def answer(what: str, about: dict[str, Any]) -> Any:
        return 0

    two.asked.answer = answer
    task = asyncio.create_task(two.asking.ask_all({"b": two.there, "c": other}, "one", {}))
    await other.has_news.wait()
    await two.deliver()
    two.asking.lost(other)
    assert await task == {"b": 0}
