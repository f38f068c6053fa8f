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
                .loader(seed=1, epochs=90, to="torch"))
    for batch in loader:
        train(batch["image"], batch["label"])
"""
from . import _core, _tables
from ._errors import SampleError, StateError
from ._loader import Batch, Loader, Ragged
from ._pipeline import Pipeline, dataset, source_function as _source_function
from ._report import Report, report
from ._show import show

__version__ = _core.version

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_sources = {table["name"]: _source_function(table) for table in _tables.TABLES["sources"]}
globals().update(_sources)
for _function in _sources.values():
    _function.__module__ = __name__

__all__ = ["Batch", "IMAGENET_MEAN", "IMAGENET_STD", "Loader", "Pipeline", "Ragged", "Report",
           "SampleError", "StateError", "dataset", "report", "show", *_sources]


def __getattr__(name):
    if name == "torch":  # imports torch, so only when asked for
        from importlib import import_module
        return import_module("millrace.torch")
    raise AttributeError(f"module 'millrace' has no attribute '{name}'")
