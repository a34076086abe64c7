"""Matching message headers against a binding's arguments.

`x-match` says whether all or any of the arguments must be there; `all` where it is missing. Arguments whose names start
with `x-` do not count unless it ends in `-with-x`; `x-match` itself never does. An argument without a value (void) asks
only for presence. Values are compared, their types are not: a long string equals the same bytes sent as binary, one
equals 1.0, but true is not one. Inside arrays and tables, types count too.
"""

from __future__ import annotations

from typing import Final

from mirrormq.broker.arguments import term
from mirrormq.wire.errors import PreconditionFailed
from mirrormq.wire.table import ByteArray, Table, Timestamp, Value, type_name

_KINDS: Final = ("all", "any", "all-with-x", "any-with-x")


def check_match_argument(arguments: Table) -> None:
    if "x-match" not in arguments:
        return
    kind = arguments["x-match"]
    if type_name(kind) != "longstr":
        raise PreconditionFailed(
            f"Invalid x-match field type {type_name(kind)} (value {term(kind)}); expected longstr"
        )
    if kind not in _KINDS:
        raise PreconditionFailed(
            f"Invalid x-match field value {term(kind)}; expected all, any, all-with-x, or any-with-x"
        )


def same_value(wanted: Value, given: Value) -> bool:
    if isinstance(wanted, bool) or isinstance(given, bool):
        return wanted is given
    if isinstance(wanted, (list, dict)):
        return wanted == given
    return _bare(wanted) == _bare(given)


def _bare(value: Value) -> Value:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, ByteArray):
        return value.data
    if isinstance(value, Timestamp):
        return value.seconds
    return value


class HeaderMatch:
    """The arguments of one binding, made ready for matching."""

    def __init__(self, arguments: Table) -> None:
        kind = arguments.get("x-match", "all")
        with_x = kind == "all-with-x" or kind == "any-with-x"
        self.any: bool = kind == "any" or kind == "any-with-x"
        self.wanted: list[tuple[str, Value]] = [
            (key, value)
            for key, value in arguments.items()
            if key != "x-match" and (with_x or not key.startswith("x-"))
        ]

    def matches(self, headers: Table) -> bool:
        for key, value in self.wanted:
            fits = key in headers and (value is None or same_value(value, headers[key]))
            if fits == self.any:
                return fits
        return not self.any
