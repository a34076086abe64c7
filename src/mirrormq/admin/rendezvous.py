"""How a tool on the same machine finds a node: by a small file, which the node writes when it serves and then removes.

Rules
 1. The file is `NODE.json` in the first of `run_directories` that can be used, readable by the node's user alone: it
    carries the token that opens the management API.
 2. It is written whole under another name and then renamed, so that nobody reads half of it.
 3. A node that was killed leaves its file behind; the process number tells so, and the next start replaces it.
"""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

FORMAT: Final = 1
SYSTEM: Final = Path("/run/mirrormq")


class Place(NamedTuple):
    """Where a node is reached."""

    node: str
    url: str
    token: str
    pid: int
    data_dir: str
    link: str = ""          # where other nodes reach it, as host:port; empty while its application is stopped

    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


def run_directories(env: Mapping[str, str]) -> list[Path]:
    """Where the files may be, in the order in which they are tried; MIRRORMQ_RUN_DIR names the only one."""
    if env.get("MIRRORMQ_RUN_DIR"):
        return [Path(env["MIRRORMQ_RUN_DIR"])]
    found = [Path(env["RUNTIME_DIRECTORY"])] if env.get("RUNTIME_DIRECTORY") else []
    found.append(SYSTEM)
    if env.get("XDG_RUNTIME_DIR"):
        found.append(Path(env["XDG_RUNTIME_DIR"]) / "mirrormq")
    found.append(Path(tempfile.gettempdir()) / f"mirrormq-{os.getuid()}")
    return found


def full_name(node: str) -> str:
    """A node's name with its host: `rabbit` is `rabbit@` this host."""
    return node if "@" in node else f"{node}@{socket.gethostname().split('.')[0]}"


def file_name(node: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.@-]", "_", node) + ".json"


# --- the node's side ------------------------------------------------------------------------------------------------


def publish(place: Place, env: Mapping[str, str]) -> Path | None:
    """Write the file; None if no directory can be used, and then tools need the node's address."""
    for directory in run_directories(env):
        if _prepare(directory):
            try:
                return _write(directory / file_name(place.node), place)
            except OSError:
                continue
    return None


def _prepare(directory: Path) -> bool:
    """Make it ours. In a directory that others may write to, a link or another's directory is not to be trusted."""
    try:
        if directory != SYSTEM:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except OSError:
        return False
    is_ours = status.st_uid == os.getuid() and status.st_mode & 0o022 == 0
    return directory.is_dir() and not directory.is_symlink() and is_ours


def _write(path: Path, place: Place) -> Path:
    fresh = path.with_suffix(f".{os.getpid()}.new")
    fresh.unlink(missing_ok=True)
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({"format": FORMAT, **place._asdict()}, file)
    fresh.replace(path)
    return path


def withdraw(path: Path | None) -> None:
    """Remove the file, unless another process has taken its place meanwhile."""
    if path is None:
        return
    place = _read(path)
    if place is not None and place.pid == os.getpid():
        path.unlink(missing_ok=True)


# --- the tool's side ------------------------------------------------------------------------------------------------


def read(node: str, env: Mapping[str, str]) -> Place | None:
    """A node's file, whether the node runs or not; one that runs is preferred."""
    found = [place for place in read_all(env) if place.node == node]
    living = [place for place in found if place.is_alive()]
    return next(iter(living or found), None)


def read_all(env: Mapping[str, str]) -> list[Place]:
    files = [file for directory in run_directories(env) if _is_trusted(directory) for file in _files(directory)]
    return [place for place in map(_read, files) if place is not None]


def _files(directory: Path) -> list[Path]:
    try:
        return sorted(directory.glob("*.json"))
    except OSError:
        return []


def _is_trusted(directory: Path) -> bool:
    """Anybody can make a directory among the temporary files: only our own counts there."""
    if directory.parent != Path(tempfile.gettempdir()):
        return True
    try:
        status = directory.lstat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and status.st_mode & 0o022 == 0 and not directory.is_symlink()


def _read(path: Path) -> Place | None:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] > FORMAT:
            return None
        return Place(record["node"], record["url"], record["token"], int(record["pid"]), record["data_dir"],
                     record.get("link", ""))
    except (OSError, ValueError, KeyError, TypeError):
        return None
