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
SHORT_STEPS, LEAST_STEPS, MOST_STEPS = 3, 6, 1000
OWN_CLOCK_MAY_DIFFER = 0.1


@dataclass(frozen=True)
class Rate:
    """One turn of one side."""

    examples_per_second: float | None  # none where noise swallowed the difference of two runs, or with trouble
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
    """A mode of ours; `frequency` is that of averaging."""

    cluster: Cluster
    window: Window
    parameters: int  # that it must have, to be the network of the peer
    mode: str
    frequency: int | None = None

    @property
    def name(self) -> str:
        return self.mode if self.frequency is None else f"{self.mode}-{self.frequency}"

    @property
    def title(self) -> str:
        return self.mode if self.frequency is None else f"{self.mode}, every {self.frequency} steps"

    def turn(self, at: Bandwidth) -> Rate:
        settings = () if self.frequency is None else (f"train.mode.averaging.frequency={self.frequency}",)
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
    """`peers/pytorch/ddp.py`: one rank on each host, by the difference of a long and a short run."""

    python: Path
    hosts: Hosts
    case: Case
    job: Job
    seconds: float  # that a long run is to take more than a short one
    parameters: int = 0
    name = PEER
    title = "PyTorch DDP"

    def warm(self) -> Ddp:
        """A run that is not counted: files are read from disk once, and the parameters are counted."""
        return replace(self, parameters=int(self.train(UNSHAPED, SHORT_STEPS)[0]["parameters"]))

    def turn(self, at: Bandwidth) -> Rate:
        steps = self.steps(at)
        _, short_seconds, short_bytes = self.train(at, SHORT_STEPS)
        event, long_seconds, long_bytes = self.train(at, SHORT_STEPS + steps)
        examples, seconds = steps * BATCH * PROCESSES, long_seconds - short_seconds
        rate = examples / seconds if seconds > 0 else None
        own = 1000 * BATCH * PROCESSES / float(event["own_clock_ms"])
        return Rate(rate, (long_bytes - short_bytes) / examples, seconds, own)

    def steps(self, at: Bandwidth) -> int:
        """As many as fit into the time if nothing but the cable and the arithmetic takes any."""
        cable = 0.0 if at.bits is None else 8 * BYTES_OF_A_PARAMETER * self.parameters / at.bits
        return max(LEAST_STEPS, min(MOST_STEPS, round(self.seconds / (PEER_STEP_SECONDS + cable))))

    def train(self, at: Bandwidth, steps: int) -> tuple[dict[str, object], float, int]:
        """What it told last, seconds, and bytes on the cable."""
        options = pytorch_options(self.case, self.job, "eager", BATCH)
        options += ["--steps", str(steps), "--warm-steps", str(SHORT_STEPS - 1)]
        launches = [
            replace(
                launch,
                command=[*self.hosts.enter(rank), *launch.command],
                environment={**launch.environment, "GLOO_SOCKET_IFNAME": INTERFACE},
                cores=frozenset({two_cores()[rank]}),
            )
            for rank, launch in enumerate(ddp_launches(self.python, options, f"network-{at.name}-ddp-{steps}"))
        ]
        before = self.hosts.sent_bytes()
        ranks = run_together(launches)
        sent = self.hosts.sent_bytes() - before
        event = trained(self.title, ranks[0], steps * BATCH * PROCESSES).event
        return event, max(rank.seconds for rank in ranks), sent
