#!/usr/bin/env python3
"""The perplexity of `examples/lstm-text.toml` beside that of the same network in PyTorch, on the same text.

The pages of `docs/` are cut at nine tenths: what lies before is learned, what lies behind is judged.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
JOB = ROOT / "examples" / "lstm-text.toml"
STEPS, BATCH, EPOCHS, RATE, CLIP = 100, 32, 10, 0.003, 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target" / "release" / "paceline")
    parser.add_argument("--output", type=Path, required=True, help="a folder for the runs and what they came to")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(2)
    text = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
    cut = len(text) * 9 // 10
    known = set(text[:cut])
    learned, judged = text[:cut], "".join(character for character in text[cut:] if character in known)
    files = {"train": options.output / "train.txt", "test": options.output / "test.txt"}
    files["train"].write_text(learned, encoding="utf-8")
    files["test"].write_text(judged, encoding="utf-8")
    ours = [paceline(options, files, seed) for seed in range(options.seeds)]
    theirs = [pytorch(learned, judged, seed) for seed in range(options.seeds)]
    found = {
        "characters": {"learned": len(learned), "judged": len(judged), "different": len(known)},
        "perplexity": {"paceline": ours, f"pytorch {torch.__version__}": theirs},
        "ratio of the means": statistics.mean(ours) / statistics.mean(theirs),
    }
    (options.output / "perplexity.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def paceline(options: argparse.Namespace, files: dict[str, Path], seed: int) -> float:
    settings = [f"data.train=text:{files['train']}?steps={STEPS}", f"data.test=text:{files['test']}?steps={STEPS}"]
    settings += [f"network.seed={seed}", f"train.epochs={EPOCHS}"]
    command = [options.binary, "train", JOB, "--output", options.output / f"seed-{seed}", "--overwrite", "--events", "json"]
    command += [part for setting in settings for part in ("--set", setting)]
    ran = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"error: {ran.stderr.strip()}")
    return math.exp(json.loads(ran.stdout.strip().splitlines()[-1])["score"])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.output = nn.Embedding(128, 32), nn.LSTM(32, 128, batch_first=True), nn.Linear(128, 128)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(self.embedding(x))[0])


def windows(numbers: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    whole = (len(numbers) - 1) // STEPS * STEPS
    return numbers[:whole].reshape(-1, STEPS), numbers[1 : whole + 1].reshape(-1, STEPS)


def pytorch(learned: str, judged: str, seed: int) -> float:
    torch.manual_seed(seed)
    place = {character: at for at, character in enumerate(sorted(set(learned)))}
    (x, y), (x_test, y_test) = (windows(torch.tensor([place[c] for c in text])) for text in (learned, judged))
    net = Net()
    optimiser = torch.optim.Adam(net.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(x)).split(BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(x[chosen]).transpose(1, 2), y[chosen]).backward()
            nn.utils.clip_grad_value_(net.parameters(), CLIP)
            optimiser.step()
    with torch.inference_mode():
        return math.exp(nn.functional.cross_entropy(net(x_test).transpose(1, 2), y_test).item())


if __name__ == "__main__":
    main()
