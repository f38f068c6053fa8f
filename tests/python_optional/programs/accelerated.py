# SPDX-License-Identifier: Apache-2.0
"""One rank under accelerate: loaders through prepare(), and through prepare_data_loader(), which
builds a loader of its own from the attributes of ours."""
import json
import warnings

import accelerate
import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object

import millrace as mr

N = 41
numbers = list(range(N))


def epochs_of(accelerator, loader):
    """Of each of two epochs the rank's batches, what gather_for_metrics() gives, which of them were known to be
    the last one, and in which gradients were synchronised."""
    found = {"len": len(loader), "epochs": [], "gathered": [], "ends": [], "synced": []}
    model = torch.nn.Linear(1, 1)
    for epoch in range(2):
        getattr(loader, "set_epoch", lambda _: None)(epoch)
        batches, gathered, ends, synced = [], [], [], []
        for batch in loader:
            batch = batch if hasattr(batch, "tolist") else batch["data"]
            with accelerator.accumulate(model):
                synced.append(accelerator.sync_gradients)
            batches.append(batch.tolist())
            gathered += accelerator.gather_for_metrics(batch).tolist()
            ends.append(accelerator.gradient_state.end_of_dataloader)
        for name, value in (("epochs", batches), ("gathered", gathered), ("ends", ends), ("synced", synced)):
            found[name].append(value)
    return found


def main():
    warnings.simplefilter("ignore")
    native = mr.dataset(numbers).batch(8).loader(seed=1, to="torch")
    drop_in = mr.torch.DataLoader(numbers, batch_size=4, shuffle=True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    native, drop_in = accelerator.prepare(native, drop_in)
    rebuilt = prepare_data_loader(mr.torch.DataLoader(numbers, batch_size=4, shuffle=True),
                                  put_on_device=False)
    found = {"drop_in": epochs_of(accelerator, drop_in), "native": epochs_of(accelerator, native),
             "rebuilt": epochs_of(accelerator, rebuilt)}
    every = gather_object([found])
    if accelerator.is_main_process:
        print(json.dumps(every))
    accelerator.end_training()


if __name__ == "__main__":
    main()
