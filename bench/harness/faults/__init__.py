"""What faults do to a run (`faults.py`): real processes, real signals, hosts that lose each other.

# Layout

- `crew`: a master and its workers as processes, the events that they tell and when; everything ends with it.
- `stage`: what all cases share: how a run is started, how long it must last, how its end is judged.
- `outcome`: figures and checks of one case in one mode, and the tables made of them.
- `ends`: what workers hold at the end (`--keep-state`, `--record`), compared.
- `routed`: three hosts behind a router that drops what it is told to drop.
- `ensemble`: three ZooKeeper servers.
- `strangers`: connections that nobody asked for.

One file for each case, each with `run(stage, mode, ...)`: `calm`, `stopped`, `reset`, `restart`, `standby`, `old_master`,
`partition`, `garbage`.
"""
