"""Parts of the page's API that need no node: spots and payloads."""

from __future__ import annotations

import pytest

from mirrormq.admin.browse import shown_payload
from mirrormq.admin.peek import Spot, read_spot


@pytest.mark.parametrize("text", ["", "1", "1.", ".1", "-1.2", "1.2.3", "a.1", "1.b", "1." + "9" * 50])
def test_only_a_spot_is_read_as_one(text: str):
    assert read_spot(text) is None


def test_a_spot_is_read_as_it_is_told():
    assert read_spot(str(Spot(3, 1 << 60))) == Spot(3, 1 << 60)


@pytest.mark.parametrize(("body", "is_cut", "shown"), [
    (b"plain", False, "plain"), ("é".encode() + b"\xc3", True, "é"), ("€".encode()[:2], True, ""), (b"", False, "")])
def test_text_that_is_cut_within_a_character_is_text(body: bytes, is_cut: bool, shown: str):
    assert shown_payload(body, is_cut=is_cut) == {"payload": shown, "payload_encoding": "string"}
