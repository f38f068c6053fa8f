# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that torchrun starts: prints what each loader gives it, epoch by epoch."""
import json

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

import millrace as mr

N, EPOCHS = 101, 3
numbers = list(range(N))


def drop_in(**options):
    return mr.torch.DataLoader(numbers, batch_size=4, shuffle=True, **options)


def epochs_of(loader):
    found = []
    for epoch in range(EPOCHS):
        getattr(getattr(loader, "sampler", None), "set_epoch", lambda _: None)(epoch)
        found.append([batch.tolist() for batch in loader])
    return {"len": len(loader), "epochs": found}


def native():
    return mr.dataset(numbers).batch(12).map_batch(lambda b: b["data"])


def main():
    loaders = {"drop_in before": drop_in(), "native before": native().loader(seed=1, to="torch")}
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank() + 100)  # ranks that differ in it must not differ in the order
    loaders.update({"drop_in": drop_in(), "native": native().loader(seed=1, to="torch"),
                    "sampler": drop_in_with(DistributedSampler(numbers, seed=3)),
                    "torch": DataLoader(numbers, batch_size=4,
                                        sampler=DistributedSampler(numbers, seed=3))})
    found = {name: epochs_of(loader) for name, loader in loaders.items()}
    for n in (3, *range(90, 102)):
        for drop_last in (False, True) if n > 3 else (False,):
            found.update(sizes(list(range(n)), drop_last))
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if dist.get_rank() == 0:
        print(json.dumps(every))
    dist.destroy_process_group()


def sizes(samples, drop_last):
    """Of a rank's batches, by torch's loader with its sampler and by the drop-in."""
    made = {"torch": DataLoader(samples, batch_size=4, drop_last=drop_last, sampler=DistributedSampler(samples)),
            "drop_in": mr.torch.DataLoader(samples, batch_size=4, drop_last=drop_last, shuffle=True)}
    return {f"{kind}{' drop_last' if drop_last else ''} {len(samples)}": [len(batch) for batch in loader]
            for kind, loader in made.items()}


def drop_in_with(sampler):
    return mr.torch.DataLoader(numbers, batch_size=4, sampler=sampler)


if __name__ == "__main__":
    main()
