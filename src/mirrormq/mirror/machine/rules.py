"""The safety rules that a simulation can switch off, one at a time, to see that it would find out. All are on in a node."""

from __future__ import annotations

from typing import Final

NAMES: Final = (
    "epoch_check", "predecessor_check", "swap_before_leaving", "two_step_join", "cut_divergent_tail", "epoch_after_restart",
    "ignore_stale_answers", "wait_for_stability", "publisher_dedup",
)


class Rules:
    """Each is kept where it is True. What would go wrong without it is said beside it."""

    def __init__(self) -> None:
        self.epoch_check: bool = True           # a deposed leader's entries would be taken, its ring would close
        self.predecessor_check: bool = True     # a learner's mark would pass for that of the whole ring
        self.swap_before_leaving: bool = True   # a leader that is cut off would confirm without its mirrors
        self.two_step_join: bool = True         # a member would lack what became stable while it joined
        self.cut_divergent_tail: bool = True    # two logs would differ at one index
        self.epoch_after_restart: bool = True   # two entries would have one address
        self.ignore_stale_answers: bool = True  # a member would cut off what it has just reported
        self.wait_for_stability: bool = True    # a confirm would be given for what one node alone holds
        self.publisher_dedup: bool = True       # what is sent again after a failover would be there twice
