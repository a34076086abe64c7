"""From the command line to an exit code."""

from __future__ import annotations

import difflib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from mirrormq.cli.ctl import completion, grammar, usage
from mirrormq.cli.ctl.catalogue import BY_NAME, Command
from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import IO_ERROR, OK, USAGE, Failure, Misuse, TimedOut, WrongState


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if sys.stdout is None:              # it was closed
        sys.stdout = io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"))
    elif isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")       # for what a terminal of old has no letter
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(os.open(os.devnull, os.O_RDONLY))))
    try:
        code = run(given)
        sys.stdout.flush()
    except BrokenPipeError:
        _mute()
        code = OK
    except OSError as fault:
        _mute()
        print(f"Error:\nthe output cannot be written: {fault.strerror}", file=sys.stderr)
        code = IO_ERROR
    except KeyboardInterrupt:
        code = 130
    raise SystemExit(code)


def _mute() -> None:
    """What is still to be written goes nowhere, or Python would fail once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(given: list[str]) -> int:
    if given and given[0] == "autocomplete":
        return _autocomplete(given[1:])
    line = grammar.parse(given)
    if not line.words:
        print(usage.overview(), file=sys.stderr)
        return USAGE
    name = line.words[0]
    if name == "help":
        return _help(line.words[1:], line.values)
    command = BY_NAME.get(name)
    if command is None:
        return _unknown(name)
    if "help" in line.values:
        print(usage.help_of(command))
        return OK
    return _run(command, line, given)


def _run(command: Command, line: grammar.Line, given: list[str]) -> int:
    args = line.words[1:]
    try:
        grammar.check_options(line, command.options)
        if len(args) < command.least:
            raise Misuse("not enough arguments.")
        if len(args) > command.most:
            raise Misuse("too many arguments.")
        _carry_out(command, Context(args, line.values))
    except Misuse as misuse:
        sys.stdout.flush()
        kind = "Error" if isinstance(misuse, WrongState) else "Error (argument validation)"
        print(f"{kind}: {misuse.text}\nArguments given:\n\t{' '.join(given)}\n\n"
              f"{usage.usage_of(command)}", file=sys.stderr)
        return misuse.code
    except TimedOut as late:
        sys.stdout.flush()
        print(f"Error: operation {command.name} on node {late.node} timed out. Timeout value used: {late.milliseconds}",
              file=sys.stderr)
        return late.code
    except Failure as failure:
        sys.stdout.flush()
        print(failure.sentence(), file=sys.stderr)
        return failure.code
    return OK


def _carry_out(command: Command, context: Context) -> None:
    try:
        command.run(context)
    except WrongState:
        raise                   # nothing has begun, so nothing is said about it
    except TimedOut as late:
        if late.milliseconds:   # without any time nothing begins either
            context.out.flush()
        raise
    except BaseException:
        context.out.flush()
        raise
    context.out.flush()


def _autocomplete(words: list[str]) -> int:
    """Without an interpretation of the words: they may be half a command line. `--` stands before the word to complete."""
    if "--" in words:
        at = len(words) - 1 - words[::-1].index("--")
        words = words[:at] + (words[at + 1:] or [""])
    for word in completion.complete(words):
        print(word)
    return OK


def _help(words: list[str], values: grammar.Values) -> int:
    if "list-commands" in values:
        print(usage.list_commands())
    elif not words:
        print(usage.overview())
    elif words[0] in BY_NAME:
        print(usage.help_of(BY_NAME[words[0]]))
    else:
        print(f"Error:\n\nCommand '{words[0]}' not found.", file=sys.stderr)
        return USAGE
    return OK


def _unknown(name: str) -> int:
    near = difflib.get_close_matches(name, BY_NAME, 1, 0.75)
    print(f"\nCommand '{name}' not found. ", file=sys.stderr)
    print(f"Did you mean '{near[0]}'? " if near else usage.overview(), file=sys.stderr)
    return USAGE
