"""What is said where a node cannot listen."""

from __future__ import annotations

import errno

import pytest

from mirrormq.node.listener import why_not


@pytest.mark.parametrize(("number", "sentence"), [
    (errno.EADDRINUSE, "(Address already in use): choose another port with --port, or stop what uses it"),
    (errno.EADDRNOTAVAIL, "(Cannot assign requested address): no network interface of this machine has this address"),
    (errno.EACCES, "(Permission denied): ports below 1024 are for root; choose another port with --port"),
])  # fmt: skip
def test_the_advice_fits_the_reason(number: int, sentence: str) -> None:
    fault = OSError(number, "error while attempting to bind on address ('192.0.2.1', 1): whatever")
    assert why_not(fault, "--port") == sentence
