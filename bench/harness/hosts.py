"""Two hosts on one machine: network namespaces and a cable between them, as fast as it is told to be. Needs root."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from .case import BenchError

HOSTS = 2
INTERFACE = "eth0"
LATENCY = "50ms"  # what may queue before something is dropped
LEAST_BURST = 256 << 10  # several of the large packets that the kernel hands over at once
BURST_SECONDS = 0.001  # a fast cable needs more, because the kernel looks at it only so often

_UNITS = {"kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


@dataclass(frozen=True)
class Bandwidth:
    """How many bits a second each direction of the cable carries."""

    name: str
    bits: int | None  # none: as many as the machine can

    @property
    def title(self) -> str:
        return self.name if self.bits is None else f"{self.short}bit/s"

    @property
    def short(self) -> str:
        """`100 M`, for an axis that names the unit."""
        return "no limit" if self.bits is None else f"{self.name[:-4]} {self.name[-4].upper()}"


UNSHAPED = Bandwidth("unshaped", None)


def bandwidth(name: str) -> Bandwidth:
    """`100mbit`, as `tc` writes it, or `unshaped`."""
    if name == UNSHAPED.name:
        return UNSHAPED
    found = re.fullmatch(r"([1-9]\d*)(kbit|mbit|gbit)", name)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected `{UNSHAPED.name}` or something like `100mbit`, found `{name}`")
    return Bandwidth(name, int(found[1]) * _UNITS[found[2]])


class Hosts:
    """Made on entry, gone on exit. The names carry the process, so that two runs do not meet."""

    def __init__(self) -> None:
        self.names = [f"pace{os.getpid()}h{host}" for host in range(HOSTS)]

    def __enter__(self) -> Hosts:
        missing = [program for program in ("ip", "tc", "taskset") if shutil.which(program) is None]
        if missing:
            raise BenchError(f"`{missing[0]}` is not on the path; it is in the packages `iproute2` and `util-linux`")
        if os.geteuid() != 0:
            raise BenchError("two hosts are two network namespaces, and only root may make them: run this as root")
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
        return f"10.77.0.{host + 1}"

    def shape(self, wanted: Bandwidth) -> None:
        """Both ends send so fast from now on."""
        for name in self.names:
            on_interface = ["tc", "-n", name, "qdisc"]
            if wanted.bits is None:
                # There may be none to take away.
                subprocess.run([*on_interface, "del", "dev", INTERFACE, "root"], stderr=subprocess.DEVNULL)
            else:
                burst = max(LEAST_BURST, int(wanted.bits / 8 * BURST_SECONDS))
                bucket = ["tbf", "rate", f"{wanted.bits}bit", "burst", f"{burst}b", "latency", LATENCY]
                _call([*on_interface, "replace", "dev", INTERFACE, "root", *bucket])

    def sent_bytes(self) -> int:
        """What has gone over the cable so far, in both directions."""
        links = [json.loads(_call(["ip", "-n", name, "-j", "-s", "link", "show", INTERFACE])) for name in self.names]
        return sum(link[0]["stats64"]["tx"]["bytes"] for link in links)

    def _make(self) -> None:
        first, second = self.names
        for name in self.names:
            _call(["ip", "netns", "add", name])
        cable = ["link", "add", INTERFACE, "type", "veth", "peer", "name", INTERFACE, "netns", second]
        _call(["ip", "-n", first, *cable])
        for host, name in enumerate(self.names):
            _call(["ip", "-n", name, "addr", "add", f"{self.address(host)}/24", "dev", INTERFACE])
            _call(["ip", "-n", name, "link", "set", INTERFACE, "up"])
            _call(["ip", "-n", name, "link", "set", "lo", "up"])

    def _remove(self) -> None:
        # An impatient second Ctrl-C must not leave them behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
        signal.signal(signal.SIGINT, before)


def _call(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return done.stdout
