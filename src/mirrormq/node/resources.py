"""What the operating system says of memory and disk: the samples that the alarms decide on."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""What mallopt(3) calls M_TRIM_THRESHOLD and so on."""


def resident_memory() -> int:
    """Bytes of memory that this process occupies."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_disk(folder: Path) -> int | None:
    """Bytes free for this user on the disk of `folder`; None if the system does not say."""
    try:
        status = os.statvfs(folder)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize


def total_memory(cgroups: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes of memory that this process may have: the machine's, or its cgroup's where that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_cgroup_limits(cgroups, membership)])


def _cgroup_limits(cgroups: Path, membership: Path) -> list[int]:
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    limits: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            limits += _limits_up_from(cgroups, path, "memory.max")
        elif "memory" in controllers.split(","):
            limits += _limits_up_from(cgroups / "memory", path, "memory.limit_in_bytes")
    return limits


def _limits_up_from(root: Path, path: str, name: str) -> list[int]:
    """The limits of a cgroup and of those that it is in: the smallest counts."""
    folder = root / path.strip("/")
    limits: list[int] = []
    for group in (folder, *folder.parents):
        if group.is_relative_to(root):
            limits += _limit_in(group / name)
    return limits


def _limit_in(file: Path) -> list[int]:
    try:
        text = file.read_text(encoding="ascii").strip()
    except OSError:
        return []
    return [int(text)] if text.isdecimal() and int(text) > 0 else []


def release_memory() -> None:
    """Gives freed memory back to the system.

    The C library keeps what Python frees: resident memory would stay above the limit after the messages are gone, and
    the alarm would never clear.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return  # not glibc


def keep_memory() -> None:
    """Lets the C library keep freed memory for the next batch of messages.

    Of its own it gives the end of its heap back whenever a few hundred kilobytes are free there, and so the pages of large
    messages would come from the system, and be cleared, in every turn.
    """
    try:
        tune = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return  # not glibc
    for name, size in ((TRIM_THRESHOLD, 32 << 20), (TOP_PAD, 1 << 20), (MMAP_THRESHOLD, 8 << 20)):
        tune(name, size)
