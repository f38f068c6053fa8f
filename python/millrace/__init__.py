# SPDX-License-Identifier: Apache-2.0
"""millrace: datasets to ready batches, as fast as the machine allows, in an order that is exactly
repeatable.

    import millrace as mr
    loader = (mr.files("photos")
                .decode_image()
                .random_resized_crop(224)
                .random_flip()
                .normalize(mean=mr.IMAGENET_MEAN, std=mr.IMAGENET_STD)
                .batch(128)
                .loader(seed=1, to="torch"))
    for epoch in range(90):
        for batch in loader:
            train(batch["image"], batch["label"])
"""
from . import _core, _tables
from ._arrow import arrow
from ._errors import SampleError, StateError
from ._loader import Batch, Loader, Ragged
from ._map import FunctionMap
from ._pipeline import Pipeline, dataset, load_plugin, mix, source_function as _source_function
from ._replay import replay
from ._report import Ranks, Report, report
from ._shared import Shared, shared
from ._show import show
from ._sweep import Sweep, sweep

__version__ = _core.version

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_sources = {table["name"]: _source_function(table) for table in _tables.TABLES["sources"]}
globals().update(_sources)
for _function in _sources.values():
    _function.__module__ = __name__

__all__ = ["Batch", "FunctionMap", "IMAGENET_MEAN", "IMAGENET_STD", "Loader", "Pipeline", "Profile", "Ragged", "Ranks", "Report",
           "SampleError", "Shared", "StateError", "Sweep", "arrow", "dataset", "load_plugin", "mix", "profile", "replay", "report",
           "shared", "show", "sweep", *_sources]


def __getattr__(name):
    if name in ("torch", "petastorm"):  # imports torch, so only when asked for
        from importlib import import_module
        return import_module(f"millrace.{name}")
    if name in ("Profile", "profile"):  # of use beside torch alone
        from . import _profile
        return getattr(_profile, name)
    from difflib import get_close_matches
    near = _tables.known_as(name, "sources") or next(iter(get_close_matches(name, __all__, 1)), None)
    meant = f"; did you mean {near}?" if near else ""
    raise AttributeError(f"module 'millrace' has no attribute '{name}'{meant}")
