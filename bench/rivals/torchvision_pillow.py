# SPDX-License-Identifier: Apache-2.0
"""torch DataLoader with torchvision's transforms on Pillow images: what most people run."""

import harness


def declare_compiled_ops():
    """torchvision's compiled ops do not load beside a CPU build of torch; declaring the two that its
    import asks for is enough, the transforms use none of them. For as long as the answer is kept."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


def transforms(work):
    library = declare_compiled_ops()
    from torchvision import transforms as t

    end = [t.ToTensor(), t.Normalize(harness.MEAN, harness.STD)]
    if work.workload == "val":
        return t.Compose([t.Resize(256), t.CenterCrop(harness.SIZE), *end]), library
    return t.Compose([t.RandomResizedCrop(harness.SIZE), t.RandomHorizontalFlip(), *end]), library


class Photos:
    def __init__(self, work):
        self.paths = harness.paths(work)
        self.transform, self.library = transforms(work)

    def __len__(self):
        return 1 << 24  # no end of an epoch inside a measurement

    def __getitem__(self, i):
        from PIL import Image

        with Image.open(self.paths[i % len(self.paths)]) as image:
            return self.transform(image.convert("RGB")), 0


def batches(work):
    from torch.utils.data import DataLoader, SequentialSampler

    photos = Photos(work)
    loader = DataLoader(
        photos, harness.BATCH, sampler=SequentialSampler(photos), num_workers=work.threads
    )
    return (len(images) for images, _ in loader)


if __name__ == "__main__":
    harness.main(batches)
