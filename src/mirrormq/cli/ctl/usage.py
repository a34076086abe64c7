"""Help: the list of commands, and the usage of one."""

from __future__ import annotations

import sys
from typing import Final

from mirrormq.cli.ctl.catalogue import COMMANDS, Command
from mirrormq.cli.ctl.objects import BINDINGS, CHANNELS, CONNECTIONS, CONSUMERS, EXCHANGES, QUEUES
from mirrormq.cli.ctl.vhosts import COLUMNS

TOOL: Final = "mirrormqctl"
GENERAL: Final = """\
-?, -h, --help            displays command help
-n, --node <node>         the node, by its name, on this machine
    --url <address>       the node, by the address of its management API: http://host:15672
    --username <name>     log in as this user (default: as the node's own administrator, or guest)
    --password <password> and with this password
    --cacertfile <file>   certificates that a node reached by https is checked against
    --insecure            do not check them
-p, --vhost <vhost>       virtual host, for commands that work in one (default: /)
-t, --timeout <seconds>   give up after so long
-q, --quiet               leave out informational messages
-s, --silent              leave out informational messages and the header row of tables
    --formatter <name>    json, csv, table, pretty_table or erlang
    --no-table-headers    leave out the header row of tables
Options may stand before or after the command."""
COLUMNS_OF: Final = {
    "list_queues": QUEUES, "list_exchanges": EXCHANGES, "list_bindings": BINDINGS, "list_connections": CONNECTIONS,
    "list_channels": CHANNELS, "list_consumers": CONSUMERS, "list_vhosts": COLUMNS,
}  # fmt: skip


def bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if sys.stdout.isatty() and sys.stderr.isatty() else text


def usage_of(command: Command) -> str:
    line = f"{TOOL} [--node <node>] [--url <address>] [--quiet] {command.name} {command.usage}".rstrip()
    return f"{bold('Usage')}\n\n{line}"


def help_of(command: Command) -> str:
    parts = [usage_of(command), command.summary.rstrip(".") + "."]
    if command.name in COLUMNS_OF:
        columns = ", ".join(sorted(COLUMNS_OF[command.name]))
        parts.append(f"{bold('Arguments and Options')}\n\n<column>\n\tmust be one of {columns}")
    parts.append(f"{bold('General Options')}\n\n{GENERAL}")
    return "\n\n".join(parts)


def list_commands() -> str:
    groups: dict[str, list[str]] = {}
    for command in COMMANDS:
        groups.setdefault(command.group, []).append(f"   {command.name:29} {command.summary}")
    return "\n\n".join(f"{bold(name)}:\n\n" + "\n".join(lines) for name, lines in groups.items())


def overview() -> str:
    return (f"\n{bold('Usage')}\n\n{TOOL} [--node <node>] [--url <address>] [--timeout <timeout>] [--quiet] <command> "
            f"[<command options>]\n\nAvailable commands:\n\n{list_commands()}\n\n"
            f"Use '{TOOL} help <command>' to learn more about a specific command")
