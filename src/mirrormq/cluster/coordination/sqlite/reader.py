"""The reader's thread: a connection of its own, so that reads and watches go on while a writer waits for its turn."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

from mirrormq.cluster.coordination.errors import CoordinationError

from .faults import translate
from .reading import Reading
from .schema import connect
from .worker import Job, Worker

BATCH: Final = 1


class Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._reading: Reading | None = None
        self.worker: Worker[Reading] = Worker("coordination-reader", self._handle, BATCH)

    def _handle(self, jobs: list[Job[Reading, Any]]) -> None:
        begun = [job for job in jobs if job.claim()]
        for job in begun:
            try:
                job.run(self._open(), CoordinationError)
            except (sqlite3.Error, OSError) as fault:
                job.fail(translate(fault, self._path))
            except CoordinationError as fault:
                job.fail(fault)
        for job in begun:
            self.worker.tell(job.publish)

    def _open(self) -> Reading:
        if self._reading is None:
            self._database = connect(self._path)
            self._database.execute("pragma busy_timeout = 1000")
            self._reading = Reading(self._database, self._path)
        return self._reading

    async def close(self, deadline: float) -> None:
        await self.worker.close(deadline)
        if self.worker.has_ended:
            if self._reading is not None:
                self._reading.close()
            if self._database is not None:
                self._database.close()
