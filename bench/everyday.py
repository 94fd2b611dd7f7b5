"""What a newcomer does, beside scikit-learn: small tables, cross-validation, a search, and a table of 5 GB, packed and as Parquet.

`python bench/everyday.py tables|folds|search|large --venv target/bindings` keeps its figures under `bench/runs/`.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import json
import os
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACELINE = ROOT / "target/release/paceline"
HIDDEN = 100
EPOCHS = 200


def run(*arguments: str, folder: Path, quiet: bool = False) -> list[dict]:
    """Runs the command line, and gives its events."""
    command = [str(PACELINE), *arguments, "--events", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def write_table(path: Path, rows, targets, names) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{column}" for column in range(rows.shape[1])), "target"])
        for row, target in zip(rows, targets, strict=True):
            writer.writerow([*(repr(float(value)) for value in row), names[target] if names is not None else repr(float(target))])


def job(source: str, is_classes: bool, test: str = "") -> str:
    """The network and the optimiser of `MLPClassifier` and `MLPRegressor`, with their defaults."""
    data = f'train = "csv:{source}?label=target"\nbatch = 32\nnormaliser = "standardise"\n{test}'
    if not is_classes:
        data += 'target_normaliser = "standardise"\n'
    return f"""[data]
{data}
[network]
input = "auto"
weight_init = "xavier"
l2 = 1e-4
updater = {{ adam = {{ learning_rate = 0.001 }} }}
layers = [{{ dense = {{ units = {HIDDEN}, activation = "relu" }} }}, {{ output = {{ units = "auto" }} }}]

[train]
epochs = {EPOCHS}
"""


def peer(is_classes: bool, seed: int):
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    same = dict(hidden_layer_sizes=(HIDDEN,), batch_size=32, max_iter=EPOCHS, n_iter_no_change=EPOCHS, tol=0, random_state=seed)
    if is_classes:
        return make_pipeline(StandardScaler(), MLPClassifier(**same))
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), MLPRegressor(**same)), transformer=StandardScaler())


def tables(seeds: int) -> list[str]:
    """Four tables of scikit-learn, from CSV, five splits and seeds."""
    import warnings

    from sklearn import datasets
    from sklearn.model_selection import train_test_split

    warnings.simplefilter("ignore")
    lines = ["| data | figure | Paceline | scikit-learn | difference |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("iris", "wine", "breast_cancer", "diabetes"):
            loaded = getattr(datasets, f"load_{name}")()
            is_classes = name != "diabetes"
            names = list(loaded.target_names) if is_classes else None
            ours, theirs = [], []
            for seed in range(seeds):
                parts = train_test_split(
                    loaded.data, loaded.target, test_size=0.25, random_state=seed, stratify=loaded.target if is_classes else None
                )
                x_train, x_test, y_train, y_test = parts
                write_table(folder / "train.csv", x_train, y_train, names)
                write_table(folder / "test.csv", x_test, y_test, names)
                (folder / "job.toml").write_text(job("train.csv", is_classes, 'test = "csv:test.csv?label=target"\n'))
                events = run("train", "job.toml", "--overwrite", "--set", f"network.seed={seed}", folder=folder)
                judged = [event for event in events if event["event"] == "evaluation"][-1]
                ours.append(judged["accuracy" if is_classes else "r2"])
                theirs.append(peer(is_classes, seed).fit(x_train, y_train).score(x_test, y_test))
            pair = [f"{statistics.mean(of):.4f} ± {statistics.stdev(of):.4f}" for of in (ours, theirs)]
            apart = statistics.mean(ours) - statistics.mean(theirs)
            lines.append(f"| {name} | {'accuracy' if is_classes else 'R²'} | {pair[0]} | {pair[1]} | {apart:+.4f} |")
            print(lines[-1], flush=True)
    return lines


def folds() -> list[str]:
    """`train --cv 5`, and a loop of scikit-learn over the same folds with the Python package: the same bits."""
    import warnings

    import numpy as np
    import paceline as pl
    from sklearn import datasets
    from sklearn.model_selection import PredefinedSplit

    warnings.simplefilter("ignore")
    lines = ["| data | fold | `train --cv 5` | a loop over `PredefinedSplit` | `MLPClassifier` |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("iris", "wine", "breast_cancer"):
            loaded = getattr(datasets, f"load_{name}")()
            names = list(loaded.target_names)
            write_table(folder / "all.csv", loaded.data, loaded.target, names)
            (folder / "job.toml").write_text(job("all.csv", True, "stratified = true\n"))
            run("train", "job.toml", "--cv", "5", "--output", f"runs/{name}", folder=folder)
            told = json.loads((folder / f"runs/{name}/cross-validation.json").read_text())
            with (folder / f"runs/{name}/out-of-fold.csv").open() as file:
                fold_of = [int(row["fold"]) for row in csv.DictReader(file)]
            data = pl.Data.open(f"csv:{folder / 'all.csv'}?label=target")
            rows, labels = data.features(), data.targets()
            sums: list[list[float]] = []
            for number, (train, test) in enumerate(PredefinedSplit(fold_of).split()):
                classes = list(data.classes)
                part = pl.Data.from_arrays(rows[train], labels[train], classes=classes)
                judged = pl.Data.from_arrays(rows[test], labels[test], classes=classes)
                network = pl.Network(
                    [pl.layers.dense(HIDDEN, activation="relu"), pl.layers.output(part.outputs)],
                    input=part, weight_init="xavier", l2=1e-4, updater=pl.adam(0.001),
                )
                trainer = pl.Trainer(network, epochs=EPOCHS, batch=32, normaliser="standardise", progress=False)
                loop = trainer.fit(part, judged).scores
                ours = told["folds"][number]
                same = np.isclose(ours["accuracy"], loop["accuracy"], atol=0) and ours["score"] == loop["score"]
                other = peer(True, 0).fit(rows[train], labels[train]).score(rows[test], labels[test])
                sums.append([ours["accuracy"], loop["accuracy"], other])
                figures = f"{ours['accuracy']:.4f} (loss {ours['score']:.6f}) | {loop['accuracy']:.4f} ({'same bits' if same else loop['score']})"
                lines.append(f"| {name} | {number + 1} | {figures} | {other:.4f} |")
            means = " | ".join(f"{np.mean(column):.4f} ± {np.std(column):.4f}" for column in zip(*sums, strict=True))
            lines.append(f"| {name} | all | {means} |")
            print("\n".join(lines[-6:]), flush=True)
    return lines


def search(seconds: int) -> list[str]:
    """`tune` on the built-in digits: whole, and killed in the middle and resumed."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        events = run("tune", "--metric", "accuracy", "--seconds", str(seconds), "--output", "whole", folder=folder)
        took = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) / took
        trials = [event for event in events if event["event"] == "trial"]
        own = next(trial for trial in trials if trial["trial"] == 0)
        best = events[-1]["best"]
        lines = [
            f"- {took:.1f} s, {len(trials)} trials, {busy:.2f} of {os.cpu_count()} cores busy",
            f"- the given job: accuracy {own['value']:.4f}; the best, trial {best['trial']}: {best['value']:.4f} with {json.dumps(best['values'])}",
        ]
        command = [str(PACELINE), "tune", "--metric", "accuracy", "--trials", "24", "--output", "killed", "--events", "json"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        first = []
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "trial":
                first.append(event["trial"])
            if len(first) == 8:
                process.send_signal(signal.SIGKILL)
                break
        process.wait()
        events = run("tune", "--metric", "accuracy", "--trials", "24", "--output", "killed", "--resume", folder=folder)
        rest = [event["trial"] for event in events if event["event"] == "trial"]
        again = sorted(set(first) & set(rest))
        lines.append(f"- killed behind {len(first)} of 24 trials and resumed: {len(rest)} more, repeated: {again or 'none'}")
        assert sorted([*first, *rest]) == list(range(24)) and not again
    print("\n".join(lines))
    return lines


def large(gigabytes: float) -> list[str]:
    """A table that is larger than memory may be: packed CSV, and the same rows as Parquet."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    columns = 20
    lines = []
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as place:
        folder = Path(place)
        rng = np.random.default_rng(1)
        size = rows = 0
        names = [f"x{column}" for column in range(columns)]
        packer = subprocess.Popen(["gzip", "-1", "-c"], stdin=subprocess.PIPE, stdout=(folder / "large.csv.gz").open("wb"))
        writer = None
        while size < gigabytes * 1e9:
            block = rng.standard_normal((200_000, columns)).astype(np.float32)
            wanted = np.where(block[:, 0] + block[:, 1] * block[:, 2] > 0, "yes", "no")
            table = pa.table([*(block[:, column] for column in range(columns)), wanted], names=[*names, "target"])
            text = pa.BufferOutputStream()
            pyarrow.csv.write_csv(table, text, pyarrow.csv.WriteOptions(include_header=rows == 0))
            text = text.getvalue()
            packer.stdin.write(text)
            size, rows = size + len(text), rows + len(block)
            writer = writer or pyarrow.parquet.ParquetWriter(folder / "large.parquet", table.schema)
            writer.write_table(table, row_group_size=100_000)
        packer.stdin.close()
        packer.wait()
        writer.close()
        on_disk = [(folder / name).stat().st_size / 1e9 for name in ("large.csv.gz", "large.parquet")]
        lines.append(f"- {rows} rows of {columns} numbers and a class: {size / 1e9:.2f} GB of CSV, {on_disk[0]:.2f} GB packed, {on_disk[1]:.2f} GB as Parquet")
        print(lines[-1], flush=True)
        lines += ["", "| data | inspected, s | trained for an epoch, s | of which the epoch, s | peak memory, MiB |", "|---|---|---|---|---|"]
        for name, spec in (("CSV, gzip", "csv:large.csv.gz?label=target"), ("Parquet", "parquet:large.parquet?label=target")):
            figures = []
            for command in (["data", "inspect", spec], ["train", "job.toml", "--overwrite", "--events", "json"]):
                text = job("large", True).replace("csv:large?label=target", spec).replace("epochs = 200", "epochs = 1").replace("batch = 32", "batch = 4096")
                (folder / "job.toml").write_text(text)
                began = time.monotonic()
                timed = ["/usr/bin/time", "-f", "%M", "-o", "memory", str(PACELINE), *command]
                done = subprocess.run(timed, cwd=folder, capture_output=True, text=True)
                if done.returncode != 0:
                    sys.exit(done.stderr)
                figures.append((time.monotonic() - began, int((folder / "memory").read_text()) / 1024, done.stdout))
            epoch = next(event["seconds"] for event in map(json.loads, figures[1][2].splitlines()) if event["event"] == "epoch")
            lines.append(f"| {name} | {figures[0][0]:.1f} | {figures[1][0]:.1f} | {epoch:.1f} | {max(figures[0][1], figures[1][1]):.0f} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    global PACELINE
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["tables", "folds", "search", "large"])
    parser.add_argument("--binary", type=Path, default=PACELINE)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    asked = parser.parse_args()
    PACELINE = asked.binary.resolve()
    lines = {
        "tables": lambda: tables(asked.seeds),
        "folds": folds,
        "search": lambda: search(asked.seconds),
        "large": lambda: large(asked.gigabytes),
    }[asked.what]()
    number = 1
    while (kept := ROOT / f"bench/runs/{datetime.date.today()}-{asked.what}-{number}").exists():
        number += 1
    kept.mkdir(parents=True)
    machine = f"{os.cpu_count()} cores, {subprocess.run([str(PACELINE), '--version'], capture_output=True, text=True).stdout.strip()}"
    (kept / "table.md").write_text(f"# {asked.what}\n\n{machine}, {datetime.date.today()}.\n\n" + "\n".join(lines) + "\n")
    print(f"kept in {kept.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
