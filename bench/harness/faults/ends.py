"""What workers hold at the end of a run: the numbers of `--keep-state`, and in `shared` the messages that `--record` tells of."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NUMBER_BYTES = 4


def same_bits(files: Sequence[Path]) -> bool:
    first, *others = (path.read_bytes() for path in files)
    return all(other == first for other in others)


def largest_difference(files: Sequence[Path], numbers: int) -> float:
    """Of any of the first so many numbers, between any two workers. In `shared` these are the parameters; what updaters
    remember stands behind them, and every worker has its own."""
    states = []
    for path in files:
        state = array("f")
        state.frombytes(path.read_bytes()[: numbers * NUMBER_BYTES])
        states.append(state)
    # The largest difference of any two is that of the largest and the smallest.
    return max(max(together) - min(together) for together in zip(*states))


@dataclass(frozen=True)
class Applied:
    """The messages that are in a worker's state at the end."""

    last: dict[int, int]  # the number of the last one by incarnation, its own included
    took_over: bool  # it joined with the state of a peer, which does not name those who were lost before


def agree(workers: Sequence[Applied]) -> bool:
    """Whether all hold the same messages, as far as they can tell."""
    origins = {origin for worker in workers for origin in worker.last}
    for origin in origins:
        known = {worker.last[origin] for worker in workers if origin in worker.last}
        if len(known) > 1 or any(origin not in worker.last and not worker.took_over for worker in workers):
            return False
    return True


def applied(record: Path) -> Applied:
    """A new incarnation begins with nothing, or with what was in the state that it took over."""
    found: dict[int, int] = {}
    own, offered = 0, None
    with record.open() as lines:
        for line in lines:
            entry = json.loads(line)
            if "member" in entry:
                me = entry["member"]["Sharing"]["me"]
                found, own, offered = {}, 0, None
                continue
            event = entry["event"]
            if isinstance(event, dict) and "PeerSaid" in event:
                offered = _snapshot(event["PeerSaid"]) or offered
            elif isinstance(event, dict) and isinstance(event.get("Sharing"), dict) and "Stepped" in event["Sharing"]:
                own += event["Sharing"]["Stepped"]["bytes"] is not None
            for action in entry["actions"]:
                act = action.get("Sharing") if isinstance(action, dict) else None
                if not isinstance(act, dict):
                    continue
                if "Adopt" in act:
                    for origin, have in offered or ():
                        found[origin] = max(found.get(origin, 0), have["sequence"])
                elif "Apply" in act:
                    origin, sequence = act["Apply"]["origin"], act["Apply"]["sequence"]
                    found[origin] = max(found.get(origin, 0), sequence)
    last = {origin: last for origin, last in {**found, me: own}.items() if last}
    return Applied(dict(sorted(last.items())), offered is not None)


def _snapshot(said: list[object]) -> list[tuple[int, dict[str, int]]] | None:
    """The vector of a state that a peer sent."""
    for part in said:
        word = part.get("Sharing") if isinstance(part, dict) else None
        if isinstance(word, dict) and "Snapshot" in word:
            return word["Snapshot"]["vector"]
    return None
