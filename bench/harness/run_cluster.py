"""A program of its own: a master and its workers, which end together; prints the events of the master.

It is one child of the bench, in a process group of its own, so that all of it can be stopped and let go on at once.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("binary")
    parser.add_argument("master", nargs=argparse.REMAINDER, help="what the master is told")
    options = parser.parse_args()
    command = [options.binary, "master", *options.master, "--min-workers", str(options.workers)]
    # Whoever is stopped while others have their turn has not gone.
    command += ["--silence-limit", "60", "--status", "none", "--events", "json"]
    master = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    workers: list[subprocess.Popen[bytes]] = []
    for line in master.stdout or ():
        print(line, end="", flush=True)
        event = json.loads(line)
        if event["event"] == "listening":
            join = [options.binary, "worker", "--join", event["address"], "--slots", str(options.slots), "--events", "none"]
            workers += [subprocess.Popen(join) for _ in range(options.workers)]
        elif event["event"] == "worker_lost":
            print(f"a worker was lost: {event['reason']}", file=sys.stderr)
            master.kill()
    return max([master.wait(), *(worker.wait() for worker in workers)])


if __name__ == "__main__":
    sys.exit(main())
