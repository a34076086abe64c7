"""Which files the write-ahead log has, noted beside it, so that one that is taken away is missed. Compiled.

    DIR/FILES                                the numbers of the oldest and the newest file, as text

Rules
 1. A file is noted when its first batch is durable, and noted no more before it is given up. So each file between the two
    numbers must be there, and a note that a crash left behind only says less.
 2. A directory without a note says nothing: it is new, or an older program wrote it.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from mirrormq.log.helper import Job, perform
from mirrormq.log.wal import Wal, WalFile

NAME: Final = "FILES"


class Roster:
    def __init__(self, directory: Path) -> None:
        self._path: Path = directory / NAME
        self._noted: bytes = b""

    def read(self) -> range:
        """The numbers of the files that must be there."""
        try:
            self._noted = self._path.read_bytes()
        except FileNotFoundError:
            return range(0)
        words = self._noted.split()
        if len(words) != 2 or not words[0].isdigit() or not words[1].isdigit():
            return range(0)
        return range(int(words[0]), int(words[1]) + 1)

    def due(self, wal: Wal, leaving: WalFile | None = None) -> Job | None:
        """The job that notes the files of now, without one that is about to go; None where they are noted."""
        numbers = [file.sequence for file in wal.files if file is not leaving]
        text = b"%d %d\n" % (numbers[0], numbers[-1]) if numbers else b""
        if not text or text == self._noted:
            return None
        self._noted = text
        return ("note", str(self._path), text)

    def note(self, wal: Wal) -> None:
        """Here and now. A disk that refuses leaves a note that says less."""
        self._noted = b""
        job = self.due(wal)
        if job is not None:
            with suppress(OSError):
                perform(job)


def missing(wanted: range, there: list[int]) -> list[int]:
    """Numbers of files that are noted, or lie between others, and are not there."""
    known = set(there)
    return sorted({*wanted, *(range(there[0], there[-1]) if there else ())} - known)
