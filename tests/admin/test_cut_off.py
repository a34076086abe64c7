"""What commands say of a node that is cut off."""

from __future__ import annotations

from mirrormq.cli.ctl.node import partitions

WHOLE = {"node": "a@x", "partitions": {}, "paused": "", "store": ""}


def test_nothing_is_said_while_all_is_well() -> None:
    assert partitions(WHOLE) == []


def test_a_node_that_is_cut_off_says_from_whom_and_what_it_does() -> None:
    told = WHOLE | {"partitions": {"a@x": ["b@x", "c@x"]}, "store": "unreachable for 7.0 s: no answer",
                    "paused": "it reaches neither the store nor most nodes (1 of 3 are in sight)"}
    assert partitions(told) == [
        "Node a@x cannot communicate with b@x, c@x",
        "Node a@x does not reach the coordination store, which is unreachable for 7.0 s: no answer",
        "Node a@x is paused: it reaches neither the store nor most nodes (1 of 3 are in sight)",
    ]
