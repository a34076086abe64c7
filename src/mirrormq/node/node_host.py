"""The broker's view of the process around it."""
from __future__ import annotations

import logging
import secrets
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING

from mirrormq.broker.bindings import Binding
from mirrormq.broker.connection import Connection
from mirrormq.broker.forward.away import AwayQueue
from mirrormq.broker.host import Host
from mirrormq.broker.metadata import Record
from mirrormq.broker.queue import Queue
from mirrormq.node.feed import COMPONENT

if TYPE_CHECKING:
    from mirrormq.node.runtime import Runtime

log = logging.getLogger("mirrormq")


class NodeHost(Host):
    """The broker's view of the runtime."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def schedule(self) -> None:
        self._runtime.schedule()

    def wake_at(self, when: int) -> None:
        self._runtime.wake_at(when)

    def token(self) -> str:
        return urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()

    def fresh_id(self) -> int:
        return (secrets.randbits(61) | 1) << 1

    def place(self, vhost: str, name: str, locator: str) -> str:
        return self._runtime.placing.place(vhost, name, locator)

    def ring_for(self, vhost: str, name: str, home: str) -> list[str]:
        return self._runtime.mirroring.wishing.ring_for(vhost, name, home)

    def view_seen(self, queue: AwayQueue, view: Record, revision: int) -> None:
        self._runtime.mirroring.view_seen(queue, view, revision)

    def hosts(self, log_id: int, queue: Queue) -> None:
        self._runtime.mirroring.hosts(log_id, queue)

    def queue_gone(self, log_id: int) -> None:
        self._runtime.mirroring.queue_gone(log_id)

    def purged(self, queue: Queue, first: int, index: int, count: int, size: int) -> None:
        self._runtime.undo.purged(queue, first, index, count, size)

    def queue_ends(self, queue: Queue, bindings: list[Binding]) -> None:
        self._runtime.undo.queue_ends(queue, bindings)

    def policies_changed(self) -> None:
        self._runtime.mirroring.wishing.look_again()

    def parameter_changed(self, component: str, vhost: str, name: str) -> None:
        if component == COMPONENT:
            self._runtime.lake_mirrors.changed(vhost, name)

    def report(self, level: str, text: str) -> None:
        self._runtime.report(level, text)

    def fault(self, error: BaseException) -> None:
        log.error("a fault in the broker; please report it", exc_info=error)

    def watch_closing(self, connection: Connection) -> None:
        self._runtime.watch_closing(connection)
