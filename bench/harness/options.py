"""What options of several commands have in common."""

from __future__ import annotations

import argparse


def at_least_one(text: str) -> int:
    """A number for `argparse` that makes sense as a count of repeats."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text}")
    return int(text)
