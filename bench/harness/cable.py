"""Who trains over the cable between two hosts: a mode of ours, or PyTorch DDP; and how fast each is seen to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from .case import BenchError, Case, Job
from .child import run_together, trained, two_cores
from .cluster import Cluster, Window
from .hosts import HOSTS, INTERFACE, UNSHAPED, Bandwidth, Hosts
from .peers import PROCESSES, ddp_launches, pytorch_options
from .toolchain import say

BATCH = 64  # of each worker and each rank
PEER = "ddp"

# A step of DDP takes about so long without a cable; it sets only how many steps a run has.
PEER_STEP_SECONDS = 0.015
BYTES_OF_A_PARAMETER = 4
WARM_STEPS, LEAST_STEPS = 3, 6
OWN_CLOCK_MAY_DIFFER = 0.1


@dataclass(frozen=True)
class Rate:
    """One turn of one side."""

    examples_per_second: float | None  # none with trouble
    bytes_per_example: float | None  # on the cable, both directions together
    seconds: float
    own_clock: float | None  # examples a second as the side itself says: a check
    trouble: str = ""  # why there is no figure


class Side(Protocol):
    """Whoever trains over the cable."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str: ...

    def turn(self, at: Bandwidth) -> Rate: ...


@dataclass(frozen=True)
class Ours:
    """A mode of ours; `frequency` and `overlap` are those of averaging."""

    cluster: Cluster
    window: Window
    parameters: int  # that it must have, to be the network of the peer
    mode: str
    frequency: int | None = None
    overlap: bool = False

    @property
    def name(self) -> str:
        rare = "" if self.frequency is None else f"-{self.frequency}"
        return f"{self.mode}{rare}{'-overlapped' if self.overlap else ''}"

    @property
    def title(self) -> str:
        rare = "" if self.frequency is None else f", every {self.frequency} steps"
        return f"{self.mode}{rare}{', overlapped' if self.overlap else ''}"

    def turn(self, at: Bandwidth) -> Rate:
        settings = () if self.frequency is None else (f"train.mode.averaging.frequency={self.frequency}",)
        settings += ("train.mode.averaging.overlap=true",) if self.overlap else ()
        seen = self.cluster.run(f"{at.name}-{self.name}", self.mode, settings, self.window)
        if seen.parameters != self.parameters:
            raise BenchError(f"expected the peer's {self.parameters} parameters, found {seen.parameters} with us")
        if seen.trouble:
            say(f"{at.title}: {self.title} failed: {seen.trouble}")
            return Rate(None, None, seen.seconds, None, seen.trouble)
        examples = seen.steps * BATCH * HOSTS
        rate, own = examples / seen.seconds, seen.own_rate()
        if abs(own / rate - 1) > OWN_CLOCK_MAY_DIFFER:
            say(f"warning: {at.name}: {self.title} counts {own:,.0f} examples/s, seen were {rate:,.0f}")
        return Rate(rate, seen.sent_bytes / examples, seen.seconds, own)


@dataclass(frozen=True)
class Ddp:
    """`peers/pytorch/ddp.py`: one rank on each host, seen by the events of the first, not from its first steps on."""

    python: Path
    hosts: Hosts
    case: Case
    job: Job
    seconds: float  # that the steps are to take
    parameters: int = 0
    name = PEER
    title = "PyTorch DDP"

    def warm(self) -> Ddp:
        """A run that is not counted: files are read from disk once, and the parameters are counted."""
        watch, _ = self.train(UNSHAPED, 1)
        return replace(self, parameters=int(watch.last["parameters"]))

    def turn(self, at: Bandwidth) -> Rate:
        watch, examples = self.train(at, self.steps(at))
        own = 1000 * BATCH * PROCESSES / float(watch.last["own_clock_ms"])
        return Rate(examples / watch.seconds, watch.sent_bytes / examples, watch.seconds, own)

    def steps(self, at: Bandwidth) -> int:
        """As many as fit into the time if nothing but the cable and the arithmetic takes any."""
        cable = 0.0 if at.bits is None else 8 * BYTES_OF_A_PARAMETER * self.parameters / at.bits
        return max(LEAST_STEPS, round(self.seconds / (PEER_STEP_SECONDS + cable)))

    def train(self, at: Bandwidth, steps: int) -> tuple[_Watch, int]:
        """What was seen of so many steps after the first, and their examples."""
        options = pytorch_options(self.case, self.job, "eager", BATCH)
        options += ["--steps", str(WARM_STEPS + steps), "--warm-steps", str(WARM_STEPS)]
        launches = [
            replace(
                launch,
                command=[*self.hosts.enter(rank), *launch.command],
                environment={**launch.environment, "GLOO_SOCKET_IFNAME": INTERFACE},
                cores=frozenset({two_cores()[rank]}),
            )
            for rank, launch in enumerate(ddp_launches(self.python, options, f"network-{at.name}-ddp"))
        ]
        watch = _Watch(self.hosts)
        finished = run_together(launches, watch.take)[0]
        trained(self.title, finished, (WARM_STEPS + steps) * BATCH * PROCESSES)
        return watch, steps * BATCH * PROCESSES


class _Watch:
    """The steps of rank 0 from outside: from the event that it is warm to the event that it is done."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        self.seconds, self.sent_bytes = 0.0, 0
        self.last: dict[str, object] = {}

    def take(self, seconds: float, event: dict[str, object]) -> bool:
        """Whether it is done; how it takes leave is not looked at."""
        sent_bytes = self.hosts.sent_bytes()
        if event["event"] == "warm":
            self.warm = (seconds, sent_bytes)
            return False
        self.seconds, self.sent_bytes = seconds - self.warm[0], sent_bytes - self.warm[1]
        self.last = event
        return True
