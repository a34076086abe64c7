"""Completion of command names and options: for a shell, and RabbitMQ's `autocomplete`."""

from __future__ import annotations

from typing import Final

from mirrormq.cli.ctl.context import Context
from mirrormq.cli.ctl.faults import Misuse

_BASH: Final = """\
_mirrormqctl() {
    local word="${COMP_WORDS[COMP_CWORD]}"
    mapfile -t COMPREPLY < <(mirrormqctl autocomplete "${COMP_WORDS[@]:1:COMP_CWORD-1}" -- "$word" 2>/dev/null)
}
complete -o default -F _mirrormqctl mirrormqctl
"""
_ZSH: Final = """\
#compdef mirrormqctl
_mirrormqctl() {
    local -a found
    found=(${(f)"$(mirrormqctl autocomplete ${words[2,CURRENT-1]} -- "${words[CURRENT]}" 2>/dev/null)"})
    compadd -- $found
}
compdef _mirrormqctl mirrormqctl
"""
_FISH: Final = """\
function __mirrormqctl_complete
    set -l before (commandline -opc)[2..-1]
    mirrormqctl autocomplete $before -- (commandline -ct) 2>/dev/null
end
complete -c mirrormqctl -a '(__mirrormqctl_complete)'
"""
SHELLS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(context: Context) -> None:
    """The lines that a shell's start file evaluates."""
    shell = context.arg(0)
    if shell not in SHELLS:
        raise Misuse(f"Bad argument: {shell} is not one of {', '.join(SHELLS)}")
    context.out.say(SHELLS[shell].rstrip("\n"))


def complete(words: list[str]) -> list[str]:
    """What the last word may become; those before it are the command line so far."""
    from mirrormq.cli.ctl.catalogue import BY_NAME  # the catalogue names this command
    from mirrormq.cli.ctl.grammar import GENERAL, parse
    from mirrormq.cli.ctl.usage import COLUMNS_OF

    prefix = words[-1] if words else ""
    given = [word for word in parse(words[:-1]).words if word in BY_NAME]
    if prefix.startswith("-"):
        options = [option.name for option in GENERAL] + (list(BY_NAME[given[0]].options) if given else [])
        candidates = [f"--{name}" for name in options]
    elif not given:
        candidates = list(BY_NAME)
    else:
        candidates = list(COLUMNS_OF.get(given[0], ())) if given[0] != "help" else list(BY_NAME)
    return sorted(word for word in candidates if word.startswith(prefix))
