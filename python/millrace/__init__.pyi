# SPDX-License-Identifier: Apache-2.0
# Written by python -m millrace._stubs from the tables: do not edit.
from os import PathLike
from typing import Any, Callable, Iterator, Literal, Mapping, Sequence

import numpy as np

from . import torch as torch

__version__: str
IMAGENET_MEAN: tuple[float, float, float]
IMAGENET_STD: tuple[float, float, float]

_Type = str | tuple[str, Sequence[int | None]] | tuple[str, Sequence[int | None], str]


class SampleError(RuntimeError):
    file: str
    index: int
    op: str


class StateError(ValueError): ...


class Ragged:
    values: Any
    offsets: Any
    shapes: Any
    def __init__(self, values: Any, offsets: Any, shapes: Any) -> None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, i: int) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def texts(self) -> list[str]: ...


class Batch(dict[str, Any]):
    epoch: int
    step: int
    size: int
    valid: int
    digest: str
    samples: np.ndarray[Any, np.dtype[np.int64]]


class Sheet:
    png: bytes
    path: str | PathLike[str] | None


class Loader:
    pipeline: Pipeline
    rank: int
    world: int
    def __enter__(self) -> Loader: ...
    def __exit__(self, *_: object) -> None: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __len__(self) -> int: ...
    def one_epoch(self) -> Iterator[Batch]: ...
    @property
    def epoch(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    def digest(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def flush(self) -> None: ...
    def skips(self) -> list[dict[str, Any]]: ...
    def metrics(self) -> str: ...
    @property
    def trace(self) -> str | None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class Report:
    trace: str
    other: str | None
    @property
    def text(self) -> str: ...
    @property
    def figures(self) -> dict[str, Any]: ...
    @property
    def verdict(self) -> dict[str, Any]: ...
    @property
    def html(self) -> str: ...
    def explain(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def export(self, path: str | PathLike[str],
               format: Literal["chrome", "csv"] = "chrome") -> None: ...


def report(trace: str | PathLike[str] | Loader, other: str | PathLike[str] | Loader | None = None,
           out: str | PathLike[str] | None = None) -> Report: ...
def show(batch: Batch, path: str | PathLike[str] | None = None, *, columns: int = 0,
         cell: int = 0) -> Sheet: ...
def dataset(object: Any, fields: Mapping[str, _Type] | None = None, *,
            names: Sequence[str] | None = None, version: str = "") -> Pipeline: ...
def array(path: str | PathLike[str], labels: str = '') -> Pipeline:
    """The rows of one array in a .npy file, mapped into memory.

    Fields: data (one row, as typed in the file; rows of three dimensions in uint8 are images: height, width, channels), label (int64) where labels are given; on request index (int64). The file must hold uint8, int32, int64, float16 or float32, little-endian and in C order, and nothing behind the array. Its header is read when the pipeline is, and again when the run opens. The dataset's fingerprint covers type, shape, all labels, and the data where it has up to 256 KiB, else 64 blocks of 4 KiB spread over it. The file must not be cut shorter while a run uses it: the system then ends the process (SIGBUS). Write a new file and rename it instead.

    Parameters:
        path: A .npy file; its first dimension counts the samples.
        labels: A .npy file of whole numbers, one for each sample. Default: ""."""
def files(path: str | PathLike[str] = '', list: str | PathLike[str] = '', extensions: str | Sequence[str] = ['.jpg', '.jpeg', '.png', '.webp'], max_file_bytes: int | str = '64MB') -> Pipeline:
    """One sample per file: a folder of class folders, or a list of paths and labels.

    Fields: image (the file's bytes), label (int64); on request path (the name below the folder, or as listed) and index (int64). Samples are in the bytewise order of their paths, or in the list's. Links are followed, loops are not; names that start with a dot are left out, and so are files beside class folders (said aloud). A folder that cannot be read is an error; a file that cannot be read is a bad sample.

    Parameters:
        path: The folder. Its top folders, sorted, are the classes; without any, all labels are 0. With a list: what relative paths are relative to (default: the list's folder). Default: "".
        list: A text file with a path and a label on each line, separated by a tab or the last space. Labels that are not all numbers are sorted and numbered. Default: "".
        extensions: Endings of the files to take from the folder, in upper or lower case; empty: all. Default: [".jpg", ".jpeg", ".png", ".webp"].
        max_file_bytes: Refuse larger files. Default: "64MB"."""
def synthetic(samples: int = 1000, shape: int | Sequence[int] = [1024]) -> Pipeline:
    """Samples made of nothing: every byte of sample i is i mod 256.

    Fields: data (uint8 of the given shape) and index (int64).

    Parameters:
        samples: Number of samples. Default: 1000.
        shape: Shape of a sample; three numbers make it an image (height, width, channels). Default: [1024]."""


class Pipeline:
    @classmethod
    def from_json(cls, text: str | bytes | dict[str, Any],
                  functions: Mapping[str, Callable[..., Any]] | None = None) -> Pipeline: ...
    @property
    def document(self) -> dict[str, Any]: ...
    def to_json(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def types(self) -> dict[str, tuple[str, tuple[int, ...], str]]: ...
    def map(self, function: Callable[..., Any], *, field: str | None = None,
            fields: Mapping[str, _Type] | _Type | None = None, processes: int = 0,
            version: str | int | None = None) -> Pipeline: ...
    def auto_cache(self, **parameters: Any) -> Pipeline: ...
    def map_batch(self, function: Callable[..., Any]) -> Pipeline: ...
    def loader(self, *, seed: int | None = None, epochs: int | None = None,
               batch: int | None = None, to: Literal["numpy", "torch", "jax"] = "numpy",
               threads: int = 0, rank: int | None = None, world: int | None = None,
               digest: bool = False, ragged: Literal["values", "nested"] = "values",
               pin: bool | None = None, state: Mapping[str, Any] | None = None,
               batches_ahead: int = 0, reads: int = 0, read_ahead_bytes: int = 0,
               io: Literal["auto", "uring", "pread"] = "auto", disable_cpu: str | None = None,
               allocator: Callable[[int], Any] | None = None,
               trace: str | PathLike[str] | None = None) -> Loader: ...
    def batch(self, batch: int) -> Pipeline:
        """Samples per step, over all ranks together.

        Parameters:
            batch: Samples per step, over all ranks together."""
    def seed(self, seed: int) -> Pipeline:
        """Key of all randomness.

        Parameters:
            seed: Key of all randomness."""
    def epochs(self, epochs: int) -> Pipeline:
        """Passes over the dataset.

        Parameters:
            epochs: Passes over the dataset."""
    def shuffle(self, shuffle: bool) -> Pipeline:
        """A new order each epoch, or the source's own order.

        Parameters:
            shuffle: A new order each epoch, or the source's own order."""
    def remainder(self, remainder: Literal["keep", "drop", "pad"]) -> Pipeline:
        """What becomes of samples that do not fill the last batch: keep (a short batch), drop, or pad (filled up from the start of the epoch's order; every rank takes the same number of steps).

        Parameters:
            remainder: What becomes of samples that do not fill the last batch: keep (a short batch), drop, or pad (filled up from the start of the epoch's order; every rank takes the same number of steps)."""
    def on_error(self, on_error: Literal["fail", "skip"]) -> Pipeline:
        """What a bad sample does: fail (end the run with an error that names it) or skip (take another sample, chosen by seed, epoch and position, and list the bad one).

        Parameters:
            on_error: What a bad sample does: fail (end the run with an error that names it) or skip (take another sample, chosen by seed, epoch and position, and list the bad one)."""
    def fuse(self, fuse: bool) -> Pipeline:
        """Decode only what later ops need, and run ops row by row. The bytes are the same; damage in a part of a file that nobody needs goes unseen (see decode_image's verify).

        Parameters:
            fuse: Decode only what later ops need, and run ops row by row. The bytes are the same; damage in a part of a file that nobody needs goes unseen (see decode_image's verify)."""
    def fields(self, fields: str | Sequence[str]) -> Pipeline:
        """Fields to deliver, in this order; empty: all that the source does not call optional.

        Parameters:
            fields: Fields to deliver, in this order; empty: all that the source does not call optional."""
    def cache(self, size: int | str = '20GB', path: str | PathLike[str] = '', tier: Literal["disk", "memory"] = 'disk', compression: Literal["none", "lz4", "zstd"] = 'none', group: bool = False, *, field: str | None = None) -> Pipeline:
        """Keeps samples as they are here, for every later epoch, run and job.

        Everything before it must be deterministic. A sample is named by its content (files: inode, size and times of change) and by the ops before the cache with their parameters and versions, so pipelines that begin alike share the work, and nothing stale is served. Bytes are the same with and without it; a store that fails is reported once, and the samples are made again. See docs/cache.md.

        Parameters:
            size: The most that the store may take. Default: "20GB".
            path: Folder of the store (~/ is the user's home); empty: one for all pipelines of the user, below $XDG_CACHE_HOME or ~/.cache (tier memory: below /dev/shm). Default: "".
            tier: disk, or memory: shared by the processes of this machine, and gone with the last of them. Default: "disk".
            compression: How values are packed: none, lz4 or zstd. Default: "none".
            group: Share the store with the folder's group; else it is the user's alone. Default: false."""
    def cast(self, dtype: Literal["float32", "float16", "bfloat16", "uint8"], scale: bool = False, *, field: str | None = None) -> Pipeline:
        """Changes the element type; layout and shape stay.

        Arithmetic is float32, then rounded to nearest, ties to even. Floats to uint8 are rounded the same way and cut to 0 .. 255; NaN becomes 0.

        Parameters:
            dtype: Element type of the output.
            scale: uint8 to float: divide by 255; float to uint8: multiply by 255. Default: false."""
    def center_crop(self, size: int | Sequence[int], *, field: str | None = None) -> Pipeline:
        """Cuts the middle out of the image.

        Starts at round((side - size) / 2), halves to even, as torchvision does. Where the image is smaller, zeros are put around it: floor((size - side) / 2) before it, the rest behind it.

        Parameters:
            size: A number for a square, or [height, width]."""
    def color_jitter(self, brightness: float | Sequence[float] = 0, contrast: float | Sequence[float] = 0, saturation: float | Sequence[float] = 0, hue: float | Sequence[float] = 0, *, field: str | None = None) -> Pipeline:
        """Changes brightness, contrast, saturation and hue by random factors.

        For the same factors and order equal to torchvision over Pillow bit for bit (ImageEnhance, and the hue in 8-bit HSV shifted by trunc(255 * factor)). Draws 0 .. 3 are the factors of brightness, contrast, saturation and hue, uniform in their ranges. The order starts as these four; for i = 3, 2, 1, with draws 4, 5, 6: exchange entries i and below(i + 1). A part whose range is only its neutral value (1, hue: 0) is left out.

        Parameters:
            brightness: f for factors in [max(0, 1 - f), 1 + f]; or [low, high]. Default: 0.
            contrast: Likewise, around the mean grey. Default: 0.
            saturation: Likewise; grey images are left as they are. Default: 0.
            hue: f for shifts in [-f, f], or [low, high]; 0.5 is half the circle. Default: 0."""
    def crop(self, height: int, width: int, top: int = 0, left: int = 0, *, field: str | None = None) -> Pipeline:
        """Cuts a fixed rectangle out of the image.

        The box must lie inside the image. Equal to Pillow's Image.crop.

        Parameters:
            top: First row of the box. Default: 0.
            left: First column of the box. Default: 0.
            height: Rows of the box.
            width: Columns of the box."""
    def decode_image(self, mode: Literal["rgb", "grey"] = 'rgb', orient: bool = False, max_pixels: int = 89478485, lenient: bool = False, verify: bool = False, dct_scale: bool = False, *, field: str | None = None) -> Pipeline:
        """Decodes a JPEG, PNG or WebP image.

        The pixels equal Pillow's Image.open(f).convert("RGB") (mode rgb) or convert("L") (mode grey), and with orient those after ImageOps.exif_transpose, bit for bit. Alpha is dropped; of an animation the first frame is taken. Files that are damaged are refused, also where Pillow goes on with guessed pixels. dct_scale leaves out the high frequencies of a JPEG that the next op would average away, and is no part of this promise: the page on pipelines says how much pixels differ. The two ops then run as a stream even where fuse is false.

        Parameters:
            mode: Colour with three channels, or grey with one. Default: "rgb".
            orient: Turn the image upright as its EXIF or XMP orientation says. Default: false.
            max_pixels: Refuse images of more pixels, before memory is taken for them. Default: 89478485.
            lenient: Accept files that the decoding library warns about, with the pixels it guesses. Default: false.
            verify: Read every file to its end. Otherwise damage below the part of a JPEG that later ops need goes unseen. Default: false.
            dct_scale: Decode JPEGs at 1/2, 1/4 or 1/8 where the next op is resize or random_resized_crop and makes the image smaller by at least as much. Other pixels, not Pillow's. Default: false."""
    def grayscale(self, channels: int = 1, *, field: str | None = None) -> Pipeline:
        """Turns colour into grey.

        Equal to Pillow's convert("L"): (19595 R + 38470 G + 7471 B + 32768) / 65536, rounded down. Grey images stay as they are.

        Parameters:
            channels: 1, or 3 equal ones. Default: 1."""
    def normalize(self, mean: float | Sequence[float] = [0], std: float | Sequence[float] = [1], dtype: Literal["float32", "float16", "bfloat16", "uint8"] = 'float32', layout: Literal["chw", "hwc"] = 'chw', *, field: str | None = None) -> Pipeline:
        """Turns bytes into normalised numbers: (byte / 255 - mean) / std.

        Computed in float32, one rounding per operation, equal to torchvision's ToTensor and Normalize on a CPU bit for bit; float16 and bfloat16 are that number rounded to nearest, ties to even.

        Parameters:
            mean: Subtracted from byte / 255; for all channels or for each. Default: [0].
            std: What the difference is divided by; likewise. Default: [1].
            dtype: Element type of the output; uint8 keeps the bytes and changes only the layout. Default: "float32".
            layout: chw: one plane per channel; hwc: channels last. Default: "chw"."""
    def pad(self, padding: int | Sequence[int], mode: Literal["constant", "edge", "reflect"] = 'constant', fill: int | Sequence[int] = [0], *, field: str | None = None) -> Pipeline:
        """Puts a border around the image.

        Equal to Pillow's ImageOps.expand (constant) and numpy.pad (edge, reflect), which are what torchvision calls.

        Parameters:
            padding: All sides; or [left and right, top and bottom]; or [left, top, right, bottom].
            mode: constant: fill; edge: the nearest pixel; reflect: mirrored, the edge not repeated. Default: "constant".
            fill: Value of the border with mode constant, for all channels or for each. Default: [0]."""
    def random_crop(self, size: int | Sequence[int], pad_if_needed: bool = False, *, field: str | None = None) -> Pipeline:
        """Cuts a rectangle of fixed size out of the image, at a random place.

        All places are equally likely. Draw 0 is the first row, below(height - size + 1); draw 1 the first column likewise. With pad_if_needed a side that lacks k pixels is first extended by k zeros on both ends, as torchvision does.

        Parameters:
            size: A number for a square, or [height, width].
            pad_if_needed: Put zeros around an image that is too small, instead of refusing it. Default: false."""
    def random_flip(self, p: float = 0.5, direction: Literal["horizontal", "vertical"] = 'horizontal', *, field: str | None = None) -> Pipeline:
        """Mirrors the image with a given probability.

        Flips if draw 0, uniform in [0, 1), is below p. Equal to Pillow's Image.transpose.

        Parameters:
            p: Probability of flipping. Default: 0.5.
            direction: horizontal exchanges left and right, vertical top and bottom. Default: "horizontal"."""
    def random_resized_crop(self, size: int | Sequence[int], scale: float | Sequence[float] = [0.08, 1.0], ratio: float | Sequence[float] = [0.75, 1.3333333333333333], filter: Literal["bilinear", "bicubic", "nearest"] = 'bilinear', *, field: str | None = None) -> Pipeline:
        """Cuts a box of random area, shape and place out of the image and resizes it.

        Boxes are drawn as in torchvision; the pixels are Pillow's crop, then resize, bit for bit. Attempt k = 0 .. 9: area = H * W * range(draw 4k, scale); r = exp(range(draw 4k + 1, log of ratio)); w = round(sqrt(area * r)), h = round(sqrt(area / r)), halves to even. If 1 <= w <= W and 1 <= h <= H: first row = below(draw 4k + 2, H - h + 1), first column = below(draw 4k + 3, W - w + 1). After ten failures: the largest box in the middle of an allowed ratio.

        Parameters:
            size: A number for a square, or [height, width].
            scale: Smallest and largest share of the image's area. Default: [0.08, 1.0].
            ratio: Smallest and largest width / height of the box. Default: [0.75, 1.3333333333333333].
            filter: As in resize. Default: "bilinear"."""
    def resize(self, size: int | Sequence[int], filter: Literal["bilinear", "bicubic", "nearest"] = 'bilinear', *, field: str | None = None) -> Pipeline:
        """Resizes the image to a size, or its shorter side to a length.

        Equal to Image.resize of Pillow 13 bit for bit. With one number n the longer side is floor(n * longer / shorter), as in torchvision.

        Parameters:
            size: A number: the shorter side, the other in proportion; or [height, width].
            filter: How pixels are weighed; bilinear and bicubic widen when shrinking (antialias). Default: "bilinear"."""
