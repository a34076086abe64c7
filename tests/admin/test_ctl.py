"""mirrormqctl against a real node: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pika.exceptions
import pytest
import trustme

from compat.support import PATIENCE, eventually, free_port, unique
from mirrormq.admin import rendezvous

from .conftest import Connect
from .support import NODE, Node, ctl, quote

pytestmark = pytest.mark.live
MakeUser = Callable[..., str]


# --- finding the node -----------------------------------------------------------------------------------------------


def test_a_node_is_found_by_name_and_by_address(node: Node):
    for by in (("-n", NODE), ("--node", NODE), ("--url", node.url), ("--url", f"{node.host}:{node.http_port}")):
        done = node.ctl("cluster_status", by=by)
        assert (done.code, done.lines[0]) == (0, f"Cluster status of node {NODE} ...")


def test_a_node_is_found_by_the_environment(node: Node):
    assert ctl("ping", env={"MIRRORMQ_URL": node.url}).code == 0
    assert ctl("ping", env={"RABBITMQ_NODENAME": NODE}).code == 0


def test_a_node_that_is_not_there_is_unavailable():
    done = ctl("-n", "nope@localhost", "list_queues")
    assert done.code == 69
    assert done.err.startswith("Error: unable to perform an operation on node 'nope@localhost'.")
    assert ctl("--url", "http://127.0.0.1:9", "status").code == 69


def test_a_user_logs_in_with_a_password(node: Node, user: MakeUser):
    name = user("administrator")
    login = ("--username", name, "--password", name)
    assert node.ctl("list_users", *login).code == 0
    done = node.ctl("list_users", "--username", name, "--password", "wrong")
    assert done.code == 69
    assert "refused the login" in done.err
    other = user("management")
    assert "Not administrator user" in node.ctl("list_users", "--username", other, "--password", other).err


def test_commands_work_although_guest_is_gone(run_directory: None, tmp_path: Path):
    server = Node(tmp_path, name="alone@localhost")
    server.start()
    try:
        assert server.ctl("delete_user", "guest").code == 0
        assert server.ask("GET", "/api/overview").status == 401
        assert server.ctl("add_user", "root", "secret").code == 0
        assert server.ctl("add_vhost", "made").code == 0
        assert server.ctl("list_permissions", "-p", "made", "-q").out == ""
    finally:
        server.stop()


def test_a_node_is_reached_over_tls(run_directory: None, tmp_path: Path):
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    port = free_port()
    (tmp_path / "node.conf").write_text(
        f"management.ssl.port = {port}\nmanagement.ssl.certfile = {tmp_path / 'server.pem'}\n"
        f"management.ssl.keyfile = {tmp_path / 'server.pem'}\n")
    server = Node(tmp_path, "--config", str(tmp_path / "node.conf"), name="tls@localhost")
    server.start()
    try:
        by = ("--url", f"https://localhost:{port}")
        assert server.ctl("ping", "--cacertfile", str(tmp_path / "ca.pem"), by=by).code == 0
        assert server.ctl("ping", "--insecure", by=by).code == 0
        assert server.ctl("ping", by=by).code == 69
        assert server.api("GET", "/api/health/checks/certificate-expiration/1/days") == {"status": "ok"}
        assert server.ask("GET", "/api/health/checks/certificate-expiration/9000/years").status == 503
    finally:
        server.stop()


def test_stop_ends_the_node_and_waits_for_it(run_directory: None, tmp_path: Path):
    server = Node(tmp_path, name="stopped@localhost")
    server.start()
    assert server.ctl("await_startup").code == 0
    done = server.ctl("stop")
    assert (done.code, done.lines) == (0, ["Stopping and halting node stopped@localhost ..."])
    assert server.process is not None
    assert server.process.wait(PATIENCE) == 0
    assert rendezvous.read("stopped@localhost", os.environ) is None
    assert server.ctl("ping").code == 69
    assert server.ctl("await_startup", "-t", "0.2").code == 75
    server.process = None


def test_the_file_of_a_killed_node_does_not_mislead(run_directory: None, tmp_path: Path):
    server = Node(tmp_path, name="killed@localhost")
    server.start()
    server.kill()
    done = server.ctl("status")
    assert done.code == 69
    assert "the node is not running" in done.err


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("words", "code", "sentence"), [
    (["list_quues"], 64, "\nCommand 'list_quues' not found. \nDid you mean 'list_queues'? \n"),
    (["list_users", "extra"], 64, "Error (argument validation): too many arguments.\n"),
    (["add_user"], 64, "Error (argument validation): not enough arguments.\n"),
    (["list_queues", "--nope"], 64, "Error (argument validation): Invalid options for this command:\n--nope : \n"),
    (["list_queues", "nope"], 64, "Error (argument validation): Info key(s) nope are not supported, and there is no "
                               "queue 'nope' in vhost '/'\n"),
    (["add_user", "", "x"], 65, "Error (argument validation): Bad argument: user cannot be an empty string\n"),
    (["help", "nope"], 64, "Error:\n\nCommand 'nope' not found.\n"),
    (["export_definitions", "/nope/x.json"], 65,
     "Error (argument validation): Bad argument: Directory /nope does not exist\n"),
    (["import_definitions", "/nope.json"], 65, "Error (argument validation): Bad argument: File /nope.json does not"),
])  # fmt: skip
def test_a_wrong_command_line_is_explained(node: Node, words: list[str], code: int, sentence: str):
    done = node.ctl(*words)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(sentence)


def test_the_usage_follows_what_was_given(node: Node):
    done = node.ctl("add_user", "a", "b", "c")
    assert f"Arguments given:\n\t-n {NODE} add_user a b c\n\nUsage\n\nmirrormqctl " in done.err


def test_help_needs_no_node():
    assert "Available commands:" in ctl("help").out
    assert ctl("help", "set_policy").out.startswith("Usage\n\nmirrormqctl ")
    assert "must be one of arguments, auto_delete" in ctl("list_queues", "--help").out
    done = ctl()
    assert (done.code, done.out) == (64, "")
    assert "Available commands:" in done.err
    assert ctl("version").code == 0


def test_a_reader_that_has_had_enough_is_no_fault(node: Node):
    command = f"{sys.executable} -m mirrormq.cli.ctl help | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# --- forms of output ------------------------------------------------------------------------------------------------


def test_lists_have_banners_headers_and_tabs(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {"durable": True, "arguments": {"x-max-priority": 10}})
    banner = ["Timeout: 60.0 seconds ...", f"Listing queues for vhost {vhost} ..."]
    assert node.ctl("list_queues", "-p", vhost).lines == [*banner, "name\tmessages", "q\t0"]
    assert ctl("-p", vhost, "-n", NODE, "list_queues", "-q").lines == ["name\tmessages", "q\t0"]
    assert node.ctl("list_queues", "-s", "-p", vhost).lines == ["q\t0"]
    assert node.ctl("list_queues", "-p", vhost, "--no-table-headers").lines == [*banner, "q\t0"]
    columns = ("name,durable", "arguments", "policy", "state")
    assert node.ctl("list_queues", "-q", "-p", vhost, *columns).lines == [
        "name\tdurable\targuments\tpolicy\tstate", 'q\ttrue\t[{"x-max-priority",10}]\t\trunning']


def test_an_empty_list_has_no_header(node: Node, vhost: str):
    assert node.ctl("list_queues", "-q", "-p", vhost).out == ""
    assert node.ctl("list_queues", "-p", vhost, "--formatter", "json").out == "[\n]\n"
    assert node.ctl("list_queues", "-q", "-p", "nope").code == 0


def test_json_and_csv_have_no_banner(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {"arguments": {"x-max-priority": 10}})
    node.api("PUT", f"/api/queues/{vhost}/r", {})
    done = node.ctl("list_queues", "-p", vhost, "name", "arguments", "--formatter=json")
    assert done.lines == ["[", '{"name":"q","arguments":[["x-max-priority","signedint",10]]}',
                          ',{"name":"r","arguments":[]}', "]"]
    done = node.ctl("list_queues", "-p", vhost, "name", "arguments", "--formatter", "csv")
    assert done.lines == ['"name","arguments"', '"q","[{""x-max-priority"",10}]"', '"r","[]"']


def test_other_forms(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    pretty = node.ctl("list_queues", "-q", "-p", vhost, "--formatter", "pretty_table").lines
    assert pretty == ["┌──────┬──────────┐", "│ name │ messages │", "├──────┼──────────┤", "│ q    │ 0        │",
                      "└──────┴──────────┘"]
    erlang = node.ctl("list_queues", "-q", "-p", vhost, "--formatter", "erlang").out
    assert erlang == '[[{name,<<"q">>},{messages,0}]]\n'


def test_a_terminal_gets_a_table_with_lines(node: Node):
    reader, writer = pty.openpty()
    words = [sys.executable, "-m", "mirrormq.cli.ctl", "-n", NODE, "-q", "list_users"]
    process = subprocess.Popen(words, stdout=writer)
    os.close(writer)
    text = b""
    while True:
        try:
            piece = os.read(reader, 4096)
        except OSError:     # the end, where a terminal is concerned
            break
        if not piece:
            break
        text += piece
    assert process.wait(30) == 0
    os.close(reader)
    assert text.decode().startswith("┌")


# --- users, permissions, virtual hosts ------------------------------------------------------------------------------


def test_users_come_and_go(node: Node):
    name = unique("u")
    done = node.ctl("add_user", name, "secret")
    assert done.lines[0] == f'Adding user "{name}" ...'
    assert done.lines[1].startswith("Done. Don't forget to grant the user permissions")
    again = node.ctl("add_user", name, "secret")
    assert (again.code, again.err) == (70, f'Error:\nUser "{name}" already exists\n')
    assert node.ctl("authenticate_user", name, "secret").lines[-1] == "Success"
    assert node.ctl("change_password", name, stdin="other\n").code == 0
    wrong = node.ctl("authenticate_user", name, "secret")
    assert (wrong.code, wrong.err.splitlines()[-1]) == (65, f"user '{name}' - invalid credentials")
    assert node.ctl("authenticate_user", name, "other", "-q").out == "Success\n"
    assert node.ctl("set_user_tags", name, "management", "custom").lines == [
        f'Setting tags for user "{name}" to [management, custom] ...']
    assert f"{name}\t[management, custom]" in node.ctl("list_users").lines
    assert node.ctl("authenticate_user", name, "other").code == 0
    assert node.ctl("clear_password", name).code == 0
    assert node.ctl("authenticate_user", name, "other").code == 65
    assert node.ctl("delete_user", name).lines == [f'Deleting user "{name}" ...']
    gone = node.ctl("delete_user", name)
    assert (gone.code, gone.err) == (67, f'Error:\nUser "{name}" does not exist\n')


def test_a_password_comes_from_a_pipe_or_not_at_all(node: Node):
    name = unique("u")
    assert node.ctl("add_user", name).err == "Error:\nPassword is not provided via argument or stdin\n"
    assert node.ctl("add_user", name, stdin="frompipe\n").lines[1] == "Password: "
    assert node.ctl("authenticate_user", name, "frompipe").code == 0
    node.ctl("delete_user", name)


def test_permissions_are_set_and_cleared(node: Node, user: MakeUser, vhost: str):
    name = user()
    done = node.ctl("set_permissions", "-p", vhost, name, "^a", ".*", "")
    assert done.lines == [f'Setting permissions for user "{name}" in vhost "{vhost}" ...']
    granted = node.ctl("list_user_permissions", name, "-q").lines
    assert granted == ["vhost\tconfigure\twrite\tread", f"{vhost}\t^a\t.*\t"]
    assert node.ctl("set_topic_permissions", "-p", vhost, name, "amq.topic", "^x", "^y").code == 0
    assert node.ctl("list_topic_permissions", "-p", vhost, "-s").lines == [f"{name}\tamq.topic\t^x\t^y"]
    assert node.ctl("clear_topic_permissions", "-p", vhost, name).code == 0
    for _ in range(2):
        assert node.ctl("clear_permissions", "-p", vhost, name).code == 0
    assert node.ctl("set_permissions", "-p", vhost, "nobody", ".", ".", ".").code == 67
    done = node.ctl("set_permissions", "-p", "nope", name, ".", ".", ".")
    assert (done.code, done.err) == (69, "Error:\nVirtual host nope does not exist\n")
    assert node.ctl("list_permissions", "-p", "nope").err == "Virtual host 'nope' does not exist\n"
    assert node.ctl("list_user_permissions", "nobody").err == 'Error:\n{:no_such_user, "nobody"}\n'


def test_virtual_hosts_come_and_go(node: Node):
    name = unique("vh")
    assert node.ctl("add_vhost", name, "--description", "mine", "--tags", "a,b").lines == [f'Adding vhost "{name}" ...']
    assert f"{name}\tmine\t[a, b]" in node.ctl("list_vhosts", "name", "description", "tags").lines
    assert node.ctl("set_vhost_limits", "-p", name, '{"max-queues": 5}').code == 0
    assert node.ctl("list_vhost_limits", "-p", name, "-q").lines == ['{"max-queues":5}']
    assert f'{name}\t{{"max-queues":5}}' in node.ctl("list_vhost_limits", "--global").lines
    assert node.ctl("clear_vhost_limits", "-p", name).code == 0
    assert node.ctl("clear_vhost_limits", "-p", name).err == "Error:\nParameter does not exist\n"
    assert node.ctl("set_vhost_limits", "-p", name, "nojson").err == "Error:\nJSON decoding error. Reason: badarg\n"
    assert node.ctl("delete_vhost", name).code == 0
    done = node.ctl("delete_vhost", name)
    assert (done.code, done.err) == (65, f"Virtual host '{name}' does not exist\n")


def test_limits_of_users(node: Node, user: MakeUser):
    name = user()
    assert node.ctl("set_user_limits", name, '{"max-connections": 10}').code == 0
    assert node.ctl("list_user_limits", "--user", name, "-q").lines == ['{"max-connections":10}']
    assert node.ctl("set_user_limits", name, '{"max": 1}').err == (
        'Error:\nUnrecognised terms [{<<"max">>,1}] in user-limits\n')
    assert node.ctl("clear_user_limits", name, "all").code == 0
    assert node.ctl("list_user_limits", "--user", name, "-q").lines == ["{}"]


# --- policies, definitions, queues, connections ---------------------------------------------------------------------


def test_policies_are_set_listed_and_cleared(node: Node, vhost: str):
    options = ("--priority", "7", "-p", vhost, "--apply-to", "queues")
    done = node.ctl("set_policy", *options, "tp", "^t", '{"max-length":3}')
    assert done.lines == [f'Setting policy "tp" for pattern "^t" to "{{"max-length":3}}" with priority "7" for vhost '
                          f'"{vhost}" ...']
    assert node.ctl("list_policies", "-q", "-p", vhost).lines == [
        "vhost\tname\tpattern\tapply-to\tdefinition\tpriority", f'{vhost}\ttp\t^t\tqueues\t{{"max-length":3}}\t7']
    row = json.loads(node.ctl("list_policies", "-p", vhost, "--formatter", "json").out)[0]
    assert row["definition"] == '{"max-length":3}'
    done = node.ctl("set_policy", "-p", vhost, "bad", "^x", '{"nope":1}')
    assert (done.code, done.err) == (
        69, 'Error:\nValidation failed\n\n[{<<"nope">>,1}] are not recognised policy settings\n')
    assert node.ctl("set_policy", "-p", "nope", "bad", "^x", '{"max-length":1}').code == 65
    assert node.ctl("clear_policy", "-p", vhost, "tp").code == 0
    done = node.ctl("clear_policy", "-p", vhost, "tp")
    assert (done.code, done.err) == (69, "Error:\nParameter does not exist\n")
    assert node.ctl("set_operator_policy", "-p", vhost, "op", "^x", '{"max-length":5}').code == 0
    assert node.ctl("list_parameters", "-s", "-p", vhost).lines[0].startswith("operator_policy\top\t")
    assert node.ctl("clear_operator_policy", "-p", vhost, "op").code == 0


def test_definitions_are_exported_and_imported(node: Node, vhost: str, tmp_path: Path):
    file = tmp_path / "defs.json"
    node.api("PUT", f"/api/queues/{vhost}/q", {"durable": True})
    assert node.ctl("export_definitions", str(file)).lines == [
        f'Exporting definitions in JSON to a file at "{file}" ...']
    node.api("DELETE", f"/api/queues/{vhost}/q")
    assert node.ctl("import_definitions", str(file)).code == 0
    assert node.ask("GET", f"/api/queues/{vhost}/q").status == 200
    assert "queues" in json.loads(node.ctl("export_definitions", "-").out)
    assert node.ctl("import_definitions", "-", stdin='{"users": []}').code == 0
    assert node.ctl("import_definitions", stdin="{bad").code == 65


def test_queues_are_purged_and_deleted(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q")
    for _ in range(2):
        channel.basic_publish("", "q", b"x")
    eventually(lambda: node.api("GET", f"/api/queues/{vhost}/q")["messages"] == 2)
    done = node.ctl("delete_queue", "-p", vhost, "q", "--if-empty")
    assert (done.code, done.err) == (64, "Error:\nQueue is not empty\n")
    assert node.ctl("purge_queue", "-p", vhost, "q").lines == [f"Purging queue 'q' in vhost '{vhost}' ..."]
    assert node.api("GET", f"/api/queues/{vhost}/q")["messages"] == 0
    done = node.ctl("delete_queue", "-p", vhost, "q", "-e")
    assert done.lines == [f"Deleting queue 'q' on vhost '{vhost}' if queue is empty ...",
                          "Queue was successfully deleted with 0 ready messages"]
    assert node.ctl("delete_queue", "-p", vhost, "q").err == "Error:\nQueue not found\n"
    done = node.ctl("purge_queue", "-p", vhost, "q")
    assert (done.code, done.err) == (69, "Error:\nnot_found\n")


def test_clients_are_listed_and_closed(node: Node, vhost: str, connect: Connect):
    channel = connect().channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None, consumer_tag="tag")
    [name] = [row["name"] for row in node.api("GET", f"/api/vhosts/{vhost}/connections")]
    rows = [line.split("\t") for line in node.ctl("list_connections", "-s", "pid", "name", "state", "protocol").lines]
    [pid] = [row[0] for row in rows if row[1] == name]
    assert f"{name} (1)\tguest\t1" in node.ctl("list_channels", "name", "user", "consumer_count").lines
    [consumer] = node.ctl("list_consumers", "-s", "-p", vhost).lines
    assert consumer.split("\t")[0::2] == ["q", "tag", "0", "[]"]
    assert node.ctl("list_exchanges", "-s", "-p", vhost).lines[0] == "\tdirect"
    assert node.ctl("list_bindings", "-s", "-p", vhost).lines == ["\texchange\tq\tqueue\tq\t[]"]
    assert node.ctl("close_connection", "nope", "x").code == 69
    assert node.ctl("close_connection", pid, "because").lines == [f"Closing connection {pid}, reason: because..."]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="because"):
        channel.queue_declare("late")
    connect()
    assert node.ctl("close_all_connections", "-p", vhost, "bye").lines[-1] == "Closed 1 connections"


def test_the_state_of_the_node_is_told(node: Node):
    status = node.ctl("status")
    assert status.lines[0] == f"Status of node {NODE} ..."
    for line in ("Runtime", f"Node name: {NODE}", "Alarms", "Totals"):
        assert line in status.lines
    document = json.loads(node.ctl("status", "--formatter", "json").out)
    assert document["pid"] == node.process.pid if node.process is not None else 0
    assert {row["protocol"] for row in document["listeners"]} == {"amqp", "clustering", "http"}
    assert node.ctl("ping", "-q").out == "Ping succeeded\n"
    assert "node_name = " + NODE in node.ctl("environment").lines
    assert node.ctl("set_cluster_name", "ours").code == 0
    assert json.loads(node.ctl("cluster_status", "--formatter", "json").out)["cluster_name"] == "ours"
    assert node.ask("GET", f"/api/global-parameters/{quote('cluster_name')}").body["value"] == "ours"
