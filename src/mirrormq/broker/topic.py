"""Topic patterns in a trie of words.

A routing key is words between dots; the empty key has no words, and `a..b` has an empty word in the middle.
`*` stands for exactly one word (an empty one too), `#` for any number of words, none included.
Matching walks all branches at once, word by word, so its cost is words times branches and never exponential,
whatever patterns a client binds.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


def words_of(key: str) -> list[str]:
    return key.split(".") if key else []


class TopicNode(Generic[T]):
    """One word of a pattern. `loops` is set on a `#`, which stays alive whatever word comes next."""

    def __init__(self, parent: TopicNode[T] | None, word: str) -> None:
        self.parent: TopicNode[T] | None = parent
        self.word: str = word
        self.loops: bool = word == "#" and parent is not None
        self.children: dict[str, TopicNode[T]] = {}
        self.star: TopicNode[T] | None = None
        self.hash: TopicNode[T] | None = None
        self.values: dict[T, int] = {}
        self.seen: int = 0

    def step(self, word: str) -> TopicNode[T] | None:
        if word == "*":
            return self.star
        if word == "#":
            return self.hash
        return self.children.get(word)

    def grow(self, word: str) -> TopicNode[T]:
        node: TopicNode[T] = TopicNode(self, word)
        if word == "*":
            self.star = node
        elif word == "#":
            self.hash = node
        else:
            self.children[word] = node
        return node

    def cut(self, word: str) -> None:
        if word == "*":
            self.star = None
        elif word == "#":
            self.hash = None
        else:
            del self.children[word]

    def is_bare(self) -> bool:
        return not self.values and not self.children and self.star is None and self.hash is None


class TopicTrie(Generic[T]):
    """Values under patterns. A value may be added several times under one pattern and leaves with its last removal."""

    def __init__(self) -> None:
        self._root: TopicNode[T] = TopicNode(None, "")
        self._round: int = 0

    def add(self, pattern: str, value: T) -> None:
        node = self._root
        for word in words_of(pattern):
            following = node.step(word)
            node = node.grow(word) if following is None else following
        node.values[value] = node.values.get(value, 0) + 1

    def remove(self, pattern: str, value: T) -> bool:
        node = self._find(pattern)
        if node is None or value not in node.values:
            return False
        count = node.values[value]
        if count > 1:
            node.values[value] = count - 1
        else:
            del node.values[value]
            self._prune(node)
        return True

    def match(self, key: str) -> list[T]:
        """The values whose patterns match, each once."""
        states: list[TopicNode[T]] = []
        self._round += 1
        self._enter(self._root, states)
        for word in words_of(key):
            states = self._advance(states, word)
            if not states:
                return []
        found: dict[T, None] = {}
        for node in states:
            for value in node.values:
                found[value] = None
        return list(found)

    def is_empty(self) -> bool:
        return self._root.is_bare()

    def _find(self, pattern: str) -> TopicNode[T] | None:
        node: TopicNode[T] | None = self._root
        for word in words_of(pattern):
            if node is None:
                return None
            node = node.step(word)
        return node

    def _prune(self, node: TopicNode[T]) -> None:
        while node.parent is not None and node.is_bare():
            node.parent.cut(node.word)
            node = node.parent

    def _advance(self, states: list[TopicNode[T]], word: str) -> list[TopicNode[T]]:
        following: list[TopicNode[T]] = []
        self._round += 1
        for node in states:
            if node.loops:
                self._enter(node, following)
            child = node.children.get(word)
            if child is not None:
                self._enter(child, following)
            star = node.star
            if star is not None:
                self._enter(star, following)
        return following

    def _enter(self, node: TopicNode[T], states: list[TopicNode[T]]) -> None:
        """Add a node and the `#` below it, which may stand for no word at all; each at most once a round."""
        current: TopicNode[T] | None = node
        while current is not None and current.seen != self._round:
            current.seen = self._round
            states.append(current)
            current = current.hash
