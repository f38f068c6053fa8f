# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, of how many."""
import os
import sys
import warnings

_PAIRS = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
          ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
_SIGNS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS",
          "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK",
          "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE")


def _from_torch():
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _number(name):
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def _from_environment():
    """Where both are set they count: a rank that is none of its world is a mistake, and reading everything in
    its place would be another."""
    for rank_name, world_name in _PAIRS:
        rank, world = _number(rank_name), _number(world_name)
        if rank is not None and world is not None and rank < world:
            return rank, world
        if os.environ.get(rank_name) and os.environ.get(world_name):
            raise ValueError(f"{rank_name}={os.environ[rank_name]} and {world_name}={os.environ[world_name]} are no rank "
                             "and world: ranks count from 0 to one less than the world. Set both, or pass rank=... and "
                             "world=...")
    return None


def _warn_if_unclear():
    seen = [name for name in _SIGNS if os.environ.get(name) and
            not (name.endswith(("SIZE", "NTASKS")) and os.environ[name] == "1")]
    if seen:
        said = ", ".join(f"{name}={os.environ[name]}" for name in seen)
        warnings.warn(f"{said} is set, but rank and world could not be found: this process reads "
                      "the whole dataset. Pass rank=... and world=... to loader(), or rank=0, "
                      "world=1 if it is alone.", RuntimeWarning, stacklevel=5)


def detect(rank, world, warn=False):
    """(rank, world): as given, else from torch.distributed, else from the launcher's variables.
    warn: say so where there are signs of other ranks and yet nothing is found."""
    if (rank is None) != (world is None):
        raise ValueError("rank and world go together: pass both, or neither to have them found")
    if rank is not None:
        return rank, world
    found = _from_torch() or _from_environment()
    if found is None and warn:
        _warn_if_unclear()
    return found or (0, 1)


def changed(before, now):
    """The error of a loader whose process is no longer the rank that it was."""
    return RuntimeError(
        f"the loader was begun as rank {before[0]} of {before[1]}, and this process is now rank "
        f"{now[0]} of {now[1]}: open a new one (its state fits any world), or pass rank=... and "
        "world=...")
