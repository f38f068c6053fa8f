# SPDX-License-Identifier: Apache-2.0
"""torch DataLoader with torchvision's own decoder: read_file and decode_jpeg into tensors, transforms (v2) on these."""

import ctypes
import importlib.metadata
import os
import subprocess

import harness
import torchvision_pillow

# torchvision's packages are built for CUDA. Decoding on the CPU calls nothing of that, but its library does not load where
# these libraries of torch are not found, as in CPU builds of torch. So others stand in, whose functions end the process.
STUBS = ("libc10_cuda.so", "libtorch_cuda.so")


def stub(work, name):
    return os.path.join(work.cache, "torchvision-stubs", name)


def image_library():
    return os.path.join(importlib.metadata.distribution("torchvision").locate_file("torchvision"), "image.so")


def make_stubs(work):
    os.makedirs(os.path.dirname(stub(work, "")), exist_ok=True)
    shown = subprocess.run(["nm", "-D", "--undefined-only", image_library()], capture_output=True, text=True, check=True)
    wanted = [name for name in shown.stdout.split() if name.startswith("_ZN") and "4cuda" in name]
    code = "".join(f"void {name}(void) {{ __builtin_trap(); }}\n" for name in wanted)
    for name in STUBS:
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-x", "c", "-", "-o", stub(work, name)]
        subprocess.run(command, input=code, text=True, check=True)


def load_stubs(work):
    import torch

    for name in STUBS:
        if not os.path.exists(os.path.join(os.path.dirname(torch.__file__), "lib", name)):
            ctypes.CDLL(stub(work, name), ctypes.RTLD_GLOBAL)


def transforms(work):
    import torch
    from torchvision.transforms import v2 as t

    end = [t.ToDtype(torch.float32, scale=True), t.Normalize(harness.MEAN, harness.STD)]
    if work.workload == "val":
        return t.Compose([t.Resize(256), t.CenterCrop(harness.SIZE), *end])
    return t.Compose([t.RandomResizedCrop(harness.SIZE), t.RandomHorizontalFlip(), *end])


class Photos:
    def __init__(self, work):
        load_stubs(work)
        self.library = torchvision_pillow.declare_compiled_ops()
        self.paths = harness.paths(work)
        self.transform = transforms(work)

    def __len__(self):
        return 1 << 24  # no end of an epoch inside a measurement

    def __getitem__(self, i):
        from torchvision.io import ImageReadMode, decode_jpeg, read_file

        encoded = read_file(self.paths[i % len(self.paths)])
        return self.transform(decode_jpeg(encoded, ImageReadMode.RGB)), 0


def batches(work):
    from torch.utils.data import DataLoader, SequentialSampler

    photos = Photos(work)
    loader = DataLoader(
        photos, harness.BATCH, sampler=SequentialSampler(photos), num_workers=work.threads
    )
    return (len(images) for images, _ in loader)


if __name__ == "__main__":
    harness.main(batches, prepare=make_stubs)
