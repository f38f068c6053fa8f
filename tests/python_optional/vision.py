# SPDX-License-Identifier: Apache-2.0
"""The torchvision that is installed, also where its compiled part does not fit this torch: its transforms
and datasets over Pillow are Python, and need of that part no more than that two names are there."""
import sys

import pytest
import torch

_NAMES = ("nms", "qnms")
_library = None


def torchvision():
    global _library
    try:
        import torchvision as found
    except ImportError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        _library = torch.library.Library("torchvision", "DEF")
        for name in _NAMES:
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision as found
    import torchvision.transforms.v2  # noqa: F401
    return found
