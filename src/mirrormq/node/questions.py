"""What nodes ask each other, beside the work of queues: a word, what it is about, and one answer, all in JSON.

An answer is not waited for longer than `ASK_PATIENCE`, nor when the link breaks. Whoever asks must do without it then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from mirrormq.cluster.link import BULK

ASK: Final = 1                  # kinds of BULK frames: long lists may be asked for
TOLD: Final = 2
ASK_PATIENCE: Final = 5.0

Answerer = Callable[[str, dict[str, Any]], Awaitable[Any]]


class Sender(Protocol):
    """As much of a peer as is needed here."""

    @property
    def name(self) -> str: ...

    def send(self, lane: int, kind: int, payload: bytes) -> None: ...


class Questions:
    def __init__(self, fault: Callable[[BaseException], None]) -> None:
        self.answer: Answerer = _no_answer
        self._fault = fault
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, tuple[Sender, asyncio.Future[Any]]] = {}
        self._last = 0

    async def ask(self, peer: Sender, what: str, about: dict[str, Any]) -> Any:
        """Another node's answer; None if it has none in time."""
        self._last += 1
        number = self._last
        future: asyncio.Future[Any] = self._loop.create_future()
        self._asked[number] = (peer, future)
        peer.send(BULK, ASK, json.dumps({"id": number, "what": what, "about": about}).encode())
        try:
            async with asyncio.timeout(ASK_PATIENCE):
                return await future
        except TimeoutError:
            return None
        finally:
            self._asked.pop(number, None)

    async def ask_all(self, peers: Mapping[str, Sender], what: str, about: dict[str, Any]) -> dict[str, Any]:
        """The answers by node, without those that have none."""
        answers = await asyncio.gather(*(self.ask(peer, what, about) for peer in peers.values()))
        return {name: answer for name, answer in zip(peers, answers, strict=True) if answer is not None}

    def told(self, payload: bytes) -> None:
        told = json.loads(payload)
        self._settle(told["id"], told.get("answer"))

    def lost(self, peer: Sender) -> None:
        """Nothing more comes over this link."""
        for number in [number for number, (whom, _) in self._asked.items() if whom is peer]:
            self._settle(number, None)

    def _settle(self, number: int, answer: Any) -> None:
        asked = self._asked.pop(number, None)
        if asked is not None and not asked[1].done():
            asked[1].set_result(answer)

    async def reply(self, peer: Sender, payload: bytes) -> None:
        question = json.loads(payload)
        try:
            answer = await self.answer(question["what"], question["about"])
        except Exception as fault:  # noqa: BLE001 - the other node must hear something, and the log tells the rest
            self._fault(fault)
            answer = None
        peer.send(BULK, TOLD, json.dumps({"id": question["id"], "answer": answer}).encode())


async def _no_answer(_what: str, _about: dict[str, Any]) -> Any:
    return None
