"""What can go wrong between Spark and the cluster, each as one sentence for the person at the other end."""

from __future__ import annotations

import re
from typing import Final

MARK: Final = "mirrormq lake: "
"""Begins every sentence, so that it can be found again inside what Spark makes of it."""


class LakeError(Exception):
    """The sentence says what is wrong and, where somebody can do something, what."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence if sentence.startswith(MARK) else MARK + sentence)

    @property
    def sentence(self) -> str:
        return str(self).removeprefix(MARK)


class Trimmed(LakeError):
    """Entries that were asked for are gone; `earliest` is the first that is left, 0 where the whole log is gone."""

    def __init__(self, sentence: str, earliest: int) -> None:
        super().__init__(sentence)
        self.earliest = earliest

    def __reduce__(self) -> tuple[type[Trimmed], tuple[str, int]]:
        return Trimmed, (str(self), self.earliest)


class Forked(LakeError):
    """The log is another one than what was read before, from some index on: two entries have the same address."""


class Refused(LakeError):
    """Whoever asks may not."""


class Away(LakeError):
    """No node answers."""


def forked(queue: str, first: int, epoch: int, before: int) -> str:
    return (f"queue '{queue}' has another log than before from entry {first} on: it is led, since epoch {epoch}, by a node that "
            f"did not have all that was read in epoch {before}, as after a promotion by force")


def sentence_of(problem: BaseException) -> str:
    """Our own sentence, wherever Spark has wrapped it; else the first line of what it says."""
    if isinstance(problem, LakeError):
        return problem.sentence
    text = str(problem)
    found = re.search(re.escape(MARK) + r"([^\n]*)", text)
    if found is not None:
        return found[1].strip().removesuffix('"')
    if "No module named 'mirrormq'" in text:
        return "Spark's workers do not have this package: run 'pip install mirrormq[lake]' on each of them"
    named = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception): .+)$", text, re.MULTILINE)
    if named:
        return str(named[-1]).strip()
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0].strip() if lines else type(problem).__name__
