# SPDX-License-Identifier: Apache-2.0
"""One rank under accelerate: loaders through prepare(), and through prepare_data_loader(), which
builds a loader of its own from the attributes of ours."""
import json
import sys
import warnings

import accelerate
import torch
from accelerate.data_loader import prepare_data_loader, skip_first_batches
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


def values(loader):
    return [(batch if hasattr(batch, "tolist") else batch["data"]).tolist() for batch in loader]


def drop_in(seed=None):
    return mr.torch.DataLoader(numbers, batch_size=4, shuffle=True, seed=seed)


def skipped(accelerator):
    """As accelerate's examples resume: the rest of an epoch, then the epochs behind it."""
    whole, resumed = accelerator.prepare(drop_in(), drop_in())
    found = {"whole": [values(whole) for _ in range(3)]}
    resumed.set_epoch(1)
    rest = accelerator.skip_first_batches(resumed, 2)
    found["len"] = len(rest)
    found["rest"] = [values(rest), values(resumed)]
    kept = skip_first_batches(drop_in(), 2)  # of a loader that nobody holds any more
    found["first"] = values(kept)
    return found


def saved(accelerator, folder):
    """save_state() in the middle of an epoch; the drop-in by itself, a pipeline's loader after one line."""
    def loaders():
        native = mr.dataset(numbers).batch(8).loader(seed=1, to="torch")
        accelerator.register_for_checkpointing(native)
        return accelerator.prepare(native, drop_in(3))
    found = {"whole": [], "rest": []}
    for loader in loaders():
        found["whole"].append(values(loader) + values(loader))
    accelerator._custom_objects.clear()
    accelerator._dataloaders.clear()
    for loader in loaders():
        values(loader)
        for _, _ in zip(range(2), loader):
            pass
    accelerator.save_state(folder)
    accelerator._custom_objects.clear()
    accelerator._dataloaders.clear()
    fresh = loaders()
    accelerator.load_state(folder)
    found["rest"] = [values(loader) for loader in fresh]
    # As the examples do after load_state(): what was skipped already is not skipped twice
    accelerator._custom_objects.clear()
    accelerator._dataloaders.clear()
    _, fresh = loaders()
    accelerator.load_state(folder)
    found["skipped"] = values(accelerator.skip_first_batches(fresh, 2)) + values(fresh)
    return found


def main():
    warnings.simplefilter("ignore")
    native = mr.dataset(numbers).batch(8).loader(seed=1, to="torch")
    stand_in = drop_in()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    native, stand_in = accelerator.prepare(native, stand_in)
    rebuilt = prepare_data_loader(mr.torch.DataLoader(numbers, batch_size=4, shuffle=True),
                                  put_on_device=False)
    found = {"drop_in": epochs_of(accelerator, stand_in), "native": epochs_of(accelerator, native),
             "rebuilt": epochs_of(accelerator, rebuilt)}
    found["skipped"], found["saved"] = skipped(accelerator), saved(accelerator, sys.argv[1])
    every = gather_object([found])
    if accelerator.is_main_process:
        print(json.dumps(every))
    accelerator.end_training()


if __name__ == "__main__":
    main()
