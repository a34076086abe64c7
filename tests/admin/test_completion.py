"""What the shells complete, and what a terminal shows: colours and bars."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys

import pytest

from mirrormq.cli.ctl.completion import SHELLS, complete
from mirrormq.cli.ctl.progress import WIDTH, bar, line_of

from .support import Node, ctl

REQUIRED = os.environ.get("MIRRORMQ_REQUIRE_ALL") == "1"


@pytest.mark.parametrize(("words", "found"), [
    (["list_qu"], ["list_queues"]), (["sync"], ["sync_queue"]), (["-n", "rabbit@a", "list_qu"], ["list_queues"]),
    (["list_queues", "synchronised_s"], ["synchronised_slave_pids"]), (["list_queues", "--onl"], ["--online"]),
    (["--form"], ["--formatter"]), (["help", "await_startu"], ["await_startup"]), (["list_queues", "-p", "x", "consumer_c"],
                                                                                  ["consumer_capacity"]), (["nope"], []),
])  # fmt: skip
def test_words_are_completed(words: list[str], found: list[str]):
    assert complete(words) == found


def test_the_command_completes_as_rabbitmqs_does():
    assert ctl("autocomplete", "list_que").lines == ["list_queues"]
    names = ctl("autocomplete", "list_queues", "--", "messages_un").lines
    assert names == ["messages_unacknowledged", "messages_unacknowledged_ram"]
    assert "status" in ctl("autocomplete").lines


@pytest.mark.parametrize("shell", sorted(SHELLS))
def test_the_lines_for_a_shell_are_ones_that_it_understands(shell: str):
    done = ctl("completion", shell)
    assert done.code == 0
    program = shutil.which(shell)
    if program is None and not REQUIRED:
        pytest.skip(f"{shell} is not installed")
    assert program is not None, f"{shell} is missing, and MIRRORMQ_REQUIRE_ALL=1 asks for it: apt-get install {shell}"
    checked = subprocess.run([program, "-n"], input=done.out, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_them():
    script = ctl("completion", "bash").out + f"""
mirrormqctl() {{ {sys.executable} -m mirrormq.cli.ctl "$@"; }}
COMP_WORDS=(mirrormqctl -p shop list_que); COMP_CWORD=3; _mirrormqctl; echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "list_queues\n"


def test_a_synchronisation_is_drawn_until_no_mirror_is_on_its_way():
    behind = {"node": "rabbit@b", "lag_entries": 7, "lag_bytes": 70, "synced": None}
    copying = {"node": "rabbit@c", "lag_entries": 900, "lag_bytes": 9000, "synced": 50}
    row = {"messages": 200, "ring": {"learners": [copying, behind]}}
    assert line_of(row) == f"rabbit@b: 7 entries behind  rabbit@c {bar(0.25)} 25 %"
    assert line_of({"messages": 200, "ring": {"learners": []}}) == ""
    assert line_of({"messages": 200}) == ""
    assert (len(bar(0.25)), bar(2.0), bar(-1.0)) == (WIDTH, "█" * WIDTH, "░" * WIDTH)


@pytest.mark.live
def test_states_are_coloured_on_a_terminal_alone(node: Node, vhost: str):
    node.api("PUT", f"/api/queues/{vhost}/q", {})
    command = [sys.executable, "-m", "mirrormq.cli.ctl", "-n", node.name, "list_queues", "-p", vhost, "name", "state"]
    assert "\x1b[32mrunning\x1b[0m" in on_terminal(command, {})
    assert "\x1b[" not in on_terminal(command, {"NO_COLOR": "1"})
    assert "\x1b[" not in node.ctl(*command[5:]).out


def on_terminal(command: list[str], env: dict[str, str]) -> str:
    leader, follower = pty.openpty()
    process = subprocess.Popen(command, stdout=follower, stderr=follower, stdin=subprocess.DEVNULL, env=os.environ | env)
    os.close(follower)
    shown = b""
    try:
        while piece := os.read(leader, 65536):
            shown += piece
    except OSError:
        pass            # the other end is closed
    process.wait(30)
    os.close(leader)
    return shown.decode()
