# SPDX-License-Identifier: Apache-2.0
"""Numbers of classes that mean other names in another loader: each set numbers the names that it has, so one
that lacks a class has other numbers behind it, and nothing would tell."""
import warnings

from . import _tables

# Sources whose labels may be names.
_NAMING = {table["name"] for table in _tables.TABLES["sources"]
           if any(row["name"] == "classes" for row in table["params"])}


def _are_given(pipeline):
    """Whether somebody said which classes there are: then they are meant."""
    given = pipeline._source[1].get("classes")
    return given is not None and (not hasattr(given, "__len__") or len(given) > 0)


def _unlike(names, others):
    """The first class that has another name there, of sets that have classes in common; None: there is none."""
    differing = next((i for i, (own, other) in enumerate(zip(names, others)) if own != other), None)
    return differing if differing is not None and not set(names).isdisjoint(others) else None


def of(loader):
    """By field, of a loader that was just opened: later another thread may be inside of it."""
    if loader.pipeline._source[0] not in _NAMING:
        return {}
    fields = {name: loader.classes_of(name) for name, _ in loader.pipeline._compiled.fields}
    return {name: names for name, names in fields.items() if names}


def compare(loader, others):
    """Warns where a loader numbers the classes of a field otherwise than one that is open. Each has of() as
    _named."""
    own = {} if _are_given(loader.pipeline) else loader._named
    for other in others if own else ():
        there = other._named if other._core is not None else {}
        for field in own.keys() & there.keys():
            i = _unlike(own[field], there[field])
            if i is not None:
                warnings.warn(
                    f"class {i} of {field} is {own[field][i]!r} here and {there[field][i]!r} in a loader that is open: each set "
                    "numbers the names that it has. Give both the same: mr.files(..., classes=other_loader.classes)",
                    RuntimeWarning, stacklevel=4)
                return
