"""Undo: what was purged or deleted on this node, and can be had back for a while.

Rules
 1. Nothing is copied when a queue is purged or deleted. Its log keeps the entries of a purge (`lives.want`); the log of a deleted
    queue stays, as a grave, with its last state.
 2. An item goes when its time is over (`undo-time`), when newer ones need its room (`undo-bytes`), with its virtual host, and
    when the disk is nearly full.
 3. Messages come back at the end of the queue of that name, slice by slice, each confirmed before the item forgets it. The item
    goes with the last.
 4. The node that served the queue answers for the item, which is known by `node/…`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mirrormq.broker import registry
from mirrormq.broker.arguments import QueueArguments, milliseconds
from mirrormq.broker.bindings import Binding
from mirrormq.broker.metadata import pack, unpack
from mirrormq.broker.queue import Queue
from mirrormq.broker.vhost import VirtualHost
from mirrormq.log import lives
from mirrormq.log.entries import DROP, PURGED, TRANSIENT, Entry
from mirrormq.log.errors import QueueDamaged
from mirrormq.log.snapshot import is_live
from mirrormq.node import undo_list
from mirrormq.node.alarms import DISK
from mirrormq.node.patience import StoreUnheard
from mirrormq.node.quarantine_room import NoSuchItem, publish_entries
from mirrormq.node.undo_list import DELETE, PURGE, Item, Json
from mirrormq.wire.errors import AMQPError

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

UNDO_TIME: Final = 600_000          # milliseconds, where no policy says otherwise
UNDO_BYTES: Final = 1 << 30
MOST: Final = 1000                  # items of a node
SLICE: Final = 1 << 20              # bytes that come back between two confirms
SAVE_EVERY: Final = 0.2             # seconds: many queues may go at once
TRIES: Final = 5
TELL_AFTER: Final = 3.0             # seconds after which another node hears that it goes on
OUTCOMES: Final = 100


class CannotUndo(Exception):
    """The sentence says why, and what to do. The item stays, with what has not come back."""


class Undo:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._broker = runtime.broker
        self._log = runtime.log
        self._items: dict[str, Item] = {}
        self._running: dict[str, asyncio.Task[int]] = {}
        self._outcomes: dict[str, Json] = {}        # of those that other nodes have asked for
        self._saving: asyncio.Task[None] | None = None
        self._is_dirty = False

    # --- starting and stopping ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Before the log is opened, so that it keeps the graves."""
        try:
            found = undo_list.load(self._runtime.config.data_dir)
        except (OSError, ValueError) as fault:
            self._runtime.report("warning", f"nothing that was purged or deleted before can be undone: {fault}")
            return
        self._items = {item.id: item for item in found}
        for item in found:
            if item.what == DELETE:
                self._log.graves[item.log_id] = None

    def start(self) -> None:
        """The log is open, and nothing is tidied up yet."""
        store = self._log.store
        for item in list(self._items.values()):
            if item.messages and store.queue(item.log_id) is None:
                self._drop(item)
        for log_id in {item.log_id for item in self._items.values()}:
            self._mark(log_id)

    async def close(self) -> None:
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._saving is not None:
            await self._saving

    # --- what happens to queues ---------------------------------------------------------------------------------------------

    def purged(self, queue: Queue, first: int, index: int, count: int, size: int) -> None:
        item = self._new(queue, PURGE, count, size, first)
        if item is not None:
            item.index = index
            item.record = {"count": int(count)}
            self._keep(item, queue)
            self._mark(queue.log_id)
            asyncio.get_running_loop().call_soon(self._mark, queue.log_id)     # by then the log knows a queue that was new

    def queue_ends(self, queue: Queue, bindings: list[Binding]) -> None:
        serving = self._broker.queues_by_log.get(queue.log_id)
        if serving is None or not queue.durable or queue.exclusive or queue.auto_delete:
            return
        if serving.kept or self._about(queue.log_id):
            self._entomb(serving)
        is_kept = queue.log_id in self._log.graves
        item = self._new(queue, DELETE, serving.kept if is_kept else 0, serving.kept_bytes if is_kept else 0, 1)
        if item is None:
            self._close_grave(queue.log_id)
            return
        item.record = {"auto_delete": queue.auto_delete, "arguments": pack(queue.arguments.table)}
        item.bindings = [(binding.source.name, binding.routing_key, pack(binding.arguments)) for binding in bindings]
        self._keep(item, queue)

    def _entomb(self, serving: Queue) -> None:
        """The log ends with the queue's state, sealed; what cannot be known exactly is not kept."""
        if self._broker.active:
            self._broker.turn()
        if serving.damage or serving.is_held or serving.builder.count:
            return
        snapshot = serving.snapshot(final=False)
        self._log.put_snapshot(snapshot)
        self._log.graves[serving.log_id] = snapshot

    def _new(self, queue: Queue, what: str, messages: int, size: int, first: int) -> Item | None:
        time = milliseconds(queue.effective_policy["undo-time"]) if "undo-time" in queue.effective_policy else UNDO_TIME
        if time <= 0 or size > _most_bytes(queue) or not queue.durable:
            return None
        now = int(self._broker.now)
        id = f"{self._broker.node_name}/{queue.log_id:x}-{now}-{int(queue.next_index)}"
        return Item(id, what, queue.vhost, queue.name, int(queue.log_id), now, now + time, int(messages), int(size), first)

    def _keep(self, item: Item, queue: Queue) -> None:
        """Older ones make room for it."""
        self._items[item.id] = item
        others = [other for other in self._items.values() if other is not item and other.id not in self._running]
        size = sum(other.bytes for other in self._items.values())
        for other in others:
            if size <= _most_bytes(queue) and len(self._items) <= MOST:
                break
            size -= other.bytes
            self._drop(other)
        self._changed()

    def _mark(self, log_id: int) -> None:
        ranges: list[int] = []
        for item in self._about(log_id):
            if item.what == PURGE:
                ranges += (item.first, item.index)
        lives.want(self._log.store, log_id, ranges)

    def _about(self, log_id: int) -> list[Item]:
        return [item for item in self._items.values() if item.log_id == log_id]

    # --- the end of items ---------------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Now and then."""
        if not self._items:
            return
        now, is_full = self._broker.now, DISK in self._runtime.alarms.raised()
        for item in list(self._items.values()):
            is_over = item.until_ms <= now or is_full or item.vhost not in self._broker.vhosts
            if is_over and item.id not in self._running:
                self._drop(item)

    def _drop(self, item: Item) -> None:
        self._items.pop(item.id, None)
        self._changed()
        self._mark(item.log_id)
        if not self._about(item.log_id):
            self._close_grave(item.log_id)

    def _close_grave(self, log_id: int) -> None:
        if log_id in self._log.graves:
            del self._log.graves[log_id]
            self._log.drop(log_id)
            self._runtime.schedule()

    def _changed(self) -> None:
        self._is_dirty = True
        if self._saving is None:
            self._saving = asyncio.get_running_loop().create_task(self._save(), name="writing down what can be undone")

    async def _save(self) -> None:
        try:
            while self._is_dirty:
                self._is_dirty = False
                text = undo_list.encode(list(self._items.values()))
                await asyncio.to_thread(undo_list.save, self._runtime.config.data_dir, text)
                await asyncio.sleep(SAVE_EVERY)
        except OSError as fault:
            self._runtime.report("warning", f"what can be undone could not be written down: {fault}")
        finally:
            self._saving = None

    # --- asking ---------------------------------------------------------------------------------------------------------------

    def items_here(self, vhost: str) -> list[Json]:
        return [item.shown(int(self._broker.wall_ahead)) for item in self._items.values() if item.vhost == vhost]

    async def items(self, vhost: str) -> list[Json]:
        """Of all nodes that can be asked, oldest first."""
        told = await self._runtime.cluster.ask_all("undo_room", {"do": "list", "vhost": vhost})
        items = [item for answer in [self.items_here(vhost), *told.values()] for item in answer]
        return sorted(items, key=lambda item: int(item["time_ms"]))

    async def undo(self, vhost: str, id: str) -> int:
        """Wherever it is; returns how many messages are back. Raises NoSuchItem and CannotUndo."""
        node = id.partition("/")[0]
        if node == self._broker.node_name:
            return await self.undo_here(vhost, id)
        while True:
            told = await self._runtime.cluster.ask(node, "undo_room", {"do": "undo", "vhost": vhost, "id": id})
            if told is None or "gone" in told:
                raise NoSuchItem(id)
            if "fault" in told:
                raise CannotUndo(told["fault"])
            if "messages" in told:
                return int(told["messages"])

    async def answer(self, about: Json) -> Any:
        if about["do"] == "list":
            return self.items_here(about["vhost"])
        id = about["id"]
        if id in self._outcomes:
            return self._outcomes.pop(id)
        try:
            task = self._begin(about["vhost"], id)
        except NoSuchItem:
            return {"gone": True}
        done, _ = await asyncio.wait({task}, timeout=TELL_AFTER)
        if not done:
            task.add_done_callback(lambda task: self._note_outcome(id, task))
            return {"goes_on": True}
        return _outcome(task)

    def _note_outcome(self, id: str, task: asyncio.Task[int]) -> None:
        self._outcomes[id] = _outcome(task)
        if len(self._outcomes) > OUTCOMES:
            del self._outcomes[next(iter(self._outcomes))]

    # --- taking back ----------------------------------------------------------------------------------------------------------

    async def undo_here(self, vhost: str, id: str) -> int:
        return await asyncio.shield(self._begin(vhost, id))

    def _begin(self, vhost: str, id: str) -> asyncio.Task[int]:
        task = self._running.get(id)
        if task is None:
            item = self._items.get(id)
            if item is None or item.vhost != vhost:
                raise NoSuchItem(id)
            task = self._running[id] = asyncio.get_running_loop().create_task(self._undo(item), name=f"undoing {id}")
            task.add_done_callback(lambda _: self._running.pop(id, None))
        return task

    async def _undo(self, item: Item) -> int:
        try:
            queue = await self._declared(item)
            count = await self._publish(item, queue) if item.messages else 0
        except (AMQPError, StoreUnheard, QueueDamaged, TimeoutError) as fault:
            why = str(fault) or "no confirm came in time"
            raise CannotUndo(f"{item.what} of queue '{item.name}' cannot be undone: {why}") from fault
        self._drop(item)
        self._runtime.report("info", f"{item.what} of queue '{item.name}' in vhost '{item.vhost}' is undone: {count} messages")
        return count

    async def _declared(self, item: Item) -> Queue:
        vhost = self._broker.vhosts.get(item.vhost)
        if vhost is None:
            raise CannotUndo(f"there is no vhost '{item.vhost}' any more")
        if item.name not in vhost.queues:
            if item.what == PURGE:
                raise CannotUndo(f"queue '{item.name}' is not there: undo its deletion first, or declare it")
            await self._declare(item, vhost)
        return vhost.queue(item.name)

    async def _declare(self, item: Item, vhost: VirtualHost) -> None:
        """With its bindings, as far as their exchanges are there."""
        journal = self._broker.journal
        arguments = QueueArguments(unpack(item.record["arguments"]))
        for _ in range(TRIES):
            if item.name not in vhost.queues:
                before = journal.written
                registry.create_queue(self._broker, vhost, item.name, arguments, durable=True,
                                      auto_delete=item.record["auto_delete"], owner=None)
                await self._runtime.agreed(before)
        before = journal.written
        for source, key, packed in item.bindings:
            exchange = vhost.exchanges.get(source)
            if exchange is not None and source:
                registry.bind(self._broker, vhost, exchange, vhost.queue(item.name), key, unpack(packed))
        await self._runtime.agreed(before)

    async def _publish(self, item: Item, queue: Queue) -> int:
        last, is_wanted = self._wanted(item)
        count = 0
        while item.first <= last:
            read = self._log.store.read(item.log_id, item.first, SLICE)
            entries = [entry for entry in read if entry.index <= last and not entry.flags & TRANSIENT and is_wanted(entry.index)]
            taken = await publish_entries(self._runtime, queue, entries)
            if taken < len(entries):
                raise CannotUndo(f"queue '{item.name}' has refused {len(entries) - taken} messages; {count} are back")
            count += taken
            item.messages -= taken
            item.bytes -= sum(entry.size for entry in entries)
            item.first = read[-1].index + 1 if read else last + 1
            self._changed()
        return count

    def _wanted(self, item: Item) -> tuple[int, Callable[[int], bool]]:
        """The last index, and which ones up to it."""
        if item.what == PURGE:
            return item.index, _in(self._ranges(item))
        snapshot = self._log.graves.get(item.log_id)
        if snapshot is None:
            self._drop(item)
            raise NoSuchItem(item.id)
        return snapshot.next_index - 1, lambda index: is_live(snapshot, index, index + 1)

    def _ranges(self, item: Item) -> list[int]:
        """Of the entry that ended them. Another may be in its place, where the log was cut or began anew."""
        entry: Entry | None = lives.entry_at(self._log.store, item.log_id, item.index)
        if entry is None or (entry.kind, entry.reason, entry.count) != (DROP, PURGED, item.record["count"]) or not entry.ranges:
            self._drop(item)
            raise NoSuchItem(item.id)
        return entry.ranges


def _most_bytes(queue: Queue) -> int:
    most = queue.effective_policy.get("undo-bytes", UNDO_BYTES)
    return most if isinstance(most, int) else UNDO_BYTES


def _in(ranges: list[int]) -> Callable[[int], bool]:
    """Whether an index is in flat, inclusive ranges: behind an odd number of borders, or on one."""
    lows, highs = ranges[::2], ranges[1::2]

    def holds(index: int) -> bool:
        at = bisect_right(lows, index) - 1
        return at >= 0 and index <= highs[at]

    return holds


def _outcome(task: asyncio.Task[int]) -> Json:
    fault = task.exception()
    if fault is None:
        return {"messages": task.result()}
    return {"gone": True} if isinstance(fault, NoSuchItem) else {"fault": str(fault)}
