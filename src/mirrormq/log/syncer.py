"""Who waits for the disk, so that the event loop need not: a helper process, or a thread where there can be none.

A syncer takes one request at a time and calls back on the event loop with (how many were synced, errno or 0, what failed).
"""

from __future__ import annotations

import asyncio
import errno
import marshal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from mypy_extensions import mypyc_attr

from mirrormq.log.helper import Answer, Job, perform, sync_all

Callback = Callable[[Answer], None]
PACKET: Final = 64 * 1024


class HelperGone(Exception):
    """The helper process is no longer there."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Syncer:
    """The port. kinds has a letter for each descriptor: d for fdatasync, f for fsync."""

    def sync(self, fds: list[int], kinds: bytes, callback: Callback) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class ThreadSyncer(Syncer):
    """One thread, started with the first request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._requests: SimpleQueue[tuple[list[int], bytes, Callback] | None] = SimpleQueue()
        self._runner: threading.Thread | None = None

    def sync(self, fds: list[int], kinds: bytes, callback: Callback) -> None:
        if self._runner is None:
            self._runner = threading.Thread(target=self._run, name="mirrormq-sync", daemon=True)
            self._runner.start()
        self._requests.put((fds, kinds, callback))

    def _run(self) -> None:
        while True:
            request = self._requests.get()
            if request is None:
                return
            answer = sync_all(request[0], request[1])
            self._loop.call_soon_threadsafe(request[2], answer)

    def close(self) -> None:
        if self._runner is not None:
            self._requests.put(None)
            self._runner.join()
            self._runner = None


class Helper:
    """The helper process and our end of its socket. Given the store's lock, it holds it as long as it lives."""

    def __init__(self, lock_fd: int = -1) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = Path(__file__).with_name("helper.py")
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603
                [sys.executable, "-I", "-S", str(script), str(theirs.fileno())],
                pass_fds=[theirs.fileno()] if lock_fd < 0 else [theirs.fileno(), lock_fd], stdin=subprocess.DEVNULL, cwd="/",
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        self.socket: socket.socket = ours
        ours.setblocking(False)

    def close(self) -> None:
        """It ends when its socket does; what it is at, it finishes."""
        self.socket.close()
        self.process.wait()


class ProcessSyncer(Syncer):
    """Through a helper; through a thread from the moment when the helper is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._helper: Helper | None = Helper()
        self._spare: ThreadSyncer = ThreadSyncer(loop)
        self._callback: Callback | None = None
        loop.add_reader(self._helper.socket, self._readable)

    def sync(self, fds: list[int], kinds: bytes, callback: Callback) -> None:
        assert self._callback is None
        helper = self._helper
        if helper is None:
            self._spare.sync(fds, kinds, callback)
            return
        self._callback = callback
        try:
            socket.send_fds(helper.socket, [b"S" + kinds], fds)
        except OSError:
            self._lose_helper()
            self._spare.sync(fds, kinds, callback)

    def _readable(self) -> None:
        assert self._helper is not None
        try:
            message = self._helper.socket.recv(PACKET)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        callback = self._callback
        self._callback = None
        if not message:
            self._lose_helper()
        if callback is not None:
            # What it was at may have failed, and the kernel tells that only once: nobody can ask again.
            callback(marshal.loads(message) if message else (0, errno.EIO, "the process that syncs is gone"))  # noqa: S302

    def _lose_helper(self) -> None:
        helper = self._helper
        assert helper is not None
        self._helper = None
        self._callback = None
        self._loop.remove_reader(helper.socket)
        helper.close()

    def close(self) -> None:
        if self._helper is not None:
            self._loop.remove_reader(self._helper.socket)
            self._helper.close()
            self._helper = None
        self._spare.close()


def best_syncer(loop: asyncio.AbstractEventLoop) -> Syncer:
    try:
        return ProcessSyncer(loop)
    except OSError:
        return ThreadSyncer(loop)


@mypyc_attr(allow_interpreted_subclasses=True)
class Worker:
    """Does file jobs (see helper.perform), one at a time, in a helper of its own; in a thread where there can be none."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lock_fd: int = -1) -> None:
        self._loop: asyncio.AbstractEventLoop = loop
        self._lock_fd: int = lock_fd
        self._helper: Helper | None = None
        self._tried: bool = False
        self._turn: asyncio.Lock = asyncio.Lock()

    async def perform(self, job: Job) -> None:
        """Raises OSError where the job failed. Whoever comes while a job is done waits: two that listened for an answer at once
        would get each other's, or none."""
        await self._turn.acquire()
        try:
            await self._perform(job)
        finally:
            self._turn.release()

    async def _perform(self, job: Job) -> None:
        helper = self._start()
        if helper is None:
            await self._loop.run_in_executor(None, perform, job)
            return
        try:
            answer = await self._ask(helper, marshal.dumps(job))
        except (HelperGone, ConnectionError):
            self.close()
            self._tried = True
            await self._loop.run_in_executor(None, perform, job)
            return
        if answer[1]:
            raise OSError(answer[1], answer[2])

    def _start(self) -> Helper | None:
        if not self._tried:
            self._tried = True
            try:
                self._helper = Helper(self._lock_fd)
            except OSError:
                self._helper = None
        return self._helper

    async def _ask(self, helper: Helper, data: bytes) -> Answer:
        loop = self._loop
        await loop.sock_sendall(helper.socket, b"J" + len(data).to_bytes(8, "little"))
        for at in range(0, len(data), PACKET):
            await loop.sock_sendall(helper.socket, data[at : at + PACKET])
        message = await loop.sock_recv(helper.socket, PACKET)
        if not message:
            raise HelperGone
        answer: Answer = marshal.loads(message)  # noqa: S302
        return answer

    def close(self) -> None:
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        self._tried = False
