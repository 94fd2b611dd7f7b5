"""Connections that nobody asked for: idle ones, and such that say what nobody understands."""

from __future__ import annotations

import os
import random
import resource
import select
import socket
import struct
import threading
import zlib
from collections.abc import Callable

IDLE = 1000
# So many at a time, so often: what is measured is the master and not how fast this process can connect.
AT_A_TIME, EVERY_SECONDS = 12, 0.05
REPLACED_AT_A_TIME = 25  # of the idle ones that the master has closed


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 4096))


def half_a_message(chance: random.Random) -> bytes:
    """A header that is right in all, and half of the body that it announces."""
    body = chance.randbytes(2000)
    return header(body, len(body)) + body[: len(body) // 2]


def four_gibibytes(chance: random.Random) -> bytes:
    """A header, or a bare prefix, that announces as much as 32 bits can say."""
    return chance.choice([header(b"", 2**32 - 1), struct.pack("<I", 2**32 - 1)]) + chance.randbytes(1000)


def header(body: bytes, length: int) -> bytes:
    """`crates/exchange/src/frame.rs` draws it."""
    front = struct.pack("<4sBBHI", b"PCLN", 1, 0, 1, length)
    behind = struct.pack("<QQQQ", 1, 1, 1, 1)
    return front + struct.pack("<I", zlib.crc32(body, zlib.crc32(front + behind))) + behind


KINDS: tuple[Callable[[random.Random], bytes], ...] = (noise, half_a_message, four_gibibytes)


class Strangers(threading.Thread):
    """Holds idle connections open, and opens others and speaks on them, until it is ended."""

    def __init__(self, port: int, seed: int = 1) -> None:
        super().__init__(daemon=True)
        self.address = ("127.0.0.1", port)
        self.chance = random.Random(seed)
        self.idle: list[socket.socket] = []
        self.is_over = threading.Event()
        self.connected, self.refused, self.closed, self.most_open = 0, 0, 0, 0
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192), most))

    def run(self) -> None:
        speaking: list[socket.socket] = []
        while not self.is_over.wait(EVERY_SECONDS):
            self._fill()
            for link in speaking:
                link.close()
            speaking = [link for link in (self._speak() for _ in range(AT_A_TIME)) if link]
        for link in [*speaking, *self.idle]:
            link.close()

    def end(self) -> None:
        self.is_over.set()
        self.join()

    def _fill(self) -> None:
        """As many idle connections as there should be at first; later, some for those that the master has closed."""
        is_first = not self.idle
        if not is_first:
            poll = select.poll()
            for link in self.idle:
                poll.register(link, select.POLLIN | select.POLLHUP | select.POLLERR)
            closed = {number for number, _ in poll.poll(0)}
            self.closed += len(closed)
            for link in [link for link in self.idle if link.fileno() in closed]:
                link.close()
            self.idle = [link for link in self.idle if link.fileno() >= 0]
            self.most_open = max(self.most_open, len(self.idle))
        missing = IDLE - len(self.idle)
        links = [self._connect() for _ in range(missing if is_first else min(missing, REPLACED_AT_A_TIME))]
        self.idle += [link for link in links if link]

    def _speak(self) -> socket.socket | None:
        link = self._connect()
        if link is not None:
            try:
                link.send(self.chance.choice(KINDS)(self.chance))
            except OSError:
                self.refused += 1
        return link

    def _connect(self) -> socket.socket | None:
        try:
            link = socket.create_connection(self.address, timeout=1)
        except OSError:
            self.refused += 1
            return None
        link.setblocking(False)
        self.connected += 1
        return link


def peak_mib(pid: int) -> float | None:
    """The most memory that a process has held, as the kernel says."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            found = next((line for line in lines if line.startswith("VmHWM:")), None)
    except OSError:
        return None
    return int(found.split()[1]) / 1024 if found else None


def open_files(pid: int) -> int | None:
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
