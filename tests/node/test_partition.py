"""When a node that is cut off pauses."""

from __future__ import annotations

import pytest

from mirrormq.node.partition import PATIENCE, goes_on_alone, reason_to_pause

THREE = {"a", "b", "c"}


def reason(mode: str, sight: set[str], *, members: set[str] = THREE, away: float = PATIENCE + 1,
           nodes: tuple[str, ...] = ()) -> str:
    return reason_to_pause(mode, me="a", members=members, in_sight=sight, pause_nodes=nodes, store_away=away)


def test_a_node_alone_without_the_store_pauses() -> None:
    assert "1 of 3" in reason("pause_minority", set())


def test_most_nodes_together_go_on_without_the_store() -> None:
    assert reason("pause_minority", {"b"}) == ""


def test_with_the_store_nobody_is_in_a_minority() -> None:
    assert reason("pause_minority", set(), away=0.0) == ""
    assert reason("pause_minority", set(), away=PATIENCE / 2) == ""


def test_half_of_the_nodes_are_not_most_of_them() -> None:
    assert reason("pause_minority", set(), members={"a", "b"})


def test_a_single_node_never_pauses() -> None:
    assert reason("pause_minority", set(), members={"a"}) == ""


@pytest.mark.parametrize("mode", ["ignore", "autoheal"])
def test_some_modes_go_on_serving(mode: str) -> None:
    assert reason(mode, set()) == ""


def test_the_listed_nodes_decide() -> None:
    assert "any of b" in reason("pause_if_all_down", {"c"}, nodes=("b",))
    assert reason("pause_if_all_down", {"b"}, nodes=("b",)) == ""
    assert reason("pause_if_all_down", set(), nodes=("a", "b")) == ""


@pytest.mark.parametrize(("mode", "sight", "away", "alone"), [
    ("autoheal", set(), PATIENCE, True), ("ignore", set(), PATIENCE, True), ("pause_minority", set(), PATIENCE, False),
    ("autoheal", {"b"}, PATIENCE, False), ("autoheal", set(), 0.0, False),
])  # fmt: skip
def test_who_goes_on_alone(mode: str, sight: set[str], away: float, *, alone: bool) -> None:
    assert goes_on_alone(mode, members=THREE, in_sight=sight, store_away=away) is alone


def test_a_single_node_is_never_cut_off() -> None:
    assert not goes_on_alone("ignore", members={"a"}, in_sight=set(), store_away=PATIENCE)
