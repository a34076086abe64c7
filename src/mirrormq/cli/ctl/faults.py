"""Ways in which a command ends badly, each with the exit code that scripts for RabbitMQ expect."""

from __future__ import annotations

import html
from typing import Final

OK: Final = 0
USAGE: Final = 64
DATA: Final = 65
NO_USER: Final = 67
UNAVAILABLE: Final = 69
SOFTWARE: Final = 70
IO_ERROR: Final = 74
TEMPORARY: Final = 75


class Failure(Exception):
    """The command cannot be carried out. `is_bare` for sentences that stand without "Error:" before them."""

    def __init__(self, code: int, text: str, *, is_bare: bool = False) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.is_bare = is_bare

    def sentence(self) -> str:
        return self.text if self.is_bare else f"Error:\n{self.text}"


class TimedOut(Failure):
    """The node has not answered in time."""

    def __init__(self, node: str, seconds: float) -> None:
        super().__init__(TEMPORARY, f"node {node} did not answer within {seconds:g} seconds", is_bare=True)
        self.node = node
        self.milliseconds = round(seconds * 1000)


class Misuse(Exception):
    """The command line is wrong; the usage of the command follows the sentence."""

    def __init__(self, text: str, code: int = USAGE) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


class WrongState(Misuse):
    """The command needs the node's application to run, or to be stopped."""


def refused(reason: object) -> Failure:
    """The node refused; its reason is a list that begins with a word for it, or text, some of it escaped for a page."""
    if isinstance(reason, list) and reason and isinstance(reason[0], str):
        rest = ", ".join(_shown(item) for item in reason[1:])
        return Failure(UNAVAILABLE, f"{{:{reason[0]}, {rest}}}")
    return Failure(UNAVAILABLE, html.unescape(str(reason)).strip("\n"))


def _shown(item: object) -> str:
    if isinstance(item, list):
        return "{" + ", ".join(_shown(part) for part in item) + "}"
    return f'"{item}"' if isinstance(item, str) else str(item)


def no_vhost(name: str) -> Failure:
    return Failure(DATA, f"Virtual host '{name}' does not exist", is_bare=True)


def no_user(name: str, *, is_quoted: bool = True) -> Failure:
    return Failure(NO_USER, f'User "{name}" does not exist' if is_quoted else f"User {name} does not exist")
