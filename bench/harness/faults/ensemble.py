"""Three ZooKeeper servers on loopback, or on one host of several, with folders of their own.

Debian's package `zookeeper` has what is needed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from ..case import BenchError
from .stage import free_ports

JAR = Path("/usr/share/java/zookeeper.jar")
SERVERS = 3
SESSION_SECONDS = 4
START_LIMIT_SECONDS = 60.0


@dataclass(frozen=True)
class Place:
    """Where they run: what stands before a command there, and what they listen to."""

    enter: tuple[str, ...] = ()
    address: str = "127.0.0.1"


class Server:
    """One of them."""

    def __init__(self, folder: Path, number: int, port: int, others: str, place: Place) -> None:
        self.port, self.folder, self.place = port, folder, place
        folder.mkdir()
        settings = (
            f"tickTime=500\ninitLimit=20\nsyncLimit=10\nmaxSessionTimeout=60000\ndataDir={folder}\nclientPort={port}\n"
            f"clientPortAddress={place.address}\nadmin.enableServer=false\n4lw.commands.whitelist=srvr\n{others}"
        )
        (folder / "zoo.cfg").write_text(settings)
        (folder / "myid").write_text(f"{number}\n")
        self.start()

    def start(self) -> None:
        java = [*self.place.enter, "java", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", JAR]
        command = [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", self.folder / "zoo.cfg"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def mode(self) -> str | None:
        """`leader` or `follower`, when it is in service."""
        # Another host can only be asked from there.
        ask = f"exec 3<>/dev/tcp/{self.place.address}/{self.port}; printf srvr >&3; timeout 2 cat <&3"
        command = [*self.place.enter, "bash", "-c", ask]
        said = subprocess.run(command, capture_output=True, text=True).stdout
        return next((line[6:] for line in said.splitlines() if line.startswith("Mode: ")), None)

    def kill(self) -> None:
        """As a crash does."""
        self.process.kill()


class Ensemble:
    """In service on entry, gone on exit."""

    def __init__(self, place: Place = Place()) -> None:
        self.place = place

    def __enter__(self) -> Ensemble:
        if not JAR.exists() or shutil.which("java") is None:
            raise BenchError(f"expected a ZooKeeper (`{JAR}`) and `java`: install Debian's package `zookeeper`")
        self.folder = Path(tempfile.mkdtemp(prefix="paceline-zookeeper-"))
        self.servers: list[Server] = []
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def url(self) -> str:
        servers = ",".join(f"{self.place.address}:{server.port}" for server in self.servers)
        return f"zk://{servers}/faults?session={SESSION_SECONDS}s"

    def leader(self) -> Server:
        found = next((server for server in self.servers if server.mode() == "leader"), None)
        if found is None:
            raise BenchError("expected one of three ZooKeeper servers to lead, found none")
        return found

    def _start(self) -> None:
        ports = free_ports(3 * SERVERS)
        numbers = range(1, SERVERS + 1)
        pairs = zip(ports[SERVERS : 2 * SERVERS], ports[2 * SERVERS :])
        others = "".join(f"server.{number}={self.place.address}:{one}:{two}\n" for number, (one, two) in zip(numbers, pairs))
        for number, port in zip(numbers, ports):
            self.servers.append(Server(self.folder / str(number), number, port, others, self.place))
        until = time.monotonic() + START_LIMIT_SECONDS
        while not all(server.mode() for server in self.servers):
            ended = [server for server in self.servers if server.process.poll() is not None]
            if ended or time.monotonic() > until:
                raise BenchError("three ZooKeeper servers did not start; see whether `java` and the package are whole")
            time.sleep(0.1)

    def _end(self) -> None:
        # An impatient second Ctrl-C must not leave them behind.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for server in self.servers:
            server.kill()
        for server in self.servers:
            server.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
        signal.signal(signal.SIGINT, before)
