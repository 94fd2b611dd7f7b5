"""What `bench/run.py` is made of.

# Layout

- `case`: the networks, their step counts and bars; what a job file says that the peer must know.
- `dataset`: seeded random bytes in IDX files.
- `toolchain`: the peer's venv and our release binary.
- `child`: one pinned child process, its wall time and peak memory.
- `sides`: the command line of each side.
- `measure`: the probe, the interleaved repeats, the arithmetic.
- `machine`: what the figures were taken on.
- `report`: the table and the files under `bench/runs/`.
- `kernels`: the micro-benchmarks of our own kernels.
"""
