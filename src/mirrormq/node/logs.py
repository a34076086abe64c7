"""The log: RabbitMQ's levels, to the console and to one file, as lines for people or as JSON for machines.

`log.console.formatter = json` and `log.file.formatter = json` write one object a line: time, level, node, msg, and for a fault of
our own its traceback. Levels may be changed while the node runs; see `set_log_level`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from mirrormq.node.config import NodeConfig

NONE: Final = logging.CRITICAL + 1
LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR,
    "critical": logging.CRITICAL, "none": NONE,
}  # fmt: skip
"""RabbitMQ's; `none` is above everything that is ever said."""
_BETWEEN: Final = {"notice": "warning", "alert": "none", "emergency": "none"}
"""Levels that a file may name and nothing is said at: the next one above stands for each."""
PLAIN: Final = logging.Formatter("%(asctime)s [%(levelname)s] %(message)s")


class LogFile(RotatingFileHandler):
    """Begins its file anew when somebody, such as logrotate, has moved it away. That it cannot be written is told once."""

    _has_failed = False
    _was_told = False

    def emit(self, record: logging.LogRecord) -> None:
        self._has_failed = False
        stream: TextIOWrapper | None = self.stream
        if stream is not None and not self._is_in_place(stream):
            self.stream = None
            with suppress(OSError, ValueError):     # a line that a full disk did not take is written once more, and lost
                stream.close()
            with suppress(OSError):                 # its folder has gone: lines go to the console, if at all, until it is back
                self.stream = self._open()
        super().emit(record)
        self._was_told = self._has_failed

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        fault = sys.exc_info()[1]
        if not isinstance(fault, OSError):
            super().handleError(record)
            return
        self._has_failed = True
        if not self._was_told and sys.stderr is not None:
            where = f"{self.baseFilename} ({fault.strerror})"
            with suppress(OSError):
                sys.stderr.write(f"the log cannot be written to {where}: lines are lost until it can\n")

    def _is_in_place(self, stream: TextIOWrapper) -> bool:
        try:
            return not stream.closed and os.path.samestat(os.fstat(stream.fileno()), Path(self.baseFilename).stat())
        except OSError:
            return False


class JsonLines(logging.Formatter):
    def __init__(self, node: str) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "node": self._node, "msg": record.getMessage()}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def start_logging(config: NodeConfig) -> None:
    handlers = handlers_of(config)
    logging.basicConfig(level=min(handler.level for handler in handlers), handlers=handlers)


def handlers_of(config: NodeConfig) -> list[logging.Handler]:
    handlers: list[logging.Handler] = []
    if config.log_console or not config.log_file:
        console = logging.StreamHandler(sys.stderr)
        _prepare(console, config, config.log_console_level, config.log_console_formatter)
        handlers.append(console)
    if config.log_file:
        path = (config.log_dir or config.data_dir) / config.log_file
        path.parent.mkdir(parents=True, exist_ok=True)
        file = LogFile(path, maxBytes=config.log_file_rotation_size, backupCount=config.log_file_rotation_count,
                       encoding="utf-8", errors="backslashreplace")     # names may be any bytes
        _prepare(file, config, config.log_file_level, config.log_file_formatter)
        handlers.append(file)
    return handlers


def _prepare(handler: logging.Handler, config: NodeConfig, level: str, formatter: str) -> None:
    given = [name for name in (level, config.log_default_level) if name] or ["info"]
    handler.setLevel(max(LEVELS[_BETWEEN.get(name, name)] for name in given))
    handler.setFormatter(JsonLines(config.node_name) if formatter == "json" else PLAIN)


def set_level(name: str) -> bool:
    """Of everything that is said from now on. False if there is no such level."""
    level = LEVELS.get(name)
    if level is None:
        return False
    root = logging.getLogger()
    root.setLevel(level)
    for handler in root.handlers:
        handler.setLevel(level)
    return True
