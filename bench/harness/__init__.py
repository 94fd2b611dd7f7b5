"""What the scripts in `bench/` are made of.

# Layout

- `case`: the networks, their step counts and bars; what a job file says that the peers must know.
- `dataset`, `mnist`: seeded random bytes in IDX files; real MNIST.
- `toolchain`: our release binary, and what the peers need.
- `child`: child processes on chosen cores, their wall time, peak memory and events.
- `interleave`: sides that take turns, the arithmetic of a step's time.
- `tables`: Markdown, verdicts, and the folders under `bench/runs/`.
- `machine`: what the figures were taken on.

One core (`run.py`): `sides` (the command lines), `measure` (the probe, the repeats), `report`, and `kernels` (the
micro-benchmarks of our own kernels).

Two cores: `teams` (ours) and `peers` (theirs) are the command lines; `contest` is `parallel.py`, `scaling` is `scaling.py`;
`marks` (time to accuracy) and `examples` (accuracy of the example jobs) are `accuracy.py`.

Two hosts (`network.py`): `hosts` (the namespaces and the cable between them), `cluster` (our master and workers on them), `cable`
(the sides: ours and DDP), `network` (the repeats, the bars), `curves` (the picture). `svg` is what both pictures share.

Faults (`faults.py`): the folder `faults`, which has a map of its own.
"""
