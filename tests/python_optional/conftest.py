# SPDX-License-Identifier: Apache-2.0
"""The second group of Python tests: what needs torch or jax. Where one of them is missing, its tests
are skipped and say so."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "python"))
