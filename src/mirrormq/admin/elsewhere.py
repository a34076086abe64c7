"""What this node tells other nodes that answer a request: its own things, rows and figures, and what it does for them.

Whoever asks has checked what the caller may see and do, and says so in its question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from mirrormq.admin.call import Json, State
from mirrormq.admin.census import Kind, Scope, rows_at, survey, tell_survey
from mirrormq.admin.connection_view import CHANNELS, CONNECTIONS, NAMES_OF_CONNECTIONS
from mirrormq.admin.connections import close_here
from mirrormq.admin.consumers import CONSUMERS
from mirrormq.admin.feed import figures_for_other
from mirrormq.admin.health import health_here
from mirrormq.admin.nodes import memory_here, show_here
from mirrormq.admin.overview import attempts_here
from mirrormq.admin.page_routes import QUESTIONS
from mirrormq.admin.queue_census import QUEUES
from mirrormq.admin.queues import act_for_other
from mirrormq.admin.totals import overview_part, vhost_part

_ALL: Final[tuple[Kind[Any], ...]] = (QUEUES, CONSUMERS, CONNECTIONS, NAMES_OF_CONNECTIONS, CHANNELS)
KINDS: Final = {kind.word: kind for kind in _ALL}

Answer = Callable[[State, Json], Awaitable[Any]]


async def _survey(state: State, about: Json) -> Json:
    scope = Scope(**about["scope"])
    return tell_survey(await survey(state, KINDS[about["kind"]], scope, about["query"], is_paged=about["is_paged"]))


async def _rows(state: State, about: Json) -> list[str | None]:
    places = [tuple(place) for place in about["places"]]
    return await rows_at(state, KINDS[about["kind"]], places, about["query"], is_whole=about["is_whole"])


async def _overview(state: State, about: Json) -> Json:
    return await overview_part(state, about["vhosts"], about["user"], about["query"])


async def _vhosts(state: State, about: Json) -> Json:
    return await vhost_part(state, about["vhosts"], about["query"])


async def _node(state: State, about: Json) -> Json:
    return show_here(state, about["query"])


async def _memory(state: State, _: Json) -> Json:
    return memory_here(state.runtime)


async def _health(state: State, _: Json) -> Json:
    return health_here(state)


async def _attempts(state: State, _: Json) -> list[Json]:
    return attempts_here(state)


async def _close(state: State, about: Json) -> int:
    return close_here(state, Scope(**about["scope"]), about["reason"])


async def _ring(state: State, about: Json) -> Any:
    return await state.runtime.orders.answer(about)


async def _quarantine(state: State, about: Json) -> Any:
    return await state.runtime.quarantine.answer(about)


async def _undo_room(state: State, about: Json) -> Any:
    return await state.runtime.undo.answer(about)


ANSWERS: Final[dict[str, Answer]] = {
    "survey": _survey, "rows": _rows, "overview": _overview, "vhosts": _vhosts, "node": _node, "memory": _memory,
    "health": _health, "attempts": _attempts, "close": _close, "delete": partial(act_for_other, "delete"),
    "purge": partial(act_for_other, "purge"),
    "ring_orders": _ring, "feed": figures_for_other, "quarantine_room": _quarantine, "undo_room": _undo_room, **QUESTIONS,
}  # fmt: skip


def answer_others(state: State) -> None:
    """From now on, answer other nodes' questions."""

    async def answer(what: str, about: Json) -> Any:
        state.runtime.tick()
        found = ANSWERS.get(what)
        return None if found is None else await found(state, about)

    state.runtime.cluster.questions.answer = answer
