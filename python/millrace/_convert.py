# SPDX-License-Identifier: Apache-2.0
"""Values of other kinds as arrays, and types of values."""
import sys

import numpy as np

_NAMES = frozenset(("uint8", "int32", "int64", "float16", "float32", "float64", "int8", "int16",
                    "uint16", "uint32", "uint64", "bool"))


def to_array(value):
    """The array that stands for a value: a tensor's own memory, text as UTF-8 bytes, anything else
    as numpy makes it. bfloat16 passes as uint16."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        return value.view(torch.int16).numpy().view(np.uint16) \
            if value.dtype == torch.bfloat16 else value.numpy()
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, (bytes, bytearray)):
        return np.frombuffer(value, np.uint8)
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _dtype_name(value, array):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        return "bfloat16"
    if getattr(getattr(value, "dtype", None), "name", "") == "bfloat16":
        return "bfloat16"
    return array.dtype.name


def is_image(name, dims):
    return name == "uint8" and len(dims) == 3 and dims[2] in (1, 3)


def is_mapping(value):
    """Whether it has fields by name, as a dictionary does. _host.c asks the same."""
    return isinstance(value, dict) or (hasattr(value, "keys") and hasattr(type(value), "__getitem__"))


class NoField(TypeError):
    """A part of a sample that is none of what fields hold: its name, and what it is."""

    part = kind = ""


def _kind_of(value):
    """"a dict": what a person calls it."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def type_of_part(name, value):
    """type_of() that names what cannot be a field."""
    try:
        return type_of(value)
    except (TypeError, ValueError) as error:
        other = NoField(f'field "{name}": {error}\n  hint: fields hold numbers, arrays of numbers, tensors and text; give '
                        "what it holds as fields of their own, or leave it out")
        other.part, other.kind = name, _kind_of(value)
        raise other from None


def type_of(value):
    """(dtype, dims, layout) of a value; uint8[?, ?, 3] and uint8[?, ?, 1] count as images."""
    array = to_array(value)
    name = _dtype_name(value, array)
    if name not in _NAMES and name != "bfloat16":
        raise TypeError(f"a sample cannot hold {type(value).__name__} with elements of type {name}")
    dims = (-1,) if isinstance(value, (str, bytes, bytearray)) else array.shape
    return name, dims, "hwc" if is_image(name, dims) else ""


def join_types(first, second):
    """What both are: dimensions that differ vary."""
    if first[0] != second[0] or len(first[1]) != len(second[1]):
        raise TypeError(f"the first two samples differ in type: {first[0]}{list(first[1])} and "
                        f"{second[0]}{list(second[1])}")
    dims = tuple(a if a == b else -1 for a, b in zip(first[1], second[1]))
    return first[0], dims, first[2] if first[2] == second[2] else ""


def declared(name, given):
    """(name, dtype, dims, layout) from what the user declared: ("float32", (3, None)) and the
    like; None or -1 is a dimension that varies."""
    dtype, dims, *rest = (given, ()) if isinstance(given, str) else given
    dims = tuple(-1 if d is None else int(d) for d in dims)
    layout = rest[0] if rest else "hwc" if is_image(str(dtype), dims) else ""
    return name, str(np.dtype(dtype)) if dtype != "bfloat16" else dtype, dims, layout


def make_random(seed, epoch, sample, op):
    """The generator of one function for one sample: the law's key, in numpy's Philox."""
    philox = np.random.Philox(key=np.array([seed, epoch], np.uint64),
                              counter=np.array([0, 0, sample, op], np.uint64))
    return np.random.Generator(philox)
