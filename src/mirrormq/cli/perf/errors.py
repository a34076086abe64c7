"""What can go wrong, as sentences with exit codes.

0: the run ended as asked. 1: it failed on the way. 2: wrong options. 3: no broker answered. 4: the broker refused login
or virtual host. 5: `--verify` found lost, doubled or disordered messages. 130: interrupted (the summary is printed).
"""

from __future__ import annotations

from typing import ClassVar

NOT_VERIFIED = 5
INTERRUPTED = 130


class PerfError(Exception):
    """The run failed; the text is for the user."""

    exit_code: ClassVar[int] = 1


class BadOption(PerfError):
    """An option makes no sense, alone or beside another."""

    exit_code: ClassVar[int] = 2


class CannotConnect(PerfError):
    """No broker answered at the address."""

    exit_code: ClassVar[int] = 3


class LoginRefused(PerfError):
    """The broker knows no such user, password or virtual host, or does not let the user in."""

    exit_code: ClassVar[int] = 4


def error_of(exit_code: int, text: str) -> PerfError:
    """The error that another process reported."""
    for kind in (CannotConnect, LoginRefused, BadOption):
        if kind.exit_code == exit_code:
            return kind(text)
    return PerfError(text)
