"""The command line: options before or after the command, with RabbitMQ's names.

An option is `--name value`, `--name=value`, or its short form. The command is the first word that is no option. What an
option means is the same for every command; which ones a command takes is in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Final, NamedTuple

from mirrormq.cli.ctl.faults import Misuse

Values = dict[str, object]


def _text(value: str) -> str:
    return value


def _seconds(value: str) -> float:
    seconds = _finite(float(value))
    if seconds < 0:
        raise ValueError
    return seconds


def _finite(value: float) -> float:
    """As RabbitMQ does: infinity is what one gets without the option."""
    if not isfinite(value):
        raise ValueError
    return value


def _formatter(value: str) -> str:
    if value not in FORMATTERS:
        raise ValueError
    return value


def _number(value: str) -> float:
    return int(value) if value.lstrip("-").isdecimal() else _finite(float(value))


class Option(NamedTuple):
    """`parse` is None for an option that takes no value."""

    name: str
    short: str = ""
    parse: Callable[[str], object] | None = _text


FORMATTERS: Final = ("json", "table", "csv", "pretty_table", "erlang")
GENERAL: Final = (
    Option("node", "n"), Option("url"), Option("username"), Option("password"), Option("cacertfile"),
    Option("insecure", "", None), Option("vhost", "p"), Option("quiet", "q", None), Option("silent", "s", None),
    Option("formatter", "", _formatter), Option("timeout", "t", _seconds), Option("longnames", "l", None),
    Option("no-table-headers", "", None), Option("help", "?", None),
)  # fmt: skip
PARTICULAR: Final = (
    Option("priority", "", _number), Option("apply-to"), Option("if-unused", "u", None), Option("if-empty", "e", None),
    Option("global", "", None), Option("user"), Option("online", "", None), Option("offline", "", None),
    Option("local", "", None), Option("description"), Option("tags"), Option("default-queue-type"),
    Option("limit", "", _number), Option("per-connection-delay", "", _number), Option("format"),
    Option("skip-if-unchanged", "", None), Option("unit"), Option("list-commands", "", None),
    Option("disc", "", None), Option("ram", "", None), Option("within", "", _number), Option("vhost-pattern"),
    Option("queue-pattern"), Option("plan"),
)  # fmt: skip
_LONG: Final = {f"--{option.name}": option for option in (*GENERAL, *PARTICULAR)}
_SHORT: Final = {f"-{option.short}": option for option in (*GENERAL, *PARTICULAR) if option.short} | {
    "-h": _LONG["--help"]
}  # fmt: skip
_KNOWN: Final = _LONG | _SHORT


class Line(NamedTuple):
    """A command line taken apart. `faults` are options that make no sense, as they were written, with their values."""

    words: list[str]
    values: Values
    faults: list[tuple[str, str]]


def parse(arguments: Iterable[str]) -> Line:
    line = Line([], {}, [])
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            line.words.extend(rest)
            break
        if word.startswith("-") and len(word) > 1:
            _take(line, word, rest)
        else:
            line.words.append(word)
    return line


def _take(line: Line, word: str, rest: list[str]) -> None:
    written, equals, value = word.partition("=")
    option = _KNOWN.get(written)
    if option is None:
        line.faults.append((written, value))
    elif option.parse is None:
        line.values[option.name] = True
    elif not equals and not rest:
        line.faults.append((written, ""))
    else:
        _store(line, option, written, value if equals else rest.pop(0))


def _store(line: Line, option: Option, written: str, value: str) -> None:
    assert option.parse is not None
    try:
        line.values[option.name] = option.parse(value)
    except ValueError:
        line.faults.append((written, value))


def check_options(line: Line, taken: Iterable[str]) -> None:
    """Misuse unless every option is a general one or one that the command takes."""
    allowed = {option.name for option in GENERAL} | set(taken)
    faults = line.faults + [(f"--{name}", "") for name in line.values if name not in allowed]
    if faults:
        listed = "\n".join(f"{written} : {value}" for written, value in faults)
        raise Misuse(f"Invalid options for this command:\n{listed}")
