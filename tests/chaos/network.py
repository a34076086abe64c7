"""Machines for the run: network namespaces on one bridge, and one-way cuts between them.

Rules
 1. The run moves into a network namespace of its own before anything else. The bridge and all addresses are in namespaces that
    the run makes. They have no names, so the kernel removes them when their last process has ended, however the run ends.
 2. Each namespace is kept by a process that the kernel kills when the run ends. So are all processes that are started in one.
 3. A cut drops packets at the receiver, by a routing rule for the sender's address: the sender sees silence, and no error.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

NEW_NETWORK = 0x40000000        # CLONE_NEWNET
NETWORK = "10.83.0"
GATEWAY = f"{NETWORK}.254"      # the run itself, where the clients are
PROGRAMS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "setpriv": "util-linux", "etcd": "etcd-server"}
READY = 10.0


class Unavailable(Exception):
    """The machine lacks what the run needs; the text says what."""


def require() -> None:
    """Raises Unavailable where the run cannot work."""
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Unavailable(f"The program '{program}' is missing. Install Debian's package {package}.")
    if os.geteuid() != 0:
        raise Unavailable("This needs root, because it makes network namespaces. Run it with sudo or in a container as root.")
    done = subprocess.run(["unshare", "--net", "ip", "link", "add", "probe", "type", "bridge"], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise Unavailable(f"The kernel refuses network namespaces or bridges here: {done.stderr.strip()}")


class Machine:
    """A network namespace with one address."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.address = f"{NETWORK}.{number}"
        self._keeper = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"],
                                        stdin=subprocess.DEVNULL, start_new_session=True)
        self._space = f"/proc/{self._keeper.pid}/ns/net"

    def open(self) -> None:
        own, deadline = Path("/proc/self/ns/net").readlink(), time.monotonic() + READY
        while Path(self._space).readlink() == own:
            if time.monotonic() > deadline:
                raise Unavailable(f"The network namespace of {self.name} is not there after {READY:.0f} s.")
            time.sleep(0.01)
        port = f"port{self.number}"
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self._keeper.pid))
        _ip("link", "set", port, "master", "bridge", "up")
        for words in (("link", "set", "lo", "up"), ("addr", "add", f"{self.address}/24", "dev", "eth0"),
                      ("link", "set", "eth0", "up"),
                      # Rules for cuts come before the rule that delivers locally.
                      ("rule", "add", "pref", "1000", "lookup", "local"), ("rule", "del", "pref", "0")):
            self._ip(*words)

    def start(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """A process on this machine. Only the main thread may start one: it would end with another thread."""
        with log.open("ab") as output:
            return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self._inside(), *command], stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=output, env=dict(environment), start_new_session=True)

    def run(self, command: Sequence[str], environment: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._inside(), *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=dict(environment), timeout=timeout, check=False)

    def hear_nothing_from(self, sender: Machine) -> None:
        self._ip("rule", "add", "pref", str(sender.number), "from", sender.address, "blackhole")

    def hear(self, sender: Machine) -> None:
        self._ip("rule", "del", "pref", str(sender.number))

    def close(self) -> None:
        self._keeper.kill()
        self._keeper.wait()

    def _inside(self) -> list[str]:
        return ["nsenter", f"--net={self._space}"]

    def _ip(self, *words: str) -> None:
        subprocess.run([*self._inside(), "ip", *words], check=True, capture_output=True)


class Network:
    """All machines of a run, and the cuts between them. Overlapping cuts of one direction are counted."""

    def __init__(self) -> None:
        self.machines: list[Machine] = []
        self._cuts: dict[tuple[int, int], int] = {}

    def open(self) -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
            raise Unavailable(f"The run cannot have a network namespace: {os.strerror(ctypes.get_errno())}")
        for words in (("link", "set", "lo", "up"), ("link", "add", "bridge", "type", "bridge"),
                      ("addr", "add", f"{GATEWAY}/24", "dev", "bridge"), ("link", "set", "bridge", "up")):
            _ip(*words)

    def add(self, name: str, number: int) -> Machine:
        machine = Machine(name, number)
        self.machines.append(machine)
        machine.open()
        return machine

    def cut(self, sender: Machine, receiver: Machine) -> None:
        way = (sender.number, receiver.number)
        self._cuts[way] = self._cuts.get(way, 0) + 1
        if self._cuts[way] == 1:
            receiver.hear_nothing_from(sender)

    def join(self, sender: Machine, receiver: Machine) -> None:
        way = (sender.number, receiver.number)
        self._cuts[way] -= 1
        if not self._cuts[way]:
            receiver.hear(sender)

    def close(self) -> None:
        for machine in self.machines:
            machine.close()


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"'ip {' '.join(words)}' failed: {done.stderr.strip()}")
