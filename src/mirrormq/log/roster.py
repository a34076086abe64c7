"""Which files the write-ahead log has, noted beside it, so that one that is taken away is missed. Compiled.

    DIR/FILES                                the numbers of the oldest and the newest file and a crc32 of the two, as text

Rules
 1. A file is noted when its first batch is durable, and noted no more before it is given up. So each file between the two
    numbers must be there, and a note that a crash left behind only says less. What recovery cut down to its header is not noted
    either, until it has a batch again. Where no file has one, the newest is the number before the oldest.
 2. A directory without a note says nothing: it is new, or an older program wrote it. A note that is damaged says nothing either,
    but that is told.
 3. Files below the oldest that is noted were given up, in whatever order their removal reached the disk: nobody misses them.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from mirrormq.log.helper import Job, perform
from mirrormq.log.wal import Wal, WalFile

NAME: Final = "FILES"
LONGEST: Final = 64


class Roster:
    """`problem` is a sentence where the note cannot be read."""

    def __init__(self, directory: Path) -> None:
        self._path: Path = directory / NAME
        self._noted: bytes = b""
        self.problem: str = ""

    def read(self) -> range:
        """The numbers of the files that must be there."""
        try:
            self._noted = self._path.read_bytes()
        except FileNotFoundError:
            return range(0)
        except OSError as fault:
            self._noted = fault.strerror.encode() if fault.strerror else b"?"
        words = self._noted.split()
        if len(words) == 3 and len(self._noted) < LONGEST and words[0].isdigit() and words[1].isdigit():
            oldest, newest = int(words[0]), int(words[1])
            if _text(oldest, newest) == self._noted:
                return range(oldest, newest + 1)
        self.problem = f"{self._path} is damaged, so a file that is missing may not be missed this time; it is written anew"
        return range(0)

    def due(self, wal: Wal, leaving: WalFile | None = None) -> Job | None:
        """The job that notes the files of now, without one that is about to go; None where they are noted."""
        files = [file for file in wal.files if file is not leaving]
        if not files:
            return None
        oldest = files[0].sequence
        text = _text(oldest, max([file.sequence for file in files if file.is_durable], default=oldest - 1))
        if text == self._noted:
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


def _text(oldest: int, newest: int) -> bytes:
    numbers = b"%d %d" % (oldest, newest)
    return b"%s %08x\n" % (numbers, crc32(numbers))


def missing(wanted: range, there: list[int]) -> list[int]:
    """Numbers of files that are noted, or lie between others, and are not there."""
    between = range(max(there[0], wanted.start), there[-1]) if there else range(0)
    return sorted({*wanted, *between} - set(there))
