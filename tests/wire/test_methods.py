"""Methods: each survives the wire, and bytes that are no method get RabbitMQ's answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.wire import methods
from mirrormq.wire.errors import AMQPError, CommandInvalid, FrameError, SyntaxFault
from mirrormq.wire.methods import BasicAck, BasicGet, ConnectionClose, Method, QueueDeclare, TxSelect, decode_method

ALL: list[type[Method]] = [
    kind
    for kind in vars(methods).values()
    if isinstance(kind, type) and issubclass(kind, Method) and kind is not Method
]
BITS = {"version_major": 8, "version_minor": 8, "frame_max": 32, "prefetch_size": 32, "message_count": 32,
        "consumer_count": 32, "delivery_tag": 64}  # fmt: skip

short = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
tables = st.dictionaries(short, st.booleans() | st.integers(-(2**63), 2**63 - 1) | short | st.lists(short), max_size=4)


def field_values(kind: type[Method], field: str) -> st.SearchStrategy[object]:
    default = getattr(kind(), field)
    if isinstance(default, bool):
        return st.booleans()
    if isinstance(default, int):
        return st.integers(0, 2 ** BITS.get(field, 16) - 1)
    return short if isinstance(default, str) else st.binary(max_size=40) if isinstance(default, bytes) else tables


def instances(kind: type[Method]) -> st.SearchStrategy[Method]:
    return st.builds(kind, **{field: field_values(kind, field) for field in kind.FIELDS})


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
@given(st.data())
def test_a_method_survives_the_wire(kind: type[Method], data: st.DataObject) -> None:
    method = data.draw(instances(kind))
    back = decode_method(method.encode())
    assert back == method
    assert type(back) is kind
    assert repr(back) == repr(method)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_method_knows_its_identity(kind: type[Method]) -> None:
    method = kind()
    payload = method.encode()
    assert method.id == kind.ID == int.from_bytes(payload[:4], "big")
    assert (method.class_id, method.method_id) == (kind.ID >> 16, kind.ID & 0xFFFF)
    assert kind.__name__ == "".join(word.capitalize() for word in method.name.replace(".", "-").split("-"))


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_a_method_with_a_byte_more_or_less_is_a_frame_error_that_names_it(kind: type[Method]) -> None:
    payload = kind().encode()
    wrong = [payload + b"\x00"] + ([payload[:-1]] if len(payload) > 4 else [])
    for data in wrong:
        with pytest.raises(FrameError) as caught:
            decode_method(data)
        assert (caught.value.class_id, caught.value.method_id) == (kind.ID >> 16, kind.ID & 0xFFFF)


def test_no_two_methods_share_an_identity() -> None:
    assert len({kind.ID for kind in ALL}) == len({kind.name for kind in ALL}) == len(ALL) == 66


def test_methods_differ_by_kind_and_by_field() -> None:
    assert BasicAck(1) == BasicAck(1)
    assert BasicAck(1) != BasicAck(2)
    assert TxSelect() != methods.TxCommit()
    assert BasicAck(1) != "basic.ack"
    assert len({BasicAck(1), BasicAck(1)}) == 1


def test_a_method_shows_its_name_and_fields() -> None:
    assert repr(BasicAck(7, multiple=True)) == "<basic.ack delivery_tag=7, multiple=True>"
    assert repr(TxSelect()) == "<tx.select>"


def test_unused_bits_of_a_flag_octet_are_ignored() -> None:
    assert decode_method(BasicAck(1).encode()[:-1] + b"\xff") == BasicAck(1, multiple=True)


def refusal(payload: bytes) -> AMQPError:
    with pytest.raises(AMQPError) as caught:
        decode_method(payload)
    return caught.value


@pytest.mark.parametrize("payload", [b"\x00\x32\x00\x63", b"\x00\x63\x00\x0a", b"\x00\x00\x00\x00"])
def test_an_unknown_method_is_an_invalid_command(payload: bytes) -> None:
    error = refusal(payload)
    assert isinstance(error, CommandInvalid)
    assert error.reply_text == "COMMAND_INVALID - unimplemented method"
    assert (error.class_id, error.method_id) == (payload[1], payload[3])


def test_a_payload_without_room_for_a_method_is_an_unknown_frame() -> None:
    assert refusal(b"\x00\x32").reply_text == "FRAME_ERROR - type 1, all octets = <<0,50>>: unknown_frame"
    assert refusal(b"").reply_text == "FRAME_ERROR - type 1, all octets = <<>>: unknown_frame"


def test_arguments_that_do_not_fit_are_shown_as_rabbitmq_shows_them() -> None:
    assert refusal(b"\x00\x32\x00\x0a\x00\x00\x01").reply_text == "FRAME_ERROR - cannot decode <<0,0,1>>"
    assert refusal(TxSelect().encode() + b"x").reply_text == "FRAME_ERROR - cannot decode <<120>>"
    long = refusal(TxSelect().encode() + bytes(4000)).reply_text
    assert len(long) == 255
    assert long.startswith("FRAME_ERROR - cannot decode <<0,0,0,")
    assert long.endswith("...")


def test_a_name_that_is_not_utf8_is_a_frame_error() -> None:
    error = refusal(BasicGet("xyz").encode().replace(b"xyz", b"x\xffz"))
    assert error.reply_text == "FRAME_ERROR - Malformed UTF-8 in shortstr"


def test_a_malformed_argument_table_is_a_syntax_error() -> None:
    error = refusal(QueueDeclare("q").encode()[:-4] + b"\x00\x00\x00\x02\x01\x01")
    assert isinstance(error, SyntaxFault)
    assert (error.class_id, error.method_id) == (50, 10)


def test_an_argument_table_that_overruns_its_method_is_a_frame_error() -> None:
    assert isinstance(refusal(QueueDeclare("q").encode()[:-4] + b"\x00\x00\x00\x09"), FrameError)


def test_a_close_tells_which_method_failed() -> None:
    close = ConnectionClose(504, "CHANNEL_ERROR - x", 20, 10)
    assert (close.failed_class_id, close.failed_method_id) == (20, 10)
    assert (close.class_id, close.method_id) == (10, 50)


def test_names_longer_than_a_short_string_cannot_be_sent() -> None:
    with pytest.raises(ValueError, match="255"):
        QueueDeclare("q" * 256).encode()
