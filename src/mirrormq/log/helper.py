"""A small process beside the node that does what would hold up its event loop: syncing, copying and removing files.

It is a process and not a thread because a thread must win the interpreter lock back after each call, and a busy event loop
lets go of it late. Measured on two cores with a saturated loop, a commit took 0.3 to 0.6 ms (median) through this process,
from 0.4 ms to a second through a thread, and 4 ms through the kernel's asynchronous fsync.

This file is run as a script (`python -I -S helper.py FD`) and imports nothing of the package. Over the socket FD, which
keeps message borders, come requests; each gets one answer, in order:

    b"S" + one letter per descriptor sent along (d: fdatasync, f: fsync)
    b"J" + length u64, followed by that many bytes on the same socket: a job, marshalled (see perform)

The answer is marshalled: (how many descriptors or jobs were done, errno or 0, what failed). The end of the socket is the end
of the process.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ZEROS = bytes(1 << 20)
PIECE = 1 << 20
MAX_FDS = 8
MANY = 8
FILL_ROOM = 4       # what is only there to be fast takes no more than a quarter of the free space
FILL_PAUSE = 0.004  # so that those who wait for a commit get their turn at the disk
LEFT_FREE = 4 << 20 # by copies: the last of the space is for what clients do, such as to acknowledge messages or delete queues
Job = tuple[Any, ...]
Answer = tuple[int, int, str]
Source = tuple[str | bytes, list[int]]
Copy = tuple[str, int, bytes, list[Source]]


def sync_all(fds: list[int], kinds: bytes) -> Answer:
    """Sync each in turn; says how many were, and what stopped it."""
    done = 0
    try:
        for fd, kind in zip(fds, kinds, strict=True):
            if kind == ord("d"):
                os.fdatasync(fd)
            else:
                os.fsync(fd)
            done += 1
    except OSError as problem:
        return done, problem.errno or 5, problem.strerror or "input/output error"
    return done, 0, ""


def perform(job: Job) -> None:
    """Do one job; raises OSError, and may be repeated. A job is a name and its arguments:

    ("copy", [(target, offset, head, [(source, flat offsets and sizes), …]), …]): for each target write head at the start if
    it is not empty, then the pieces one behind another from offset on, and cut what lies behind; then sync all of them and
    the directories above; a source is the path of a file, or bytes, which are written as they are; refused where it would take
    the last of the space
    ("fill", path, size): a file of zeros, under another name until it is complete; refused where space is scarce
    ("note", path, bytes): a small file with that content, whole or not at all; on a full disk over the one that is there, so
    the bytes must tell whether they are whole
    ("remove", [path, …]): files
    ("remove_tree", path): a directory and the files in it
    ("remove_tree", path, [name, …]): these files of it, and the directory unless there are others
    """
    name = job[0]
    if name == "copy":
        _copy_all(job[1])
    elif name == "fill":
        _fill(job[1], job[2])
    elif name == "note":
        _note(job[1], job[2])
    elif name == "remove":
        _remove(job[1])
    elif name == "remove_tree":
        _remove_tree(job[1], job[2] if len(job) > 2 else None)
    else:
        raise ValueError(name)


def _copy_all(copies: list[Copy]) -> None:
    _expect_room(copies)
    directories: set[str] = set()
    for target, offset, head, sources in copies:
        parent = Path(target).parent
        sync = len(copies) < MANY or SYNCFS is None
        if head:
            directories |= {str(parent), str(parent.parent)}
            parent.mkdir(parents=True, exist_ok=True)
        try:
            _copy(target, offset, head, sources, sync=sync)
        except FileNotFoundError:
            if not head:
                raise
            parent.mkdir(parents=True, exist_ok=True)       # it was removed meanwhile, being empty
            _copy(target, offset, head, sources, sync=sync)
    if SYNCFS is not None and len(copies) >= MANY:
        _sync_file_system(str(Path(copies[0][0]).parent))
    else:
        for directory in sorted(directories, reverse=True):
            sync_directory(directory)


def _expect_room(copies: list[Copy]) -> None:
    size = sum(len(source) if isinstance(source, bytes) else sum(runs[1::2])
               for _, _, _, sources in copies for source, runs in sources)
    room = os.statvfs(Path(copies[0][0]).parent.parent)
    if room.f_bavail * room.f_frsize < size + LEFT_FREE:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _copy(
    target: str, offset: int, head: bytes, sources: list[Source], *, sync: bool
) -> None:
    fd = os.open(target, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    start = offset
    try:
        if head:
            _write(fd, head, 0)
        for source, runs in sources:
            offset = _write(fd, source, offset) if isinstance(source, bytes) else _copy_runs(fd, offset, source, runs)
        os.ftruncate(fd, offset)
        if sync:
            os.fdatasync(fd)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, start)     # half a copy would take the room that the next try needs
        raise
    finally:
        os.close(fd)


def _find_syncfs() -> Any:
    """The C library's syncfs: one wait for many files."""
    try:
        return ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return None


def _sync_file_system(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if SYNCFS(fd) != 0:
            raise OSError(ctypes.get_errno(), "cannot sync the file system")
    finally:
        os.close(fd)


def _copy_runs(fd: int, offset: int, source: str, runs: list[int]) -> int:
    origin = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for at in range(0, len(runs), 2):
            offset = _copy_run(origin, runs[at], runs[at + 1], fd, offset)
    finally:
        os.close(origin)
    return offset


def _copy_run(origin: int, start: int, size: int, fd: int, offset: int) -> int:
    while size > 0:
        data = os.pread(origin, min(size, PIECE), start)
        if not data:
            raise OSError(5, "a file of the log is shorter than it should be")
        offset = _write(fd, data, offset)
        start += len(data)
        size -= len(data)
    return offset


def _write(fd: int, data: bytes, offset: int) -> int:
    view = memoryview(data)
    while view:
        written = os.pwrite(fd, view, offset)
        offset += written
        view = view[written:]
    return offset


def _fill(path: str, size: int) -> None:
    unfinished = Path(path + ".new")
    room = os.statvfs(unfinished.parent)
    if room.f_bavail * room.f_frsize < FILL_ROOM * size:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    try:
        _write_zeros(unfinished, size)
        unfinished.rename(path)
        sync_directory(str(unfinished.parent))
    except OSError:
        with suppress(OSError):
            unfinished.unlink()
        raise


def _write_zeros(path: Path, size: int) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
    try:
        offset = 0
        while offset < size:
            offset = _write(fd, ZEROS[: size - offset], offset)
            os.fdatasync(fd)
            time.sleep(FILL_PAUSE)
        os.fsync(fd)
    finally:
        os.close(fd)


def _note(path: str, data: bytes) -> None:
    unfinished = Path(f"{path}-{os.getpid()}.new")      # the node may note something while its helper is still at it
    try:
        _write_small(str(unfinished), data)
    except OSError as fault:
        with suppress(OSError):
            unfinished.unlink()
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT) or not Path(path).exists():
            raise
        _write_small(path, data)    # what would free some space waits for this, and it needs none
        return
    unfinished.rename(path)
    sync_directory(str(unfinished.parent))


def _write_small(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        _write(fd, data, 0)
        os.ftruncate(fd, len(data))
        os.fsync(fd)
    finally:
        os.close(fd)


def _remove(paths: list[str]) -> None:
    for path in paths:
        Path(path).unlink(missing_ok=True)


def _remove_tree(path: str, names: list[str] | None) -> None:
    with suppress(FileNotFoundError):
        _remove([f"{path}/{name}" for name in (os.listdir(path) if names is None else names)])
        try:
            Path(path).rmdir()
        except OSError as fault:
            if fault.errno != errno.ENOTEMPTY or names is None:
                raise


def sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


SYNCFS = _find_syncfs()


def _answer_sync(message: bytes, fds: list[int]) -> Answer:
    try:
        return sync_all(fds, message[1:])
    finally:
        for fd in fds:
            os.close(fd)


def _answer_job(link: socket.socket, message: bytes) -> Answer:
    size = int.from_bytes(message[1:9], "little")
    data = bytearray()
    while len(data) < size:
        part = link.recv(1 << 20)
        if not part:
            raise ConnectionError
        data += part
    try:
        perform(marshal.loads(bytes(data)))  # noqa: S302 - our own parent wrote it
    except OSError as problem:
        return 0, problem.errno or 5, f"{problem.strerror}: {problem.filename or ''}"
    return 1, 0, ""


def serve(link: socket.socket) -> None:
    """Until the other side is gone."""
    while True:
        message, fds, _, _ = socket.recv_fds(link, 1 << 16, MAX_FDS)
        if not message:
            return
        answer = _answer_sync(message, fds) if message[:1] == b"S" else _answer_job(link, message)
        link.send(marshal.dumps(answer))


if __name__ == "__main__":
    # A signal to the whole group must not take the disk away from a node that is still stopping.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with suppress(ConnectionError):
        serve(socket.socket(fileno=int(sys.argv[1])))
