from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.broker.topic import TopicTrie, words_of

WORDS = st.sampled_from(["a", "b", "", "ab"])
PATTERN_WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)
PATTERNS = st.lists(PATTERN_WORDS, max_size=6).map(".".join)


def model(pattern: str, key: str) -> bool:
    """Each word of the key becomes `<word>`, so a regular expression can count words."""
    pieces = {"*": "<[^<>]*>", "#": "(?:<[^<>]*>)*"}
    expression = "".join(pieces.get(word, f"<{re.escape(word)}>") for word in words_of(pattern))
    return re.fullmatch(expression, "".join(f"<{word}>" for word in words_of(key))) is not None


@given(st.lists(PATTERNS, max_size=12), KEYS)
def test_the_trie_agrees_with_a_regular_expression_per_pattern(patterns: list[str], key: str) -> None:
    trie: TopicTrie[str] = TopicTrie()
    for pattern in patterns:
        trie.add(pattern, pattern)
    assert sorted(trie.match(key)) == sorted(pattern for pattern in set(patterns) if model(pattern, key))


@given(st.lists(st.tuples(PATTERNS, st.booleans()), max_size=20), KEYS)
def test_what_was_removed_no_longer_matches(steps: list[tuple[str, bool]], key: str) -> None:
    trie: TopicTrie[str] = TopicTrie()
    held: list[str] = []
    for pattern, adds in steps:
        if adds:
            trie.add(pattern, pattern)
            held.append(pattern)
        else:
            assert trie.remove(pattern, pattern) == (pattern in held)
            if pattern in held:
                held.remove(pattern)
    assert sorted(trie.match(key)) == sorted(pattern for pattern in set(held) if model(pattern, key))
    for pattern in held:
        trie.remove(pattern, pattern)
    assert trie.is_empty()


# Seen on RabbitMQ 3.10.
@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("", {""}),
        ("#", {"", "a", "a.", ".", ".a", "a..b", "a.b", "a.b.c", "#", "*", ".."}),
        ("*", {"a", "#", "*"}),
        ("*.*", {"a.", ".", ".a", "a.b"}),
        ("a.", {"a."}),
        (".", {"."}),
        ("a..b", {"a..b"}),
        ("#.#", {"", "a", "a.", ".", ".a", "a..b", "a.b", "a.b.c", "#", "*", ".."}),
        ("a.#", {"a", "a.", "a..b", "a.b", "a.b.c"}),
        ("#.a", {"a", ".a"}),
        ("*.#", {"a", "a.", ".", ".a", "a..b", "a.b", "a.b.c", "#", "*", ".."}),
        ("a.*.b", {"a..b"}),
        ("*.#.*", {"a.", ".", ".a", "a..b", "a.b", "a.b.c", ".."}),
        ("a.#.b", {"a..b", "a.b"}),
        ("#.#.#.a", {"a", ".a"}),
        ("a*", set()),
        ("#a", set()),
    ],
)
def test_corner_cases_match_as_in_rabbitmq(pattern: str, matching: set[str]) -> None:
    keys = ["", "a", "a.", ".", ".a", "a..b", "a.b", "a.b.c", "#", "*", ".."]
    trie: TopicTrie[int] = TopicTrie()
    trie.add(pattern, 1)
    assert {key for key in keys if trie.match(key)} == matching


def test_a_value_added_twice_under_a_pattern_leaves_with_its_second_removal() -> None:
    trie: TopicTrie[str] = TopicTrie()
    trie.add("a.*", "queue")
    trie.add("a.*", "queue")
    assert trie.match("a.b") == ["queue"]
    assert trie.remove("a.*", "queue")
    assert trie.match("a.b") == ["queue"]
    assert trie.remove("a.*", "queue")
    assert not trie.remove("a.*", "queue")
    assert trie.match("a.b") == []


def test_hostile_patterns_do_not_multiply_the_work() -> None:
    trie: TopicTrie[int] = TopicTrie()
    for length in range(1, 40):
        trie.add(".".join(["#", "*"] * length), length)
    trie.add(".".join(["#"] * 100) + ".end", 0)
    key = ".".join(["word"] * 120)
    assert len(trie.match(key)) == 39
    assert 0 in trie.match(key + ".end")
