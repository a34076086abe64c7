"""What the record of a failover concludes from the words of those who are left."""

from __future__ import annotations

import pytest

from mirrormq.node.audit import Json, judge


def record(**more: object) -> Json:
    return {"forced": False, "asynchronous": False, "new_leader": "b@x", "old_leader": "a@x", "end": 100, **more}


@pytest.mark.parametrize(("known", "lost", "words"), [
    ({"b@x": 90}, 0, "0 confirmed messages lost: b@x holds everything up to 100, and up to 90 is known"),
    ({"b@x": 90, "c@x": 100}, 0, "by the word of b@x and c@x"),
    ({"b@x": 90, "c@x": 103}, 3, "3 confirmed messages lost: b@x holds everything up to 100, and up to 103 is known"),
])
def test_a_survivor_that_knows_of_more_shows_a_loss(known: dict[str, int], lost: int, words: str) -> None:
    about = record(known_stable=known)
    judge(about)
    assert about["lost"] == lost
    assert words in about["verdict"]


@pytest.mark.parametrize("how", ["forced", "asynchronous"])
def test_what_cannot_be_known_is_not_claimed(how: str) -> None:
    about = record(known_stable={"b@x": 100}, **{how: True})
    judge(about)
    assert about["lost"] is None
    assert "0 confirmed messages lost" not in about["verdict"]
