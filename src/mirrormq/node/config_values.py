"""Settings become values: each is looked up in the schema, parsed, and put where its key points.

Rules:

- Of two settings with one target the later wins; `key = none` wins over every `key.$name`.
- Nothing stops at the first problem.
"""

from __future__ import annotations

from typing import Any

from mirrormq.node.config_format import Problem, Setting, join_key
from mirrormq.node.config_schema import Key, Unknown, find


class Values:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.notes: list[str] = []
        self._single: dict[str, object] = {}
        self._gathered: dict[str, list[object]] = {}
        self._where: dict[str, str] = {}

    def add(self, setting: Setting) -> None:
        key = find(setting.key, overrides=setting.overrides)
        if isinstance(key, Unknown):
            self._pass_over(setting, key)
            return
        try:
            value = key.parse(setting.value)
        except ValueError as error:
            text = f"'{join_key(setting.key)}' cannot be {setting.value!r}: it is not {error}"
            self.problems.append(Problem(setting.where, text))
            return
        self._where.setdefault(key.target, setting.where)
        self._put(key, setting, value)

    def where_of(self, target: str) -> str:
        return self._where.get(target, "configuration")

    def fields(self) -> dict[str, Any]:
        """By target; `group.field` targets make one nested dictionary for each group."""
        flat = {target: tuple(values) for target, values in self._gathered.items()} | self._single
        nested: dict[str, Any] = {}
        for target, value in flat.items():
            group, dot, name = target.partition(".")
            if dot:
                nested.setdefault(group, {})[name] = value
            else:
                nested[target] = value
        return nested

    def _pass_over(self, setting: Setting, unknown: Unknown) -> None:
        if unknown.fatal:
            self.problems.append(Problem(setting.where, unknown.text))
        else:
            self.notes.append(f"{setting.where}: {unknown.text}")

    def _put(self, key: Key, setting: Setting, value: object) -> None:
        if not key.gather:
            self._single[key.target] = value
            return
        gathered = self._gathered.setdefault(key.target, [])
        if key.gather == "values":
            gathered.append(value)
        elif value:
            gathered.append(setting.key[-1])
