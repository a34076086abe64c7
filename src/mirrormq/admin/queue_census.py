"""Queues of the whole cluster: every node knows them all, and the home of each knows what is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from mirrormq.admin.call import Json, State
from mirrormq.admin.census import Census, Entry, Kind, Place, Query, Scope, Survey, ask_rows, shown
from mirrormq.admin.listing import in_slices, sort_key, value_at
from mirrormq.admin.queue_marks import IS_AWAY, NUMBERS, all_told_here, memory_of_queues, quick_value, told_here
from mirrormq.admin.queue_view import QueueView, show_down
from mirrormq.admin.row_cache import Memory
from mirrormq.broker.broker import Broker
from mirrormq.broker.queue import Queue


def known_queues(broker: Broker, scope: Scope) -> list[Queue]:
    """Wherever they are, in the order in which they are shown."""
    chosen = [vhost.queues for name, vhost in sorted(broker.vhosts.items()) if scope.has_vhost(name)]
    return list(chain.from_iterable(map(queues.__getitem__, sorted(queues)) for queues in chosen))


class Queues(Kind[Queue]):
    word = "queues"

    def find(self, broker: Broker, scope: Scope) -> list[Queue]:
        return all_told_here(broker, known_queues(broker, scope))

    def pick(self, broker: Broker, places: Sequence[Place]) -> list[Queue | None]:
        found = [known_queue(broker, place) for place in places]
        return [None if queue is None else told_here(broker, queue) for queue in found]

    def place(self, thing: Queue) -> Place:
        return (thing.vhost, thing.name)

    def name(self, thing: Queue) -> str:
        return thing.name

    def vhost(self, thing: Queue) -> str:
        return thing.vhost

    def view(self, state: State, query: Query) -> Callable[[Queue], Json]:
        show = QueueView(state, query).show
        return lambda queue: show_down(queue) if queue.is_away else show(queue)

    def memory(self, state: State) -> Memory[Queue]:
        return memory_of_queues(state)

    def quick_value(self, state: State, column: str) -> Callable[[Queue], object] | None:
        return quick_value(state, column)

    def quick_numbers(self, column: str) -> Callable[[Sequence[Queue]], Iterable[int]] | None:
        return NUMBERS.get(column)

    def whole_view(self, state: State, query: Query) -> Callable[[Queue], Json]:
        show = QueueView(state, query).show_whole
        return lambda queue: show_down_whole(queue) if queue.is_away else show(queue)


def known_queue(broker: Broker, place: Place) -> Queue | None:
    vhost = broker.vhosts.get(str(place[0]))
    return None if vhost is None else vhost.queues.get(str(place[1]))


def show_down_whole(queue: Queue) -> Json:
    return {"consumer_details": [], "deliveries": [], "incoming": [], **show_down(queue)}


QUEUES = Queues()


class QueueCensus(Census[Queue]):
    """Where names alone decide the order, nobody has to be asked for it."""

    def __init__(self, state: State, query: Query, scope: Scope) -> None:
        super().__init__(state, query, QUEUES, scope, is_paged=True)

    def _all_here(self) -> list[Queue] | None:
        """Also queues of nodes that are down are listed."""
        queues = [] if self._cluster.neighbours else known_queues(self.state.broker, self.scope)
        return None if self._cluster.neighbours or any(map(IS_AWAY, queues)) else queues

    async def look(self) -> Survey:
        if self.order.is_by_names:
            return await self._by_names()
        found = await super().look()
        silent = self._silent()
        wanted = self._wanted(silent)
        path = self.order.column.split(".")
        more = await in_slices(wanted, lambda queue: Entry(queue.home, self.kind.place(queue),
                                                             sort_key(value_at(show_down(queue), path))))
        return Survey(found.total + len(silent), found.filtered + len(wanted), found.entries + more)

    def _silent(self) -> list[Queue]:
        """Those of nodes that have not answered, in any order."""
        broker = self.state.broker
        away = [queue for name, vhost in broker.vhosts.items() if self.scope.has_vhost(name)
                for queue in filter(IS_AWAY, vhost.queues.values())]
        return [queue for queue in away if broker.serving(queue) is None and queue.home not in self.answered]

    async def _by_names(self) -> Survey:
        own = self.state.broker.node_name
        queues = known_queues(self.state.broker, self.scope)
        wanted = self._wanted(queues)
        count = len(wanted)
        if self.page is not None:
            wanted = self._in_order(wanted)[:self.page.number * self.page.size]
        key = self.order.keys(self.kind, show_down, self.state)
        entries = await in_slices(wanted, lambda queue: Entry(queue.home or own, self.kind.place(queue), key(queue)))
        return Survey(len(queues), count, entries)

    def _in_order(self, queues: list[Queue]) -> list[Queue]:
        """By names: the others need not be looked at for a page."""
        order = self.order
        if not order.column:
            return queues[::-1] if order.is_backwards else queues
        by_name = order.column == "name"
        return sorted(queues, key=lambda queue: queue.name if by_name else queue.vhost, reverse=order.is_backwards)

    def _wanted(self, queues: list[Queue]) -> list[Queue]:
        page = self.page
        return queues if page is None or page.is_of_all else [queue for queue in queues if page.wanted(queue.name)]

    def without_home(self, places: Sequence[Place]) -> list[str | None]:
        text = shown(show_down, self.query)
        queues = [known_queue(self.state.broker, place) for place in places]
        return [None if queue is None else text(queue) for queue in queues]

    def without_leader(self, node: str, places: Sequence[Place], rows: list[str | None]) -> list[str | None]:
        """Mirrored queues that nobody leads are down; one whose lead has just moved is told by the next list."""
        broker, text = self.state.broker, shown(show_down, self.query)
        told: list[str | None] = []
        for place, row in zip(places, rows, strict=True):
            queue = known_queue(broker, place) if row is None else None
            is_unled = queue is not None and queue.home == node and queue.log_id in broker.forwarding.mirrored
            told.append(text(queue) if queue is not None and is_unled else row)
        return told


async def show_alone(state: State, queue: Queue, query: Query) -> Json | None:
    """A queue with its consumers, as its home tells; None if it has gone. A mirrored one may be there, and led by nobody."""
    here = state.broker.serving(queue)
    if here is not None:
        return QueueView(state, query).show_whole(here)
    query = {name: value for name, value in query.items() if name != "columns"}
    rows = await ask_rows(state, queue.home, QUEUES, [QUEUES.place(queue)], query, is_whole=True)
    is_led = rows is None or rows[0] is not None or queue.log_id not in state.broker.forwarding.mirrored
    if rows is None or not is_led:
        return show_down_whole(queue)
    return None if rows[0] is None else json.loads(rows[0])
