# SPDX-License-Identifier: Apache-2.0
"""One rank under accelerate: loaders through prepare(), and through prepare_data_loader(), which
builds a loader of its own from the attributes of ours."""
import json
import warnings

import accelerate
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import gather_object

import millrace as mr

N = 41
numbers = list(range(N))


def epochs_of(loader):
    found = []
    for epoch in range(2):
        getattr(loader, "set_epoch", lambda _: None)(epoch)
        found.append([(batch if hasattr(batch, "tolist") else batch["data"]).tolist()
                      for batch in loader])
    return {"len": len(loader), "epochs": found}


def main():
    warnings.simplefilter("ignore")
    native = mr.dataset(numbers).batch(8).loader(seed=1, to="torch")
    drop_in = mr.torch.DataLoader(numbers, batch_size=4, shuffle=True)
    accelerator = accelerate.Accelerator(cpu=True)
    native, drop_in = accelerator.prepare(native, drop_in)
    rebuilt = prepare_data_loader(mr.torch.DataLoader(numbers, batch_size=4, shuffle=True),
                                  put_on_device=False)
    found = {"drop_in": epochs_of(drop_in), "native": epochs_of(native),
             "rebuilt": epochs_of(rebuilt)}
    every = gather_object([found])
    if accelerator.is_main_process:
        print(json.dumps(every))
    accelerator.end_training()


if __name__ == "__main__":
    main()
