# SPDX-License-Identifier: Apache-2.0
"""Trains a small CNN on a folder of class folders, saves everything in the middle of an epoch, and
goes on from there in a fresh loader: the losses are those of the run that was never interrupted.

    python examples/train_torch.py photos
"""
import sys

import torch
from torch import nn

import millrace as mr


def make_loader(folder: str, epochs: int = 3) -> mr.Loader:
    return (mr.files(folder)
            .decode_image()
            .random_resized_crop(32)
            .random_flip()
            .normalize(mean=mr.IMAGENET_MEAN, std=mr.IMAGENET_STD)
            .batch(4)
            .loader(seed=1, epochs=epochs, to="torch"))


def make_model(n_classes: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2),
                         nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, n_classes))


class Training:
    """A model, its optimiser and its data, which are saved and restored together."""

    def __init__(self, folder: str):
        self.loader = make_loader(folder)
        self.model = make_model(len(self.loader.classes))
        self.optimiser = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)

    def step(self, batch: mr.Batch) -> float:
        loss = nn.functional.cross_entropy(self.model(batch["image"]), batch["label"])
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()

    def save(self, path: str) -> None:
        torch.save({"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict(),
                    "data": self.loader.state_dict()}, path)

    def restore(self, path: str) -> None:
        saved = torch.load(path)
        self.model.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        self.loader.load_state_dict(saved["data"])


def main(folder: str, path: str = "checkpoint.pt") -> None:
    torch.use_deterministic_algorithms(True)
    whole = Training(folder)
    losses = [whole.step(batch) for batch in whole.loader.all_epochs()]

    first = Training(folder)
    stop = len(losses) // 2
    resumed = [first.step(next(first.loader)) for _ in range(stop)]
    first.save(path)

    second = Training(folder)
    second.restore(path)
    resumed += [second.step(batch) for batch in second.loader.all_epochs()]

    for step, (a, b) in enumerate(zip(losses, resumed)):
        print(f"step {step:3d}  loss {a:.6f}  after the restart {b:.6f}")
    if losses != resumed:
        raise SystemExit("the runs differ")
    print("identical")


if __name__ == "__main__":
    main(*sys.argv[1:])
