"""The command line: `paceline …`, or `python -m paceline …`."""

import sys

from paceline import _native


def main() -> int:
    return _native.command(["paceline", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
