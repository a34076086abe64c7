"""The command line of mirrormqctl, taken apart."""

from __future__ import annotations

import pytest

from mirrormq.cli.ctl import grammar
from mirrormq.cli.ctl.catalogue import COMMANDS
from mirrormq.cli.ctl.faults import Misuse
from mirrormq.cli.ctl.terms import Arguments, Tags, cell, erlang, pid, plain


@pytest.mark.parametrize("line", [
    "-p prod list_queues name", "list_queues -p prod name", "list_queues name --vhost prod",
    "list_queues name --vhost=prod",
])  # fmt: skip
def test_options_stand_before_or_after_the_command(line: str):
    parsed = grammar.parse(line.split())
    assert parsed.words == ["list_queues", "name"]
    assert parsed.values == {"vhost": "prod"}
    assert not parsed.faults


def test_after_two_dashes_everything_is_a_word():
    assert grammar.parse(["set_permissions", "--", "u", "-x", "--y"]).words == ["set_permissions", "u", "-x", "--y"]


@pytest.mark.parametrize(("words", "fault"), [
    (["--nope"], ("--nope", "")), (["--formatter"], ("--formatter", "")),
    (["--formatter", "xml"], ("--formatter", "xml")), (["--priority", "abc"], ("--priority", "abc")),
    (["-t", "x"], ("-t", "x")), (["--timeout", "-1"], ("--timeout", "-1")),
    (["--timeout", "infinity"], ("--timeout", "infinity")), (["--timeout", "nan"], ("--timeout", "nan")),
    (["--within", "inf"], ("--within", "inf")), (["--priority", "1e400"], ("--priority", "1e400")),
])  # fmt: skip
def test_options_that_make_no_sense_are_kept_as_they_were_written(words: list[str], fault: tuple[str, str]):
    assert grammar.parse(["set_policy", *words]).faults == [fault]


def test_an_option_of_another_command_is_refused():
    with pytest.raises(Misuse, match="--if-empty : "):
        grammar.check_options(grammar.parse(["list_queues", "--if-empty"]), ("online",))


def test_every_command_knows_its_options():
    known = {option.name for option in grammar.PARTICULAR}
    assert all(known.issuperset(command.options) for command in COMMANDS)


def test_commands_have_names_of_their_own():
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize(("value", "shown"), [
    (None, ""), (True, "true"), (3, "3"), (1.0, "1.0"), ("a b", "a b"), ("a\tb\n", "a\\tb\\n"),
    (Tags(["a", "b"]), "[a, b]"), (Arguments({}), "[]"),
    (Arguments({"x-max-priority": 10, "s": "t", "n": {"k": [1, True]}}),
     '[{"x-max-priority",10},{"s","t"},{"n",[{"k",[1,true]}]}]'),
])  # fmt: skip
def test_cells_read_as_rabbitmq_writes_them(value: object, shown: str):
    assert cell(value) == shown


def test_arguments_in_json_carry_their_types():
    assert plain(Arguments({"a": 1, "b": "x", "c": True, "d": {"e": 2**40}})) == [
        ["a", "signedint", 1], ["b", "longstr", "x"], ["c", "bool", True], ["d", "table", [["e", "long", 2**40]]]]


def test_the_same_thing_has_the_same_process_number():
    assert pid("n@h", "connection", "x") == pid("n@h", "connection", "x") != pid("n@h", "connection", "y")


def test_erlang_terms_quote_text():
    assert (erlang("q"), erlang(1), erlang(None)) == ('<<"q">>', "1", "undefined")
