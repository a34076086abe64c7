"""An answer of a command in a form that two brokers can share: no names of nodes, no process numbers, versions or order of rows.

Rules
 1. The node is NODE, its ports are gone, process numbers are PID, the tool is TOOL.
 2. Rows of a list are sorted: RabbitMQ shows them as its tables happen to hold them. The header stays first.
 3. Lines of a box are one stroke long, whichever characters draw them. Space at the ends of lines does not count.
 4. Ports are PORT, several of them PORTS; versions are VERSION; counts of logins are N.
 5. From the word Usage on an answer is about the tool itself, and is left out.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from .scenario import Step

BOX = str.maketrans("lqwkxtnumvj", "┌─┬┐│├┼┤└┴┘")
LISTS = ("list_",)


class Answer(NamedTuple):
    code: int
    out: str
    err: str


def normal(step: Step, node: str, port: int, answer: Answer) -> Answer:
    return Answer(answer.code, _text(step, node, port, answer.out), _text(step, node, port, answer.err))


def _text(step: Step, node: str, port: int, text: str) -> str:
    text = re.sub(r"\x1b\(0(.*?)\x1b\(B", lambda match: match[1].translate(BOX), text)
    text = re.sub(r"\x1b\[\d+m", "", text)
    text = text.partition("\nUsage")[0].replace(node, "NODE").replace(str(port), "PORT")
    text = re.sub(r"<NODE\.\d+\.\d+\.\d+>", "PID", text)
    text = re.sub(r"rabbitmqctl|mirrormqctl", "TOOL", text)
    text = re.sub(r"(?<![\d.])\d+\.\d+\.\d+(?![\d.])", "VERSION", text.replace(", http/prometheus", ""))
    text = re.sub(r"(PORT|\b\d{4,5})(, (PORT|\b\d{4,5}))+", "PORTS", text)
    text = re.sub(r"^http(\t\d+)+$", "http N", text, flags=re.MULTILINE)
    text = re.sub(r"─+", "─", re.sub(r"internal_cluster_id.*|cluster_name\s.*", "", text))
    text = re.sub(r"^\d\d:\d\d:\d\d\.\d+ \[.*$", "", text, flags=re.MULTILINE)         # what RabbitMQ's tool logs
    lines = [re.sub(r" +│", " │", line).rstrip() for line in text.strip().splitlines()]
    return "\n".join(_ordered(step, [line for line in lines if line]))


def _ordered(step: Step, lines: list[str]) -> list[str]:
    if step.words[0].startswith(LISTS) and lines and lines[0] == "[":
        return sorted(_sorted_keys(line.lstrip(",")) for line in lines)
    if not step.words[0].startswith(LISTS) or (lines and lines[0].startswith("Error")):
        return lines
    if "erlang" in " ".join(step.words):
        return sorted(line.strip("[], ") for line in lines)
    head = max((at + 1 for at, line in enumerate(lines) if line.endswith("...")), default=0)
    keep = head + (0 if {"--silent", "--no-table-headers"} & set(step.words) else 1)
    return lines[:keep] + sorted(lines[keep:])


def _sorted_keys(line: str) -> str:
    try:
        return json.dumps(json.loads(line), sort_keys=True)
    except ValueError:
        return line
