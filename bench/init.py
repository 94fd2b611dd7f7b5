#!/usr/bin/env python3
"""Tables as they come, through `init`, `train`, `evaluate` and `predict` without an edit, beside scikit-learn on the same rows.

    python bench/init.py PACELINE [FOLDER]      # writes a table of Markdown; numpy, pandas and scikit-learn are needed

Four data sets of scikit-learn and three messy tables: sales with dates, prices and gaps, patients with a group of missing values and a
rare class, and a log with semicolons. Three quarters of the rows are the table; the rest is evaluated on, and never seen by `init`."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets
from sklearn.compose import make_column_transformer, make_column_selector
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

rng = np.random.default_rng(5)


def sales(rows=900):
    day = pd.to_datetime("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), unit="D")
    shop, size = rng.choice(["north", "south", "harbour"], rows), rng.lognormal(3, 0.5, rows)
    trend = (day - pd.to_datetime("2023-01-01")).days / 700
    amount = 40_000 + 9_000 * (shop == "harbour") + 12_000 * trend + 300 * size + rng.normal(0, 1_500, rows)
    frame = pd.DataFrame({"order_id": np.arange(rows), "day": day.strftime("%Y-%m-%d"), "shop": shop, "size": size.round(2), "amount": amount.round(2)})
    frame.loc[rng.random(rows) < 0.1, "size"] = np.nan
    return frame, "amount"


def patients(rows=800):
    age, marker = rng.normal(55, 12, rows), rng.normal(0, 1, rows)
    score = 0.06 * (age - 55) + 1.4 * marker + rng.normal(0, 0.7, rows)
    kind = np.where(score > 2.2, "severe", np.where(score > 0.3, "mild", "none"))
    frame = pd.DataFrame({"name": [f"p{at}" for at in range(rows)], "age": age.round(1), "marker": marker.round(3), "ward": rng.choice(["A", "B", ""], rows), "constant": 1, "diagnosis": kind})
    frame.loc[rng.random(rows) < 0.15, "marker"] = np.nan
    return frame, "diagnosis"


def log(rows=1000):
    seconds, code = 1_700_000_000 + rng.integers(0, 86_400, rows), rng.choice([200, 404, 500], rows, p=[0.8, 0.15, 0.05])
    bytes_sent, agent = rng.lognormal(7, 1, rows), rng.choice(["app", "bot", "web"], rows, p=[0.5, 0.2, 0.3])
    slow = (bytes_sent > 1_500) & (agent != "bot") | (code == 500)
    frame = pd.DataFrame({"when": seconds, "code": code, "bytes": bytes_sent.astype(int), "agent": agent, "slow": np.where(slow, "yes", "no")})
    return frame, "slow"


def of_sklearn(name):
    data = getattr(datasets, f"load_{name}")(as_frame=True)
    frame = data.frame.copy()
    if hasattr(data, "target_names") and name != "diabetes":
        frame["target"] = [str(data.target_names[at]) for at in frame["target"]]
    return frame, "target"


TABLES = {
    "iris": lambda: of_sklearn("iris"), "wine": lambda: of_sklearn("wine"), "breast_cancer": lambda: of_sklearn("breast_cancer"),
    "diabetes": lambda: of_sklearn("diabetes"), "sales (dates, gaps)": sales, "patients (gaps, keys)": patients, "log (semicolons)": log,
}


def beside(train, test, label):
    """What scikit-learn's network of the same size gets with imputation, scaling and one-hot columns written by hand."""
    frames = [frame.drop(columns=label).copy() for frame in (train, test)]
    for frame in frames:
        frame.drop(columns=[name for name in ("order_id", "name", "constant") if name in frame], inplace=True)
        if "day" in frame:
            frame["day"] = (pd.to_datetime(frame["day"]) - pd.to_datetime("1970-01-01")).dt.days
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include=np.number)),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude=np.number)),
    )
    is_number = pd.api.types.is_numeric_dtype(train[label])
    network = (MLPRegressor if is_number else MLPClassifier)(hidden_layer_sizes=(64, 32), max_iter=500, early_stopping=not is_number, random_state=1)
    target, wanted = train[label], test[label]
    middle, spread = (target.mean(), target.std()) if is_number else (0, 1)
    fitted = make_pipeline(columns, network).fit(frames[0], (target - middle) / spread if is_number else target)
    told = fitted.predict(frames[1])
    return r2_score(wanted, told * spread + middle) if is_number else accuracy_score(wanted, told)


def run(program, folder, *arguments):
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def main():
    program = str(Path(sys.argv[1]).resolve())
    print("| table | rows | figure | Paceline | scikit-learn | predictions agree with `evaluate` |\n|---|---|---|---|---|---|")
    for name, table in TABLES.items():
        frame, label = table()
        stratify = None if pd.api.types.is_numeric_dtype(frame[label]) else frame[label]
        train, test = train_test_split(frame, test_size=0.25, random_state=3, stratify=stratify)
        with tempfile.TemporaryDirectory() as folder:
            by = ";" if "semicolons" in name else ","
            train.to_csv(f"{folder}/table.csv", index=False, sep=by)
            test.to_csv(f"{folder}/later.csv", index=False, sep=by)
            source = "csv:table.csv?delimiter=;" if by == ";" else "table.csv"
            later = "csv:later.csv?delimiter=;" if by == ";" else "csv:later.csv"
            run(program, folder, "init", source, "--output", "table.toml")
            run(program, folder, "train", "table.toml", "--events", "none")
            told = json.loads(run(program, folder, "evaluate", "runs/table/model.safetensors", "--data", later, "--json"))
            run(program, folder, "predict", "runs/table/model.safetensors", "--data", later, "--output", "said.csv")
            said = pd.read_csv(f"{folder}/said.csv")
            if stratify is None:
                own, figure = told["report"]["average"]["r2"], "R²"
                again = r2_score(test[label], said[label])
            else:
                own, figure = told["report"]["accuracy"], "accuracy"
                again = accuracy_score(test[label].astype(str), said["prediction"].astype(str))
            agrees = "yes" if abs(own - again) < 1e-5 else f"no: {again:.5f}"
            print(f"| {name} | {len(train)} + {len(test)} | {figure} | {own:.4f} | {beside(train, test, label):.4f} | {agrees} |", flush=True)


if __name__ == "__main__":
    main()
