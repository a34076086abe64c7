"""The secret that the nodes of a cluster share, as Erlang's nodes share their cookie.

Rules:

- A value from the configuration or the environment goes before the file. The file is made, with mode 0600 and a random value, if
  there is none.
- Two nodes that start at once agree: the file appears under its name whole, or not at all, and whoever comes second reads it.
- A file that others can read, or that belongs to another user, is refused, with the command that mends it.
- The secret is never sent and never logged; sentences name the file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ENVIRONMENT: Final = "MIRRORMQ_COOKIE"
"""The variable that may hold the value."""

FILE_NAME: Final = ".mirrormq.cookie"
"""In the home directory, as RabbitMQ's `.erlang.cookie` is."""

SHORTEST: Final = 8
LONGEST: Final = 4096
_UNFINISHED: Final = 2.0
"""Where files cannot be linked, another node may still be writing the file that it made; it gets this long."""


class SecretError(Exception):
    """The secret cannot be used; the text says which file, and what to do."""


def default_path() -> Path:
    return Path.home() / FILE_NAME


def shared_secret(path: Path | None = None, value: str = "", environment: Mapping[str, str] = os.environ) -> bytes:
    """The secret: the given value, that of the environment, or that of the file, which is made if it is missing."""
    given = value or environment.get(ENVIRONMENT, "")
    if given:
        return _checked(given.encode(), "the given cookie")
    file = path or default_path()
    return _read_or_create(file)


def _read_or_create(file: Path) -> bytes:
    until = time.monotonic() + _UNFINISHED
    while True:
        content = _read(file)
        if content is None:
            _create(file)
        elif content or time.monotonic() > until:
            return _checked(content, str(file))
        else:
            time.sleep(0.02)


def _read(file: Path) -> bytes | None:
    """The content without white space around it, or None if there is no such file."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SecretError(f"{file} cannot be read ({error.strerror}); it must belong to the user that runs the node") from None
    try:
        _check_owner(file, os.fstat(descriptor))
        return os.read(descriptor, LONGEST + 2).strip()
    finally:
        os.close(descriptor)


def _check_owner(file: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise SecretError(f"{file} is not a file; remove it, and the node makes one")
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise SecretError(f"{file} belongs to another user; make it yours: chown {os.geteuid()} {file}")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise SecretError(f"{file} can be read by others (mode {mode:04o}); run: chmod 600 {file}")


def _checked(secret: bytes, source: str) -> bytes:
    if len(secret) < SHORTEST:
        raise SecretError(f"{source} has fewer than {SHORTEST} characters; a long random text keeps strangers out")
    if len(secret) > LONGEST:
        raise SecretError(f"{source} has more than {LONGEST} characters; is it the right file?")
    return secret


def _create(file: Path) -> None:
    """Makes the file, unless another node was faster."""
    draft = file.with_name(f"{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(draft)
        try:
            os.link(draft, file)
        finally:
            draft.unlink()
    except FileExistsError:
        return
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}:
            raise SecretError(f"{file} cannot be made: {error.strerror}") from None
        _create_in_place(file)


def _create_in_place(file: Path) -> None:
    """Some file systems have no hard links. A reader may see the file empty for a moment, and waits."""
    with contextlib.suppress(FileExistsError):
        try:
            _write(file)
        except FileExistsError:
            raise
        except OSError as error:
            raise SecretError(f"{file} cannot be made: {error.strerror}") from None


def _write(file: Path) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        os.fchmod(descriptor, 0o600)
        opened.write(secrets.token_hex(32).encode() + b"\n")
        opened.flush()
        os.fsync(descriptor)
