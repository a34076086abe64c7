"""Errors carry the codes and names of the specification, and texts that fit the wire."""

from __future__ import annotations

import pytest

from mirrormq.wire import errors
from mirrormq.wire.errors import AMQPError, ChannelError, HardError, InternalError, NotFound
from mirrormq.wire.methods import ChannelClose, decode_method

SOFT = {
    311: "CONTENT_TOO_LARGE", 312: "NO_ROUTE", 313: "NO_CONSUMERS", 403: "ACCESS_REFUSED", 404: "NOT_FOUND",
    405: "RESOURCE_LOCKED", 406: "PRECONDITION_FAILED",
}  # fmt: skip
HARD = {
    320: "CONNECTION_FORCED", 402: "INVALID_PATH", 403: "ACCESS_REFUSED", 501: "FRAME_ERROR", 502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID", 504: "CHANNEL_ERROR", 505: "UNEXPECTED_FRAME", 506: "RESOURCE_ERROR", 530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED", 541: "INTERNAL_ERROR",
}  # fmt: skip


@pytest.mark.parametrize(("base", "codes"), [(ChannelError, SOFT), (HardError, HARD)])
def test_each_reply_code_has_its_class(base: type[AMQPError], codes: dict[int, str]) -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and kind.__bases__ == (base,)]
    assert {kind.code: kind.name for kind in kinds} == codes


def test_a_reply_text_is_name_and_text() -> None:
    error = NotFound("no queue 'a' in vhost '/'", 50, 10)
    assert error.reply_text == "NOT_FOUND - no queue 'a' in vhost '/'"
    assert str(error) == "404 NOT_FOUND - no queue 'a' in vhost '/'"
    assert (error.code, error.text, error.class_id, error.method_id) == (404, "no queue 'a' in vhost '/'", 50, 10)


def test_an_error_without_text_is_its_name() -> None:
    assert InternalError("").reply_text == "INTERNAL_ERROR"


def test_a_long_text_is_cut_as_rabbitmq_cuts_it() -> None:
    assert NotFound("a" * 300).reply_text == "NOT_FOUND - " + "a" * 240 + "..."
    assert NotFound("a" * 243).reply_text == "NOT_FOUND - " + "a" * 243


@pytest.mark.parametrize("letter", ["é", "€", "𝄞"])
@pytest.mark.parametrize("shift", range(4))
def test_a_cut_text_still_fits_a_short_string_and_splits_no_character(letter: str, shift: int) -> None:
    text = NotFound("a" * shift + letter * 300).reply_text
    assert len(text.encode()) <= 255
    assert text.removeprefix("NOT_FOUND - ").removesuffix("...").strip("a") == letter * text.count(letter)


def test_a_text_that_quotes_what_is_not_unicode_can_still_be_sent() -> None:
    close = ChannelClose(404, NotFound("no queue '\ud800\udcff'").reply_text)
    assert decode_method(close.encode()) == ChannelClose(404, "NOT_FOUND - no queue '??'")
