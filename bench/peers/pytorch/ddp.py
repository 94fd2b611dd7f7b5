"""The PyTorch DDP peer: one of several processes that train one network together over gloo.

The harness starts one for each rank. They find each other by a file and talk over loopback; rank 0 prints the events.
"""

from pathlib import Path

import torch.distributed as distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import Place, Training, parser


def wrap(model: nn.Module) -> nn.Module:
    # The settings that spare work: gradients live in the buckets that are sent, and there is nothing to search for.
    return DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--rank", type=int, required=True)
    options.add_argument("--processes", type=int, required=True)
    options.add_argument("--rendezvous", type=Path, required=True, help="a file that does not exist yet")
    chosen = options.parse_args()
    distributed.init_process_group(
        "gloo", init_method=f"file://{chosen.rendezvous}", rank=chosen.rank, world_size=chosen.processes
    )
    Training(chosen, Place(chosen.rank, chosen.processes, wrap)).run()
    distributed.barrier()  # nobody leaves before rank 0 has told its end: gloo may abort a process whose peer leaves
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
