# SPDX-License-Identifier: Apache-2.0
"""Workers of Ray Train, and plain actors, that share one dataset through a Redis server.

    python examples/ray_train.py PHOTOS [redis://HOST]

Ray Train sets the variables that torchrun sets, so a loader finds rank and world by itself; an actor is told. What one
worker has read the others take from the server, in every epoch and in later runs.
"""
import importlib
import os
import sys

import ray

import millrace as mr


def samples(folder, fabric, epochs=2, **place):
    """The samples of each epoch that this rank was given, and how many bytes it read from files."""
    pipeline = mr.files(folder).decode_image().resize((32, 32)).normalize().batch(4).remainder("drop")
    with pipeline.loader(seed=1, epochs=epochs, fabric=fabric, **place) as loader:
        seen = [int(sample) for batch in loader.all_epochs() for sample in batch.samples]
        return loader.rank, seen, loader.stats()["bytes_read"]


@ray.remote
class Reader:
    """An actor: rank and world are what it is told."""

    def __init__(self, rank, world):
        self.place = {"rank": rank, "world": world}

    def read(self, folder, fabric):
        return samples(folder, fabric, **self.place)


def with_actors(folder, fabric, world=2):
    readers = [Reader.remote(rank, world) for rank in range(world)]
    return ray.get([reader.read.remote(folder, fabric) for reader in readers])


def train_loop(config):
    from ray import train
    context = train.get_context()
    place = {"rank": context.get_world_rank(), "world": context.get_world_size()}
    rank, seen, read = samples(config["folder"], config["fabric"], **place)
    with open(os.path.join(config["out"], f"rank.{rank}"), "w", encoding="utf-8") as file:
        file.write(f"{len(seen)} {read}")
    train.report({"samples": len(seen)})


def with_train(folder, fabric, out, world=2):
    from ray.train import RunConfig, ScalingConfig
    try:  # what TorchTrainer and others are made of, without a framework
        from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    except ImportError:
        from ray.train.data_parallel_trainer import DataParallelTrainer
    trainer = DataParallelTrainer(train_loop, train_loop_config={"folder": folder, "fabric": fabric, "out": out},
                                  scaling_config=ScalingConfig(num_workers=world, resources_per_worker={"CPU": 0.1}),
                                  run_config=RunConfig(storage_path=out))
    trainer.fit()
    for rank in range(world):
        with open(os.path.join(out, f"rank.{rank}"), encoding="utf-8") as file:
            n, read = file.read().split()
            print(f"Ray Train, rank {rank}: {n} samples, {read} bytes read from files")


def main():
    folder = os.path.abspath(sys.argv[1])
    fabric = sys.argv[2] if len(sys.argv) > 2 else None
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    ranks = with_actors(folder, fabric)
    for rank, seen, read in ranks:
        print(f"actor, rank {rank}: {len(seen)} samples, {read} bytes read from files")
    together = sorted(sample for _, seen, _ in ranks for sample in seen)
    print(f"together {len(together)} samples, {len(set(together))} different ones")
    try:
        importlib.import_module("ray.train")  # needs more packages than Ray itself
    except ImportError as error:
        print(f"no Ray Train: {error}")
    else:
        with_train(folder, fabric, os.getcwd())
    ray.shutdown()


if __name__ == "__main__":
    main()
