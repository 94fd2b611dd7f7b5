"""Sides that take turns many times a second, each stopped while the others run: all see the same machine."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence

from .child import Child, Finished, Launch

SECONDS = 0.2


def run_in_slices(sides: Mapping[str, Sequence[Launch]]) -> dict[str, list[Finished]]:
    """Run all sides to the end, one at a time; the children of a side run side by side.

    A failure of one ends all, and the bench with its last lines.
    """
    running: dict[str, list[Child]] = {name: [] for name in sides}
    try:
        for name, launches in sides.items():
            for launch in launches:
                child = Child(launch, None)
                running[name].append(child)
                child.pause()
                threading.Thread(target=child.wait, daemon=True).start()
        # Nobody comes after the same one every time, or is in the cache because it has just run.
        order = random.Random(0)
        while left := [name for name, children in running.items() if not all(child.over.is_set() for child in children)]:
            for name in order.sample(left, len(left)):
                _take_turn([child for child in running[name] if not child.over.is_set()])
    finally:
        for child in (child for children in running.values() for child in children):
            child.kill()
    return {name: [child.finished() for child in children] for name, children in running.items()}


def _take_turn(children: Sequence[Child]) -> None:
    for child in children:
        child.go_on()
    end = time.perf_counter() + SECONDS
    for child in children:
        child.over.wait(max(0.0, end - time.perf_counter()))
    for child in children:
        child.pause()
    for child in (child for child in children if child.over.is_set()):
        child.check()
