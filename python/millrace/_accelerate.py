# SPDX-License-Identifier: Apache-2.0
"""accelerate looks at the loader that is gone through: at its last batch gradients are synchronised, and
gather_for_metrics() leaves out what was padded. Its own loaders tell it so; these do likewise."""
import contextlib
import sys


class Told:
    """What accelerate asks a loader for: whether the batch that was given is the last of its epoch, and how
    many samples the last one of all ranks has without padding (0: it is full; -1: nobody knows). Its
    save_state() and load_state() ask whether the loader has a state of its own."""

    end_of_dataloader, remainder = False, -1
    use_stateful_dataloader = True


def is_skipping():
    """Whether skip_first_batches() is going through the batch_sampler whose method asks. It makes a loader of
    its own for the rest of an epoch of this rank, where others who do so share the batches of all ranks out;
    nothing but who asks tells them apart."""
    asker = sys._getframe(2).f_locals.get("self")
    return type(asker).__name__ == "SkipBatchSampler" and type(asker).__module__.startswith("accelerate.")


@contextlib.contextmanager
def going_through(loader, last_batch):
    """While an epoch is gone through. last_batch() gives how many samples the last batch of all ranks has, 0
    where it is full, -1 where nobody knows. Gives whether accelerate is there and looks."""
    state = getattr(sys.modules.get("accelerate.state"), "GradientState", None)
    if state is None or not state._shared_state or not hasattr(state, "_add_dataloader"):
        yield False
        return
    loader.end_of_dataloader, loader.remainder = False, last_batch()
    state()._add_dataloader(loader)
    try:
        yield True
    finally:
        if state._shared_state:
            state()._remove_dataloader(loader)
