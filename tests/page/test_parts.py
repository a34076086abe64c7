"""Parts of the page's API that need no node: verdicts, spots, waiting after failed logins."""

from __future__ import annotations

import pytest

from mirrormq.admin.attempts import FORGET, LONGEST, Attempts
from mirrormq.admin.browse import shown_payload
from mirrormq.admin.peek import Spot, read_spot
from mirrormq.admin.ring_view import Placement


def queues(leader: str, count: int, *mirrors: str) -> list[tuple[str, str, Placement]]:
    return [("/", f"{leader}{number}", Placement(leader, mirrors)) for number in range(count)]


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.2", "1.2.3", "a.1", "1.b", "1." + "9" * 50])
def test_only_a_spot_is_read_as_one(text: str):
    assert read_spot(text) is None


def test_a_spot_is_read_as_it_is_told():
    assert read_spot(str(Spot(3, 1 << 60))) == Spot(3, 1 << 60)


def test_the_wait_after_failures_doubles_up_to_a_minute_and_is_forgotten():
    attempts, waits = Attempts(), []
    for _ in range(16):
        attempts.failed("u", "1.2.3.4", 0.0)
        waits.append(attempts.wait("u", "1.2.3.4", 0.0))
    assert waits[:8] == [0, 0, 0, 0, 1, 2, 4, 8]
    assert waits[-1] == LONGEST
    assert attempts.wait("u", "5.6.7.8", 0.0) == 0
    assert attempts.wait("u", "1.2.3.4", FORGET + 1) == 0


def test_a_success_ends_the_wait_of_that_user():
    attempts = Attempts()
    for _ in range(6):
        attempts.failed("u", "a", 0.0)
    attempts.succeeded("u", "a")
    assert attempts.wait("u", "a", 0.0) == 0


def test_guessing_many_names_from_one_address_waits_too():
    attempts = Attempts()
    for number in range(25):
        attempts.failed(f"u{number}", "a", 0.0)
    assert attempts.wait("another", "a", 0.0) > 0
    assert attempts.wait("another", "b", 0.0) == 0


@pytest.mark.parametrize(("body", "is_cut", "shown"), [
    (b"plain", False, "plain"), ("é".encode() + b"\xc3", True, "é"), ("€".encode()[:2], True, ""), (b"", False, "")])
def test_text_that_is_cut_within_a_character_is_text(body: bytes, is_cut: bool, shown: str):
    assert shown_payload(body, is_cut=is_cut) == {"payload": shown, "payload_encoding": "string"}
