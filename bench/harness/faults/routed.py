"""Three hosts behind a router: network namespaces, each with a cable to it. Needs root.

The router forgets packets where it is told to. The hosts see neither a lost carrier nor a changed route nor an error:
what they send is not answered, as behind a switch that died.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType

from ..case import BenchError

HOSTS = 3
INTERFACE = "eth0"


class Routed:
    """Made on entry, gone on exit. The names carry the process, so that two runs do not meet."""

    def __init__(self) -> None:
        self.names = [f"pace{os.getpid()}r{host}" for host in range(HOSTS)]
        self.router = f"pace{os.getpid()}rr"
        self.cuts: list[list[str]] = []

    def __enter__(self) -> Routed:
        if shutil.which("ip") is None:
            raise BenchError("`ip` is not on the path; it is in the package `iproute2`")
        if os.geteuid() != 0:
            raise BenchError("hosts are network namespaces, and only root may make them: run this as root")
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def enter(self, host: int) -> list[str]:
        """What stands before a command that is to run on a host; it stays the same process."""
        return ["ip", "netns", "exec", self.names[host]]

    def address(self, host: int) -> str:
        return f"10.77.{host + 1}.2"

    def cut_off(self, host: int) -> float:
        """From now on nothing goes to this host or comes from it; when that was."""
        return self._cut([["from", self.address(host)], ["to", self.address(host)]])

    def cut_between(self, one: int, other: int) -> float:
        """From now on nothing goes between these two; when that was."""
        one_address, other_address = self.address(one), self.address(other)
        there, back = ["from", one_address, "to", other_address], ["from", other_address, "to", one_address]
        return self._cut([there, back])

    def heal(self) -> float:
        """Everything passes again; when that was."""
        while self.cuts:
            _call(["ip", "-n", self.router, "rule", "del", *self.cuts.pop()])
        return time.monotonic()

    def _cut(self, rules: Sequence[Sequence[str]]) -> float:
        at = time.monotonic()
        for rule in rules:
            rule = [*rule, "blackhole"]
            _call(["ip", "-n", self.router, "rule", "add", *rule])
            self.cuts.append(rule)
        return at

    def _make(self) -> None:
        for name in [self.router, *self.names]:
            _call(["ip", "netns", "add", name])
            _call(["ip", "-n", name, "link", "set", "lo", "up"])
        _call(["ip", "netns", "exec", self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        for host, name in enumerate(self.names):
            port, gateway = f"port{host}", f"10.77.{host + 1}.1"
            cable = ["link", "add", INTERFACE, "type", "veth", "peer", "name", port, "netns", self.router]
            _call(["ip", "-n", name, *cable])
            _call(["ip", "-n", name, "addr", "add", f"{self.address(host)}/24", "dev", INTERFACE])
            _call(["ip", "-n", self.router, "addr", "add", f"{gateway}/24", "dev", port])
            _call(["ip", "-n", name, "link", "set", INTERFACE, "up"])
            _call(["ip", "-n", self.router, "link", "set", port, "up"])
            _call(["ip", "-n", name, "route", "add", "default", "via", gateway])

    def _remove(self) -> None:
        # An impatient second Ctrl-C must not leave them behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name in [self.router, *self.names]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        signal.signal(signal.SIGINT, before)


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
