# SPDX-License-Identifier: Apache-2.0
"""torchvision's transforms as ops. A transform is known by its module's and its class's name, so that
torchvision need not be there; v1 and v2 have the same names. A rule looks at one transform and says which
ops do the same, or why none does.

A chain of transforms is followed with what flows through it: a picture of Pillow's, a tensor of bytes, or
a tensor of numbers. Ours are bytes with channels last until `normalize`, which comes at the end."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

EQUAL, DRAWN, NEAR, PYTHON, DIFFERS = "equal", "drawn", "near", "python", "differs"
MEANING = {EQUAL: "bit for bit", DRAWN: "bit for bit for the same draws; ours come from the seed of the run",
           NEAR: "nearly", PYTHON: "stays a Python function", DIFFERS: "differs"}


class NoRule(Exception):
    """There is no op that does the same; the text says why."""


class Note(NamedTuple):
    """What became of one part of the old loader."""
    part: str
    how: str
    text: str


class Chain:
    """Ops so far, and what flows out of the last one."""

    def __init__(self) -> None:
        self.ops: list[tuple[str, dict[str, Any]]] = []
        self.notes: list[Note] = []
        self.kind = "pil"  # "pil", "bytes" (a tensor), "numbers" (a tensor, not yet normalized by an op)
        self.mean: list[float] = [0]
        self.std: list[float] = [1]
        self.dtype = "float32"
        self.normalized = False
        self.draws = False

    def add(self, transform: Any, how: str, name: str, text: str = "", **values: Any) -> None:
        self.ops.append((name, values))
        self.draws = self.draws or how == DRAWN
        self.notes.append(Note(type(transform).__name__, how, text or name))

    def finish(self) -> None:
        """Numbers, or planes, as the last transforms wanted them."""
        if self.kind == "numbers":
            values: dict[str, Any] = {}
            if self.normalized:
                values.update(mean=self.mean, std=self.std)
            if self.dtype != "float32":
                values["dtype"] = self.dtype
            self.ops.append(("normalize", values))
        elif self.kind == "bytes":
            self.ops.append(("permute", {"layout": "chw"}))


# ---- Values of transforms ----
def _filter(transform: Any, known: tuple[str, ...]) -> dict[str, str]:
    mode = getattr(transform, "interpolation", None)
    name = str(getattr(mode, "value", mode))
    name = "nearest" if name == "nearest-exact" else name
    if name not in known:
        raise NoRule(f"interpolation {name}")
    return {"filter": name}


_RESIZE = ("bilinear", "bicubic", "nearest", "lanczos", "box")
_WARP = ("nearest", "bilinear")


def _fill(transform: Any) -> dict[str, list[int]]:
    fill = getattr(transform, "fill", 0)
    if isinstance(fill, dict):
        raise NoRule("fill by type")
    values = list(fill) if isinstance(fill, (list, tuple)) else [fill or 0]
    if not all(float(v).is_integer() and 0 <= v <= 255 for v in values):
        raise NoRule(f"fill {fill}")
    return {"fill": [int(v) for v in values]} if any(values) else {}


def _floats(values: Any) -> list[float]:
    return [float(v) for v in (values.tolist() if hasattr(values, "tolist") else values)]


def _short(values: Any) -> Any:
    """[224, 224] as 224, as people write it."""
    values = [int(v) for v in values] if isinstance(values, (list, tuple)) else [int(values)]
    return values[0] if len(set(values)) == 1 and len(values) < 3 else values


def _range(value: Any, neutral: float) -> list[float] | None:
    if value is None:
        return None
    low, high = _floats(value)
    return None if low == high == neutral else [low, high]


def _pixels(chain: Chain, how: str) -> tuple[str, str]:
    """Resizing: torch has arithmetic of its own for tensors."""
    if chain.kind == "pil":
        return how, ""
    return NEAR, "torch resizes tensors with weights of its own: some values differ by 1 of 255 from Pillow's, " \
                 "which are ours"


def _needs_pil(chain: Chain) -> None:
    if chain.kind != "pil":
        raise NoRule("torch computes it for tensors otherwise than for Pillow's images")


def _needs_bytes(chain: Chain) -> None:
    if chain.kind == "numbers":
        raise NoRule("it comes after the change to floating point")


# ---- Rules: of one transform, add its ops to the chain ----
def _resize(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    if getattr(t, "max_size", None) is not None or t.size is None:
        raise NoRule("max_size")
    size = [int(t.size)] if isinstance(t.size, int) else [int(v) for v in t.size]
    how, text = _pixels(chain, EQUAL)
    chain.add(t, how, "resize", text, size=size[0] if len(size) == 1 else size, **_filter(t, _RESIZE))


def _random_resized_crop(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    how, text = _pixels(chain, DRAWN)
    chain.draws = True
    chain.add(t, how, "random_resized_crop", text, size=_short(t.size), scale=_floats(t.scale),
              ratio=_floats(t.ratio), **_filter(t, _RESIZE))


def _center_crop(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    chain.add(t, EQUAL, "center_crop", size=_short(t.size))


def _padding(padding: Any) -> Any:
    values = [int(padding)] if isinstance(padding, int) else [int(v) for v in padding]
    return values[0] if len(set(values)) == 1 else values


def _pad(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    if t.padding_mode not in ("constant", "edge", "reflect"):
        raise NoRule(f"padding_mode {t.padding_mode}")
    chain.add(t, EQUAL, "pad", padding=_padding(t.padding), **_fill(t),
              **({} if t.padding_mode == "constant" else {"mode": t.padding_mode}))


def _random_crop(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    if t.padding is not None:
        _pad(t, chain)
        chain.notes.pop()
    if t.pad_if_needed and (_fill(t) or t.padding_mode != "constant"):
        raise NoRule("pad_if_needed with a fill or mode of its own")
    chain.add(t, DRAWN, "random_crop", size=_short(t.size),
              **({"pad_if_needed": True} if t.pad_if_needed else {}))


def _flip(direction: str) -> Callable[[Any, Chain], None]:
    def rule(t: Any, chain: Chain) -> None:
        _needs_bytes(chain)
        values = {} if t.p == 0.5 else {"p": float(t.p)}
        if direction == "vertical":
            values["direction"] = direction
        chain.add(t, DRAWN, "random_flip", **values)
    return rule


def _color_jitter(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    parts = {name: _range(getattr(t, name), 0 if name == "hue" else 1)
             for name in ("brightness", "contrast", "saturation", "hue")}
    chain.add(t, DRAWN, "color_jitter", **{name: part for name, part in parts.items() if part is not None})


def _grayscale(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    chain.add(t, EQUAL, "grayscale", channels=int(t.num_output_channels))


def _random_grayscale(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    chain.add(t, DRAWN, "random_apply", ops=[{"grayscale": {"channels": 3}}], p=float(t.p))


def _rotation(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    low, high = _floats(t.degrees)
    if t.expand and low != high:
        raise NoRule("expand with several angles")
    chain.add(t, DRAWN, "rotate", degrees=[low, high], **({"expand": True} if t.expand else {}),
              **({"center": _floats(t.center)} if t.center is not None else {}),
              **_filter(t, _WARP), **_fill(t))


def _affine(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    given = {"translate": t.translate, "scale": t.scale, "shear": t.shear, "center": t.center}
    chain.add(t, DRAWN, "affine", degrees=_floats(t.degrees),
              **{name: _floats(value) for name, value in given.items() if value is not None},
              **_filter(t, _WARP), **_fill(t))


def _perspective(t: Any, chain: Chain) -> None:
    _needs_pil(chain)
    chain.add(t, DRAWN, "perspective", distortion=float(t.distortion_scale), p=float(t.p),
              **_filter(t, _WARP), **_fill(t))


def _blur(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    width, height = (int(v) for v in t.kernel_size)
    chain.draws = True
    chain.add(t, NEAR, "gaussian_blur", "a value that lies between two bytes may become the other one",
              size=_short([height, width]), sigma=_floats(t.sigma))


def _elastic(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    chain.draws = True
    if len(set(t.alpha)) > 1 or len(set(t.sigma)) > 1:
        raise NoRule("alpha or sigma by direction")
    chain.add(t, NEAR, "elastic", "the same kind of moves, not the same numbers", alpha=float(t.alpha[0]),
              sigma=float(t.sigma[0]), **_filter(t, _WARP), **_fill(t))


def _simple(name: str, **attributes: str) -> Callable[[Any, Chain], None]:
    """attributes: of the op, from those of the transform."""
    def rule(t: Any, chain: Chain) -> None:
        _needs_pil(chain)
        chain.add(t, DRAWN, name, **{ours: getattr(t, theirs) for ours, theirs in attributes.items()})
    return rule


def _augment(name: str, **attributes: str) -> Callable[[Any, Chain], None]:
    def rule(t: Any, chain: Chain) -> None:
        _needs_pil(chain)
        values = {ours: getattr(t, theirs) for ours, theirs in attributes.items()}
        values = {key: getattr(value, "value", value) for key, value in values.items()}
        chain.add(t, DRAWN, name, **values, **_filter(t, _WARP), **_fill(t))
    return rule


def _inner(transforms: Any, chain: Chain) -> list[dict[str, Any]]:
    """Ops of transforms that are run at times. They must leave the kind of picture as it is."""
    part = Chain()
    part.kind = chain.kind
    for transform in transforms:
        follow(transform, part)
    if part.kind != chain.kind or not part.ops:
        raise NoRule("what is inside changes the type")
    return [{name: values} for name, values in part.ops]


def _choice(name: str) -> Callable[[Any, Chain], None]:
    def rule(t: Any, chain: Chain) -> None:
        _needs_bytes(chain)
        values: dict[str, Any] = {"ops": _inner(t.transforms, chain)}
        if name != "random_apply" and len(values["ops"]) != len(t.transforms):
            raise NoRule("several ops in place of one")
        if name == "random_apply":
            values["p"] = float(t.p)
        elif name == "one_of" and getattr(t, "p", None) is not None:
            values["weights"] = _floats(t.p)
        chain.add(t, DRAWN, name, **values)
    return rule


def _to_tensor(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    chain.kind = "numbers"
    chain.notes.append(Note(type(t).__name__, EQUAL, "normalize"))


def _to_bytes(t: Any, chain: Chain) -> None:
    _needs_bytes(chain)
    chain.kind = "bytes"
    chain.notes.append(Note(type(t).__name__, EQUAL, "permute, or no op of its own"))


def _dtype_name(dtype: Any) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in ("float32", "float16", "bfloat16"):
        raise NoRule(f"dtype {dtype}")
    return name


def _to_dtype(t: Any, chain: Chain) -> None:
    if chain.kind == "pil" or not getattr(t, "scale", True) and chain.kind != "numbers":
        raise NoRule("it does not scale")
    chain.dtype = _dtype_name(t.dtype)
    if chain.kind == "bytes":
        chain.notes.append(Note(type(t).__name__, NEAR, "normalize; v2 multiplies by 1/255 where ToTensor divides: "
                                                        "the last bits differ, by less than 1e-6"))
    else:
        chain.notes.append(Note(type(t).__name__, EQUAL, "normalize"))
    chain.kind = "numbers"


def _normalize(t: Any, chain: Chain) -> None:
    if chain.kind != "numbers" or chain.normalized:
        raise NoRule("it does not follow the change to floating point")
    chain.mean, chain.std, chain.normalized = _floats(t.mean), _floats(t.std), True
    chain.notes.append(Note(type(t).__name__, EQUAL, "normalize"))


def _erasing(t: Any, chain: Chain) -> None:
    """Comes before normalize here: the bytes nearest to its value stand for it."""
    value = t.value
    if value is None or isinstance(value, str):
        raise NoRule("random values")
    values = [float(v) for v in value] if isinstance(value, (list, tuple)) else [float(value)]
    n = max(len(values), len(chain.mean), len(chain.std)) if chain.normalized else len(values)
    def at(some: list[float], i: int) -> float:
        return some[i] if len(some) > 1 else some[0]
    wanted = [255 * (at(values, i) * at(chain.std, i) + at(chain.mean, i)) for i in range(n)] \
        if chain.kind == "numbers" else values
    fill = [min(255, max(0, round(v))) for v in wanted]
    chain.draws = True
    chain.add(t, NEAR if fill != wanted else DRAWN, "erasing",
              f"boxes have the nearest byte, {fill}" if fill != wanted else "",
              p=float(t.p), scale=_floats(t.scale), ratio=_floats(t.ratio), fill=fill)


def _nothing(t: Any, chain: Chain) -> None:
    chain.notes.append(Note(type(t).__name__, EQUAL, "nothing to do"))


RULES: dict[str, Callable[[Any, Chain], None]] = {
    "Resize": _resize, "RandomResizedCrop": _random_resized_crop, "CenterCrop": _center_crop, "Pad": _pad,
    "RandomCrop": _random_crop, "RandomHorizontalFlip": _flip("horizontal"),
    "RandomVerticalFlip": _flip("vertical"), "ColorJitter": _color_jitter, "Grayscale": _grayscale,
    "RandomGrayscale": _random_grayscale, "RandomRotation": _rotation, "RandomAffine": _affine,
    "RandomPerspective": _perspective, "GaussianBlur": _blur, "ElasticTransform": _elastic,
    "RandomInvert": _simple("invert", p="p"), "RandomPosterize": _simple("posterize", bits="bits", p="p"),
    "RandomSolarize": _simple("solarize", threshold="threshold", p="p"),
    "RandomAutocontrast": _simple("autocontrast", p="p"), "RandomEqualize": _simple("equalize", p="p"),
    "RandomAdjustSharpness": _simple("sharpness", factor="sharpness_factor", p="p"),
    "AutoAugment": _augment("auto_augment", policy="policy"),
    "RandAugment": _augment("rand_augment", num_ops="num_ops", magnitude="magnitude", bins="num_magnitude_bins"),
    "TrivialAugmentWide": _augment("trivial_augment", bins="num_magnitude_bins"),
    "RandomApply": _choice("random_apply"), "RandomChoice": _choice("one_of"),
    "RandomOrder": _choice("random_order"), "ToTensor": _to_tensor, "PILToTensor": _to_bytes,
    "ToImage": _to_bytes, "ToDtype": _to_dtype, "ConvertImageDtype": _to_dtype, "Normalize": _normalize,
    "RandomErasing": _erasing, "Identity": _nothing, "ToPureTensor": _nothing,
}


# ---- Following a chain ----
def parts_of(transform: Any) -> list[Any] | None:
    """What a container runs one after the other; None: it is none."""
    name, module = type(transform).__name__, type(transform).__module__
    if name == "Sequential" and module.startswith("torch.nn"):
        return list(transform)
    if name == "Compose" and isinstance(getattr(transform, "transforms", None), (list, tuple)):
        return list(transform.transforms)
    return None


def flat(transform: Any) -> list[Any]:
    parts = parts_of(transform)
    return [transform] if parts is None else [one for part in parts for one in flat(part)]


def name_of(transform: Any) -> str:
    own = getattr(transform, "__name__", None)
    return own if isinstance(own, str) else type(transform).__name__


def follow(transform: Any, chain: Chain) -> None:
    """Adds the ops of one transform, or raises NoRule."""
    module = type(transform).__module__
    ours = module.startswith("torchvision.transforms") or \
        (module.startswith("torch.nn") and type(transform).__name__ == "Identity")
    rule = RULES.get(type(transform).__name__) if ours else None
    if rule is None:
        raise NoRule("no op is known to do the same")
    n_ops, n_notes = len(chain.ops), len(chain.notes)
    try:
        rule(transform, chain)
    except (AttributeError, TypeError, ValueError) as error:  # another version's attributes
        del chain.ops[n_ops:], chain.notes[n_notes:]
        raise NoRule(f"its settings are not understood ({error})") from error
    except NoRule:
        del chain.ops[n_ops:], chain.notes[n_notes:]
        raise


# ---- What it would cost ----
# CPU time of an op against that of the transform it takes the place of: 350 photos of 400 x 500 pixels, one
# thread each, bench/translate.py. A guess for a report; measuring takes seconds.
COST = {"decode": 0.35, "RandomResizedCrop": 0.1, "Resize": 0.14, "ColorJitter": 0.45, "RandAugment": 0.28,
        "AutoAugment": 0.25, "TrivialAugmentWide": 0.23, "GaussianBlur": 0.25, "ToTensor": 0.1, "Normalize": 0.1,
        "RandomHorizontalFlip": 0.05, "RandomVerticalFlip": 0.05, "CenterCrop": 0.05, "RandomCrop": 0.05}
_USUAL_COST = 0.3


def cost_of(transform: Any) -> float:
    return COST.get(type(transform).__name__, _USUAL_COST)
