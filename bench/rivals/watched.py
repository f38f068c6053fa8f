# SPDX-License-Identifier: Apache-2.0
"""A job that profilers watch: the training workload through millrace, or through a torch DataLoader
with torchvision and Pillow. Two profilers are switched on from inside: millrace's trace and
torch.profiler; the others start this program themselves."""

import argparse
import contextlib
import json

import harness


def millrace_batches(work):
    import millrace as mr

    pipeline = (mr.files(work.folder).decode_image().random_resized_crop(harness.SIZE).random_flip()
                .normalize(mean=mr.IMAGENET_MEAN, std=mr.IMAGENET_STD).batch(harness.BATCH))  # fmt: skip
    trace = work.out if work.inside == "millrace" else None
    loader = pipeline.loader(threads=work.threads, epochs=1_000_000, seed=1, trace=trace)
    return loader, (batch.size for batch in loader.all_epochs())


def torch_batches(work):
    import torchvision_pillow

    return None, torchvision_pillow.batches(work)


@contextlib.contextmanager
def torch_profiler(path):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield
    profiler.export_chrome_trace(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("job", choices=["millrace", "torch"])
    parser.add_argument("--folder", required=True, help="photos, for millrace")
    parser.add_argument("--data", required=True, help="a list of photos, for torch")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--inside", choices=["", "millrace", "torch"], default="")
    parser.add_argument("--out", help="where what is switched on from inside writes to")
    work = parser.parse_args()
    work.workload = "train"
    loader, batches = (millrace_batches if work.job == "millrace" else torch_batches)(work)
    watching = torch_profiler(work.out) if work.inside == "torch" else contextlib.nullcontext()
    with watching:
        result = harness.measure(batches, work.seconds)
    if loader is not None:
        loader.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
