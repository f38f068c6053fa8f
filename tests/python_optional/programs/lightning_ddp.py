# SPDX-License-Identifier: Apache-2.0
"""Lightning's DDP on two CPU processes: fit, validate, a checkpoint in the middle of an epoch. Each
rank writes what it saw. Loaders are made outside, before there are two processes, or by the model."""
import json
import logging
import warnings

import lightning
import torch
from torch.utils.data import DataLoader

import millrace as mr

N = 41
numbers = [(torch.full((3,), float(i)), i) for i in range(N)]
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def make(kind, training, predicts=False):
    """A drop_last that training wants drops no prediction."""
    if kind == "torch":
        return DataLoader(numbers, batch_size=4, shuffle=training)
    if kind == "drop_in":
        # Not in processes: gloo's threads enter Python after each step, and a fork of CPython 3.11 at
        # that moment never returns in the child, whoever forks.
        return mr.torch.DataLoader(numbers, batch_size=4, shuffle=training, num_workers=1, workers="threads",
                                   drop_last=predicts)
    pipeline = mr.dataset(numbers, names=["x", "y"]).batch(8).shuffle(training)
    pipeline = pipeline.remainder("keep" if predicts else "even")
    return pipeline.map_batch(lambda b: (b["x"], b["y"])).loader(seed=1, to="torch", threads=1)


class Model(lightning.LightningModule):
    def __init__(self, kind, place):
        super().__init__()
        self.layer, self.kind = torch.nn.Linear(3, 1), kind
        self.trained, self.validated = [], []
        if place == "inside":
            self.train_dataloader = lambda: make(kind, True)
            self.val_dataloader = lambda: make(kind, False)

    def training_step(self, batch, _):
        self.trained.append(batch[1].tolist())
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, _):
        if not self.trainer.sanity_checking:
            self.validated.append(batch[1].tolist())

    def predict_step(self, batch, *_):
        return batch[1].tolist()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-5)


class Stop(lightning.Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 4:
            trainer.save_checkpoint("saved.ckpt")
            raise KeyboardInterrupt


def loaders(kind, place):
    return [make(kind, True), make(kind, False)] if place == "outside" else []


def trainer(**options):
    return lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, **options)


def fit(kind, place, resume=None, **options):
    model, runs = Model(kind, place), trainer(**options)
    try:
        runs.fit(model, *loaders(kind, place), ckpt_path=resume, weights_only=False)
    except (KeyboardInterrupt, SystemExit):
        pass
    return model, runs


def overfit(kind, place):
    """Lightning turns shuffling off where a loader has a sampler; of a pipeline nobody can but its author."""
    model, runs = Model(kind, "outside" if kind == "native" else place), trainer(overfit_batches=2)
    runs.fit(model, make(kind, False)) if kind == "native" else runs.fit(model, *loaders(kind, place))
    return model.trained


CASES = [("torch", "outside"), ("drop_in", "outside"), ("native", "outside"), ("drop_in", "inside"),
         ("native", "inside")]


def main():
    found = {}
    for kind, place in CASES:
        whole, runs = fit(kind, place)
        validated = whole.validated[-len(whole.validated) // 2:]
        whole.validated = []
        runs.validate(whole, *loaders(kind, place)[1:], verbose=False)
        found[f"{kind} {place}"] = {"whole": whole.trained, "validated": validated,
                       "validated again": whole.validated,
                       "before": fit(kind, place, callbacks=[Stop()])[0].trained,
                       "after": fit(kind, place, "saved.ckpt")[0].trained}
        found[f"{kind} {place}"]["predicted"] = trainer().predict(whole, make(kind, False, predicts=True))
        overfits = overfit(kind, place)
        found[f"{kind} {place}"]["overfitted"] = overfits
        runs.strategy.barrier()
    with open(f"{runs.global_rank}.json", "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
