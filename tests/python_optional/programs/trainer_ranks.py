# SPDX-License-Identifier: Apache-2.0
"""One rank of Hugging Face's Trainer under torchrun: what its model saw in training and evaluation, with
torch's own loader and with ours."""
import json
import sys
import warnings

import torch
import torch.distributed as dist
import transformers
from torch.utils.data import DataLoader

import millrace as mr

N = 41
ROWS = [{"x": torch.full((3,), float(i)), "labels": i} for i in range(N)]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(3, 1), []

    def forward(self, x, labels):
        self.seen.append(labels.tolist())
        return {"loss": self.layer(x).square().mean(), "logits": labels}


def loader(kind, training):
    if kind == "drop_in":
        return mr.torch.DataLoader(ROWS, batch_size=4, shuffle=training, num_workers=1)
    pipeline = mr.dataset(ROWS).batch(8).shuffle(training)
    return pipeline.map_batch(dict).loader(seed=1, to="torch", threads=1)


class Trainer(transformers.Trainer):
    kind = "torch"

    def get_train_dataloader(self):
        if self.kind == "torch":
            return self.accelerator.prepare(DataLoader(ROWS, batch_size=4, shuffle=True))
        return loader(self.kind, True)

    def get_eval_dataloader(self, eval_dataset=None):
        if self.kind == "torch":
            return self.accelerator.prepare(DataLoader(ROWS, batch_size=4))
        return loader(self.kind, False)


def trainer(kind, folder, **options):
    model = Model()
    made = Trainer(model=model, args=transformers.TrainingArguments(
        folder, num_train_epochs=2, use_cpu=True, report_to=[], disable_tqdm=True, logging_strategy="no",
        **{"save_strategy": "no", **options}))
    made.kind = kind
    return made, model


def run(kind, folder):
    made, model = trainer(kind, folder)
    steps = made.train().global_step
    trained, model.seen = model.seen, []
    made.evaluate()
    return {"steps": steps, "trained": trained, "evaluated": model.seen}


def resumed(folder):
    """What came after a checkpoint in the middle of each epoch, by the step it was made at."""
    trainer("drop_in", folder, save_strategy="steps", save_steps=4)[0].train()
    found = {}
    for step in (4, 8):
        made, model = trainer("drop_in", folder)
        made.train(resume_from_checkpoint=f"{folder}/checkpoint-{step}")
        found[step] = model.seen
    return found


def main():
    warnings.simplefilter("ignore")
    found = {kind: run(kind, sys.argv[1]) for kind in ("torch", "drop_in", "native")}
    found["resumed"] = resumed(sys.argv[1])
    every = [None] * dist.get_world_size()
    dist.all_gather_object(every, found)
    if dist.get_rank() == 0:
        print(json.dumps(every), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
