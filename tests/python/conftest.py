# SPDX-License-Identifier: Apache-2.0
"""What all Python tests share: the library must be there, and examples are drawn the same way in
every run."""
import os

import pytest
from hypothesis import settings

settings.register_profile("millrace", max_examples=60, deadline=None, derandomize=True,
                          database=None)
settings.load_profile("millrace")


def pytest_configure(config):
    path = os.environ.get("MILLRACE_LIB", "")
    if not os.path.isfile(path):
        pytest.exit(f"MILLRACE_LIB must name libmillrace.so; it is {path!r}", returncode=2)
