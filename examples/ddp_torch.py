# SPDX-License-Identifier: Apache-2.0
"""Two ranks on one machine (gloo), each reading its part of every batch. Nothing in the loader says
so: rank and world are found by themselves. With pad every rank takes the same number of steps, so
nobody waits for ever at the end of an epoch.

    python examples/ddp_torch.py photos
"""
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import millrace as mr

WORLD, EPOCHS = 2, 2


def train(rank: int, folder: str, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      WORLD_SIZE=str(WORLD))
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    loader = (mr.files(folder)
              .decode_image()
              .random_resized_crop(16)
              .normalize(mean=0.5, std=0.25)
              .batch(4)  # over both ranks: two samples each
              .remainder("pad")
              .loader(seed=1, to="torch", threads=1))
    model = DistributedDataParallel(nn.Sequential(
        nn.Flatten(), nn.Linear(3 * 16 * 16, len(loader.classes))))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = torch.zeros(loader.n_samples, dtype=torch.int64)
    for _ in range(EPOCHS):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            seen[torch.from_numpy(batch.samples[:batch.valid])] += 1
    dist.all_reduce(seen)
    if rank == 0:
        print(f"{len(loader)} steps an epoch on each of {loader.world} ranks; "
              f"every sample was seen {seen.min()} to {seen.max()} times in {EPOCHS} epochs")
        if seen.min() != EPOCHS or seen.max() != EPOCHS:
            raise SystemExit("samples were lost or repeated")
    loader.close()
    dist.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def main(folder: str) -> None:
    spawn(train, args=(folder, free_port()), nprocs=WORLD)


if __name__ == "__main__":
    main(*sys.argv[1:])
