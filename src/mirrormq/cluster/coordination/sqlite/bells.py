"""Bells: how a process that has written tells the others' watchers, without anyone polling.

Beside the file is a directory with one FIFO per process that watches. Who has committed writes a byte into each; who hears its
own reads the log. A FIFO that nobody holds open is that of a dead process: whoever finds it removes it. A byte that finds its
FIFO full is not needed: the bell rings already. Bells only save time; what a lost one would have told is found by the next tick.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

SUFFIX: Final = ".bell"
UNFINISHED: Final = ".new"
FORGOTTEN: Final = 60.0
"""Seconds after which an unfinished bell is that of a process that died while making it."""


class Bells:
    def __init__(self, path: Path) -> None:
        self._directory = Path(f"{path}-bells")
        self._name = f"{os.getpid()}-{secrets.token_hex(4)}{SUFFIX}"
        self._file = -1

    def hang(self) -> int:
        """Make our own bell, or make it again where someone removed it, and return the descriptor that becomes readable."""
        if self._file < 0 or not self._path.exists():
            made = self._make()
            if self._file >= 0:  # the descriptor's number is known to the event loop: keep it
                os.dup2(made, self._file, inheritable=False)
                os.close(made)
            else:
                self._file = made
        return self._file

    @property
    def _path(self) -> Path:
        return self._directory / self._name

    def _make(self) -> int:
        """It gets its name only when it is open: until then a passer-by would take it for a dead process's."""
        self._directory.mkdir(mode=0o700, exist_ok=True)
        unfinished = self._path.with_suffix(UNFINISHED)
        os.mkfifo(unfinished, 0o600)
        file = os.open(unfinished, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        unfinished.rename(self._path)
        return file

    def hear(self) -> None:
        """Take all bytes out."""
        with suppress(BlockingIOError):
            while len(os.read(self._file, 4096)) == 4096:
                pass

    def ring(self) -> None:
        """Ring all others; remove those of the dead."""
        try:
            names = os.listdir(self._directory)  # noqa: PTH208 - names are all that is needed
        except FileNotFoundError:
            return
        for name in names:
            if name.endswith(SUFFIX) and name != self._name:
                _ring(self._directory / name)
            elif name.endswith(UNFINISHED):
                _sweep(self._directory / name)

    def close(self) -> None:
        if self._file >= 0:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = -1


def _ring(path: Path) -> None:
    try:
        bell = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        if fault.errno == errno.ENXIO:
            with suppress(OSError):
                path.unlink()
        return
    try:
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(bell, b"!")
    finally:
        os.close(bell)


def _sweep(path: Path) -> None:
    with suppress(OSError):
        if path.stat().st_mtime < time.time() - FORGOTTEN:
            path.unlink()
