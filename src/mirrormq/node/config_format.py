"""The text of a configuration file, and the words its values are written in.

The format is the one of RabbitMQ's `rabbitmq.conf`: one `key = value` a line, `#` begins a comment anywhere outside
single quotes, keys are words joined by dots (`\\.` is a dot inside a word). Rules:

- A line that cannot be read is a problem with its line number; reading goes on, so that all problems are told at once.
- A key that is set twice takes its last value, as in RabbitMQ.
- A value that RabbitMQ would decrypt is a problem: taken as it stands, it would become the password.
- A value parser takes the text and returns the value, or raises ValueError with words that finish the sentence
  "'VALUE' is not …".
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from mirrormq.broker.policy import PatternError, compile_pattern

Parser = Callable[[str], object]

_LINE: Final = re.compile(r"\s*(?P<key>(?:\\\.|[\w.-])+)\s*=\s*(?P<rest>.*)$", re.ASCII)
_QUOTED: Final = re.compile(r"'(?P<value>[^']*)'\s*(?:#.*)?$")


class Setting(NamedTuple):
    """One `key = value` with the words that say where it came from."""

    where: str
    key: tuple[str, ...]
    value: str
    overrides: bool = False
    """It comes from the environment or the command line, which may use names that a file may not."""


class Problem(NamedTuple):
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on; an empty host means every address, IPv4 and IPv6."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host or not self.host else f"{self.host}:{self.port}"


def split_key(text: str) -> tuple[str, ...]:
    """The words of a dotted key: `loopback_users.a\\.b` has two."""
    return tuple(word.replace("\0", ".") for word in text.replace("\\.", "\0").split("."))


def join_key(words: tuple[str, ...]) -> str:
    return ".".join(word.replace(".", "\\.") for word in words)


def read_settings(text: str, name: str) -> tuple[list[Setting], list[Problem]]:
    settings: list[Setting] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None or "" in split_key(match["key"]):
            problems.append(Problem(f"{name}:{number}", f"expected 'key = value', found {stripped!r}"))
            continue
        quoted = _QUOTED.match(match["rest"])
        value, hash_sign, _ = (quoted["value"], "", "") if quoted else match["rest"].partition("#")
        mistake = _mistake_in(value, hash_sign, is_quoted=quoted is not None)
        if mistake:
            problems.append(Problem(f"{name}:{number}", mistake))
            continue
        settings.append(Setting(f"{name}:{number}", split_key(match["key"]), value if quoted else value.strip()))
    return settings, problems


def _mistake_in(value: str, hash_sign: str, *, is_quoted: bool) -> str:
    """What is wrong with a value, whatever its key."""
    if value.startswith("'") and not is_quoted:
        return "a quote that is opened must be closed at the end of the value"
    if hash_sign and value == value.rstrip() != "":
        return "'#' begins a comment: put a space before it or quote it"    # RabbitMQ would cut 'a#b' to 'a' without a word
    if value.startswith("encrypted:"):
        return "encrypted values cannot be read: give the value itself, in a file that only the node's user can read"
    return ""


def text(value: str) -> str:
    if not value:
        raise ValueError("a value: it is empty")
    return value


def path(value: str) -> Path:
    """Absolute: the node hands paths to other processes, which may stand in another directory."""
    try:
        return Path(text(value)).expanduser().absolute()
    except RuntimeError:
        raise ValueError("a path: there is no such user") from None


def node_name(value: str) -> str:
    """`rabbit@host`, or `rabbit` alone, which means `rabbit` on this host."""
    if not re.fullmatch(r"[\w-]+(@[\w.:-]+)?", value, re.ASCII):
        raise ValueError("a node name such as rabbit@host")
    return value


def integer(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    wanted = f"a whole number of {least} or more" if most is None else f"a whole number from {least} to {most}"

    def parse(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]+", value) or int(value) < least or (most is not None and int(value) > most):
            raise ValueError(wanted)
        return int(value)

    return parse


def integer_or(word: str, least: int = 0) -> Callable[[str], int | None]:
    """A number, or the word that means "no limit"."""
    number = integer(least)

    def parse(value: str) -> int | None:
        if value == word:
            return None
        try:
            return number(value)
        except ValueError as error:
            raise ValueError(f"{error}, or '{word}'") from None

    return parse


def fraction(most: float | None = None) -> Callable[[str], float]:
    wanted = "a number above 0" if most is None else f"a number above 0 and at most {most:g}"

    def parse(value: str) -> float:
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            raise ValueError(wanted)
        number = float(value)
        if number <= 0 or (most is not None and number > most):
            raise ValueError(wanted)
        return number

    return parse


def flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError("'true' or 'false'")
    return value == "true"


def one_of(*words: str, **aliases: str) -> Callable[[str], str]:
    """One of the words; an alias stands for its word."""
    wanted = "one of " + ", ".join((*words, *aliases))

    def parse(value: str) -> str:
        word = aliases.get(value, value)
        if word not in words:
            raise ValueError(wanted)
        return word

    return parse


_DECIMAL: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def information_unit(value: str) -> int:
    """A size as RabbitMQ 3.13 reads it in limits: `2GB` and `2G` are powers of 1000, `2GiB` and `2Gi` of 1024."""
    match = re.fullmatch(r"([0-9]+)\s*([kmgtp]?)(i?)b?", value.lower())
    if match is None or (match[3] and not match[2]):
        raise ValueError("a size such as 500MB, 500MiB, 10GB, 10GiB, 2TB or 10000000000")
    return int(match[1]) * int((1024 if match[3] else 1000) ** _DECIMAL[match[2]])


def bytesize(value: str) -> int:
    """A size as RabbitMQ reads it in frame sizes: KB, MB and GB are powers of 1024."""
    match = re.fullmatch(r"([0-9]+)\s*(?:([kmg])i?b)?", value.lower())
    if match is None:
        raise ValueError("a size in bytes such as 131072 or 128KB")
    return int(match[1]) * int(1024 ** _DECIMAL[match[2] or ""])


_SECONDS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(value: str) -> float:
    """Seconds, written as `10`, `10s`, `500ms`, `2m` or `1h`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)?", value)
    if match is None or float(match[1]) <= 0:
        raise ValueError("a time such as 10, 10s, 500ms or 2m")
    return float(match[1]) * _SECONDS[match[2] or ""]


def period(value: str) -> float:
    """As `duration`, and `0` for none."""
    return 0.0 if value == "0" else duration(value)


def names(value: str) -> tuple[str, ...]:
    """Names separated by commas; an empty value is no names."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


def address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise ValueError("an IP address") from None


def listener(value: str) -> Listener:
    """`5672`, `127.0.0.1:5672`, `::1:5672` or `[::1]:5672`."""
    host, colon, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        return Listener(address(host) if colon else "", integer(0, 65535)(port))
    except ValueError:
        raise ValueError("a port, or an IP address and a port such as 127.0.0.1:5672") from None


def readable_file(value: str) -> Path:
    file = path(value)
    try:
        with file.open("rb"):
            return file
    except OSError as error:
        raise ValueError(f"a file that this node can read ({error.strerror})") from None


def readable_files(value: str) -> Path:
    """A file, or a directory of them."""
    place = path(value)
    return place if place.is_dir() and os.access(place, os.R_OK | os.X_OK) else readable_file(value)


def regular_expression(value: str) -> str:
    try:
        compile_pattern(value)
    except PatternError as error:
        raise ValueError(f"a regular expression ({error.reason})") from None
    return value
