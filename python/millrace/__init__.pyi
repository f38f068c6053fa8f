# SPDX-License-Identifier: Apache-2.0
# Written by python -m millrace._stubs from the tables: do not edit.
from os import PathLike
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, NamedTuple, Sequence, overload

import numpy as np

from . import torch as torch

__version__: str
IMAGENET_MEAN: tuple[float, float, float]
IMAGENET_STD: tuple[float, float, float]

_Kind = Literal["mask", "boxes", "points"] | Mapping[str, Mapping[str, float]]
_Type = str | tuple[str, Sequence[int | None]] | tuple[str, Sequence[int | None], str]


class SampleError(RuntimeError):
    file: str
    index: int
    offset: int
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
    def to_padded(self, value: float = 0, length: int | None = None) -> tuple[Any, Any]: ...
    def pad(self, value: float = 0, length: int | None = None) -> tuple[Any, Any]: ...
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
    @property
    def rank(self) -> int: ...
    @property
    def world(self) -> int: ...
    def __enter__(self) -> Loader: ...
    def __exit__(self, *_: object) -> None: ...
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    def __len__(self) -> int: ...
    def one_epoch(self) -> Iterator[Batch]: ...
    def all_epochs(self) -> Iterator[Batch]: ...
    def set_epoch(self, epoch: int) -> None: ...
    def as_tf_dataset(self) -> Any: ...
    def as_dali_source(self, fields: list[str] | None = None, prefetch_queue_depth: int = 2) -> Any: ...
    @property
    def epoch(self) -> int: ...
    @property
    def next_epoch(self) -> int: ...
    @property
    def steps_per_epoch(self) -> int: ...
    @property
    def n_samples(self) -> int: ...
    @property
    def classes(self) -> list[str] | Any: ...  # of several fields a dictionary
    def classes_of(self, field: str) -> list[str]: ...
    def digest(self) -> str: ...
    def stats(self) -> dict[str, Any]: ...
    def flush(self) -> None: ...
    def stream(self) -> dict[str, int] | None: ...
    def feed_back(self, samples: Batch | Sequence[int] | Any, values: Any = None,
                  extra: Any = None) -> None: ...
    def skips(self) -> list[dict[str, Any]]: ...
    def metrics(self) -> str: ...
    @property
    def trace(self) -> str | None: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class Shared:
    def get(self, key: str | bytes, default: Any = None) -> Any: ...
    def put(self, key: str | bytes, value: Any) -> None: ...
    def get_or_make(self, key: str | bytes, function: Callable[[], Any]) -> Any: ...
    def stats(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    def __enter__(self) -> Shared: ...
    def __exit__(self, *_: object) -> None: ...


class Profile:
    trace: str
    def close(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: object) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __len__(self) -> int: ...

class Ranks:
    traces: tuple[str, ...]
    @property
    def text(self) -> str: ...
    @property
    def figures(self) -> dict[str, Any]: ...
    @property
    def slowest(self) -> Report: ...
    @property
    def html(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...

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
    def map(self) -> FunctionMap: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def export(self, path: str | PathLike[str],
               format: Literal["chrome", "csv"] = "chrome") -> None: ...


class Replayed(NamedTuple):
    steps: int
    samples: int
    compared: int
    digest: str


class FunctionRow(NamedTuple):
    op: str
    function: str
    object: str
    share: float
    probes: int


class FunctionMap:
    rows: list[FunctionRow]
    def __init__(self, rows: list[FunctionRow]) -> None: ...
    @classmethod
    def load(cls, path: str | PathLike[str]) -> FunctionMap: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def apply(self, path: str | PathLike[str]) -> dict[str, float]: ...


class Sweep:
    document: dict[str, Any]
    @property
    def runs(self) -> list[dict[str, Any]]: ...
    @property
    def rows(self) -> list[dict[str, str]]: ...
    @property
    def csv(self) -> str: ...
    @property
    def html(self) -> str: ...
    @property
    def conclusion(self) -> str: ...
    def save(self, path: str | PathLike[str]) -> None: ...


@overload
def report(trace: str | PathLike[str] | Loader, other: str | PathLike[str] | Loader | None = None,
           out: str | PathLike[str] | None = None,
           photos: str | PathLike[str] | None = None) -> Report: ...
@overload
def report(trace: Sequence[str | PathLike[str] | Loader], other: None = None,
           out: str | PathLike[str] | None = None,
           photos: str | PathLike[str] | None = None) -> Ranks: ...
def replay(journal: str | PathLike[str], pipeline: Pipeline | None = None, *,
           threads: int = 0) -> Replayed: ...
def profile(loader: Any, path: str | PathLike[str], *, names: bool = True) -> Profile: ...
def sweep(make_loader: Callable[..., Any], *, rounds: int = 3, steps: int | None = None,
          consume: Callable[[Any], Any] | None = None, **settings: Iterable[Any]) -> Sweep: ...
def shared(store: str | PathLike[str] | Mapping[str, Any] | None = None,
           fabric: str | None = None, *, space: str = "default", ttl: float = 0.0,
           timeout: float = 0.5, patience: float = 60.0, allow_pickle: bool = False) -> Shared: ...
def show(batch: Batch, path: str | PathLike[str] | None = None, *, columns: int = 0,
         cell: int = 0) -> Sheet: ...
def load_plugin(path: str | PathLike[str]) -> list[str]: ...
def arrow(stream: Any, columns: Sequence[str] | None = None, *, version: str = "") -> Pipeline: ...
def dataset(object: Any, fields: Mapping[str, _Type] | None = None, *,
            names: Sequence[str] | None = None, version: str = "") -> Pipeline: ...
def mix(pipelines: Sequence[Pipeline], weights: Sequence[float] | None = None, *,
        round: int = 1000, length: int = 0) -> Pipeline: ...
def array(path: str | PathLike[str], labels: str = '', fields: str | Sequence[str] = [], layout: Literal["auto", "plain", "hwc", "chw"] = 'auto') -> Pipeline:
    """The rows of arrays in .npy and .npz files, mapped into memory.

    Fields: data (one row, as typed in the file; rows of three dimensions in uint8 are images: height, width, channels), or of .npz one for each member, named as it is; label (int64) where labels are given; on request index (int64). A file must hold whole numbers, bool, float16, float32 or float64, little-endian and in C order, and nothing behind the array. Its header is read when the pipeline is, and again when the run opens. The dataset's fingerprint covers type, shape, all labels, and the data where it has up to 256 KiB, else 64 blocks of 4 KiB spread over it. The file must not be cut shorter while a run uses it: the system then ends the process (SIGBUS). Write a new file and rename it instead.

    Parameters:
        path: A .npy file; its first dimension counts the samples. Or several, which are taken as one: a folder, or a pattern with braces (x-{000..015}.npy) or wildcards. Or .npz files of arrays that have the same first dimension and are not compressed: each is a field. Their checksums are not looked at: rows are taken out of the mapped file.
        labels: A .npy file (or several) of whole numbers, one for each sample. Default: "".
        fields: More .npy files, each a field: "mask=masks-{000..015}.npy". Default: [].
        layout: What rows of three dimensions are: images (hwc, chw) or numbers (plain); auto: uint8 is hwc, else plain. Default: "auto"."""
def files(path: str | PathLike[str] = '', list: str | PathLike[str] = '', labels: str = '', columns: str | Sequence[str] = [], classes: str | PathLike[str] | Sequence[str] | Mapping[str, str | PathLike[str] | Sequence[str]] | None = None, extensions: str | Sequence[str] = ['.jpg', '.jpeg', '.png', '.webp'], index: str = '', max_file_bytes: int | str = '64MB') -> Pipeline:
    """One sample per file: a folder of class folders, a folder with a table of labels, or a list of paths and labels.

    Fields: image (the file's bytes), label (int64), or the list's label or the table's columns; on request path (the name below the folder, or as listed) and index (int64). Samples are in the bytewise order of their paths, or in the list's. Links are followed, loops are not; names that start with a dot are left out, and so are files beside class folders (said aloud). A folder that cannot be read is an error; a file that cannot be read is a bad sample.

    Parameters:
        path: The folder. Its top folders are the classes, in the order of `classes` or else sorted; without any, all labels are 0. With a list: what relative paths are relative to (default: the list's folder). Default: "".
        list: A text file with a path and a label on each line, separated by a tab or the last space. Labels are all whole numbers (int64), all numbers (float32), all lists of numbers ("0,3"), or all names, which are sorted and numbered. Names of classes are UTF-8, paths any bytes. Default: "".
        labels: A table with a row for each file of the folder: CSV or TSV with a header, or JSON lines. Column file_name, file, path or image, else the first, has the files' names: below the folder, or without folders, or without their endings. Every other column is a field, typed as a list's labels are, in JSON lines also lists of lists of numbers, as boxes are; where all its values name files (with an ending of `extensions`, or found below the folder or beside the table), they are read as the image is, and are no samples themselves. Names of classes and columns are UTF-8 (JSON is as a whole), those of files any bytes. Default: "".
        columns: Columns of the table to take; empty: all. Default: [].
        classes: Names of the classes in the order of their numbers: a list, or a text file with a name on each line; an object of these by column where a table has several columns of names. A name that is none of them is an error. null or empty: the names that are found, sorted, which another set that lacks a class numbers otherwise. Default: null.
        extensions: Endings of the files to take from the folder, in upper or lower case; empty: all. Default: [".jpg", ".jpeg", ".png", ".webp"].
        index: A file that keeps the folder's listing, for folders of millions of files: written where there is none, used while all folders have the times they had then, else written anew. "": the folder is listed at every start. Default: "".
        max_file_bytes: Refuse larger files. Default: "64MB"."""
def hdf5(path: str | Sequence[str], fields: str | Sequence[str] = [], block_bytes: int | str = '4MB', max_unpacked_bytes: int | str = '256MB') -> Pipeline:
    """The rows of datasets in HDF5 files.

    Fields: the datasets, named as they are with dots for slashes (one row of the first dimension, as typed in the file; strings of fixed length are uint8; rows of three dimensions in uint8 are images: height, width, channels); on request index (int64). Chunked datasets are read in blocks of whole chunks, so "shuffle": true is a shuffle in windows (docs/shuffle.md); where all wanted datasets are contiguous the file is mapped and rows are taken one by one. gzip, lzf, zstd, shuffle and fletcher32 are undone, by all threads; where nothing was written, rows have the fill value. Compound types, strings of varying length, virtual datasets and datasets in other files are refused. All that a writer may choose for groups and for the index of chunks is understood. Soft and external links are not followed. Files must not be written to while a run uses them.

    Parameters:
        path: HDF5 files: names, patterns with braces (part-{000..015}.h5) or wildcards, folders (their .h5, .hdf5 and .he5 files). The rows of several follow each other.
        fields: Datasets to take, each a field: "train/images", under another name "image=train/images", or a pattern for several, "train/*". Empty: the dataset of the first file that has the most bytes, and all that have as many rows. Default: [].
        block_bytes: Read rows of about as many bytes, unpacked, at once; at least those of a chunk. Default: "4MB".
        max_unpacked_bytes: Refuse files whose rows, or whose chunks side by side, have more. Default: "256MB"."""
def kafka(brokers: str, topic: str, partitions: int = 1, quantum: int = 1, from_: int = 0, until: int = 0, label: str = 'label', patience: float = 60, options: str | Sequence[str] = [], schema: str | Sequence[str] = []) -> Pipeline:
    """The messages of a Kafka topic, as it grows.

    Fields: value (bytes), or the members of `schema`; label (int64); on request key (bytes), time (int64) and index (int64); with "rehearse" also is_replay (uint8) and weight (float32), and on request extra (float32, of varying length: what the trainer gave back). `quantum` messages of each partition are taken in turn, whatever comes first (docs/streams.md). Partitions are assigned, not subscribed to: there is no consumer group, and brokers keep nothing of a reader. A message's number is its offset, so offsets that are left out, by transactions or by compaction, are bad samples, as are messages without a value. The label is a header; time is the message's.

    Parameters:
        brokers: HOST:PORT of some brokers, parted by commas.
        topic: The topic's name.
        partitions: How many partitions take part, from 0 on. Default: 1.
        quantum: How many messages are taken of a partition before it is the next one's turn. Default: 1.
        from: The offset of the first message, in each partition. Default: 0.
        until: The run ends before this offset of each partition; 0: never. Default: 0.
        label: The header of a message with its label, a whole number as text; where it is missing the label is 0. Default: "label".
        patience: Seconds that all brokers may be away before the run ends with an error. Default: 60.
        options: More settings of librdkafka, each as "name=value": security.protocol and the like. Default: [].
        schema: Entries are JSON objects with these members, each "NAME: TYPE": "price: float32", "pixels: uint8[28,28]", "tokens: int32[]" (any number), "title: string"; "label: int64" is the entry's label. An entry that is not so is a bad sample. Empty: entries are bytes. Default: []."""
def lines(path: str | Sequence[str], fields: str | Sequence[str] = [], format: Literal["auto", "jsonl", "csv", "text"] = 'auto', delimiter: str = '', header: bool = True, block_bytes: int | str = '4MB', max_unpacked_bytes: int | str = '4GB') -> Pipeline:
    """Rows of text files: JSON lines, CSV, or plain lines; also compressed.

    Fields: one for each column or key, of plain text the field text; on request row (int64, from 0 on over all files). By looking, a column of whole numbers is int64, of numbers float32, of truth values bool, of lists of numbers a list of any length, anything else text (bytes of UTF-8; objects as JSON). A cell that is empty, null or missing is NaN where numbers are float, empty where they are text, and else a bad sample, as is whatever does not fit its field's type. Empty lines count only in plain text. Cells of CSV may be quoted, with line ends and doubled quotes inside. Rows are counted in one pass when the run opens; files are read in blocks cut at row ends, a compressed file is one block.

    Parameters:
        path: Files: names, patterns with braces or wildcards, folders. Endings .gz and .zst are unpacked.
        fields: Columns or keys to take, each a field: "NAME:TYPE" with a type of text, int64, float32, float64 or bool; of JSON also lists, [] or [8]: "box:float32[4]"; under another name: "label=class:int64". Empty: all there are, typed by looking at the first 1,000 rows. Default: [].
        format: auto: by the first file's ending: .jsonl, .ndjson and .json; .csv and .tsv; else plain text. Default: "auto".
        delimiter: The character between the cells of CSV; empty: a comma, in .tsv a tab. Default: "".
        header: The first row of each CSV file has the columns' names; else they are called c0, c1, and so on. Default: true.
        block_bytes: Read and parse about as much at once. Default: "4MB".
        max_unpacked_bytes: Refuse compressed files that have more. Default: "4GB"."""
def parquet(path: str | Sequence[str], columns: str | Sequence[str] = [], where: object = None, nulls: Literal["error", "fill", "mask"] = 'error', fill: object = 0, ragged: bool = False, store: str = '') -> Pipeline:
    """The rows of Parquet files.

    Fields: the columns, in the order of the first file; members of structs are called a.b, strings, bytes and lists are of varying length, lists of one length are dense; then the columns of folders such as year=2024 (int64 where all are whole numbers, else a string); on request index (int64). An image or sound that Hugging Face keeps as {bytes, path} is the field of its bytes. A row group is a block, so "shuffle": true is a shuffle in windows (docs/shuffle.md). Only wanted columns are read. The footer of the first file is read when the pipeline is, and all when the run opens; with `where`, also the columns of the condition, where statistics do not settle it.

    Parameters:
        path: Files, folders (their files that end in .parquet; nothing that begins with "_" or ".") or patterns such as "data/*.parquet" and "data/**/*.parquet"; in this order, those of a folder or pattern by name.
        columns: Columns to read, by name or pattern ("feature_*"); a struct's name takes all of it. Empty: all. Nothing else is read. Default: [].
        where: Only rows for which a condition holds: ["and", [">", "age", 30], ["in", "country", ["DE", "FR"]]]; also ==, !=, <, <=, >=, not_in, is_null, not_null, or, not. Default: null.
        nulls: What a null becomes: error (ends the run, naming row and column), fill (the value of `fill`; strings and lists are empty), or mask (as fill, with a field NAME.mask). Default: "error".
        fill: What stands for a null number: a number, or "nan" for columns of floats. Default: 0.
        ragged: Lists are always fields of varying length; else a list that has one length in all rows of the first file is dense. Default: false.
        store: The folder of a store, as of a cache, in which footers and the rows that `where` leaves are kept, so that the next start reads neither; "auto" is the user's own. Empty: nothing is kept. Default: ""."""
def redis_stream(url: str, keys: str | Sequence[str], quantum: int = 1, from_: int = 0, until: int = 0, value: str = 'value', label: str = 'label', key: str = 'key', time: str = 'time', patience: float = 60, schema: str | Sequence[str] = []) -> Pipeline:
    """The entries of Redis streams, as they grow.

    Fields: value (bytes), or the members of `schema`; label (int64); on request key (bytes), time (int64) and index (int64); with "rehearse" also is_replay (uint8) and weight (float32), and on request extra (float32, of varying length: what the trainer gave back). Needs Redis 7. Each key is a partition; `quantum` entries of each are taken in turn, whatever comes first (docs/streams.md). Entries are numbered from 0 in the order in which they were added. There are no consumer groups, and nothing is written to the server. An entry without the field `value`, or whose label or time is no whole number, is a bad sample. Entries may be trimmed, but not deleted one by one. A server that is away is tried again.

    Parameters:
        url: The server: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss:// with TLS, or redis+unix://[[USER]:PASSWORD@]/PATH[?db=DB].
        keys: The streams' keys: partition 0, partition 1 and so on.
        quantum: How many entries are taken of a partition before it is the next one's turn. Default: 1.
        from: The number of the first entry, in each partition. Entries are numbered from 0 as they were added, also where the oldest are gone. Default: 0.
        until: The run ends before this entry of each partition; 0: never. Default: 0.
        value: The field of an entry that is the sample. Default: "value".
        label: The field with the label, a whole number; where it is missing the label is 0. Default: "label".
        key: The field with the key; where it is missing the key is empty. Default: "key".
        time: The field with the time, in nanoseconds since 1970; where it is missing, the time is that of the entry's id. Default: "time".
        patience: Seconds that the server may be away or silent before the run ends with an error; it is tried again all the time. Default: 60.
        schema: Entries are JSON objects with these members, each "NAME: TYPE": "price: float32", "pixels: uint8[28,28]", "tokens: int32[]" (any number), "title: string"; "label: int64" is the entry's label. An entry that is not so is a bad sample. Empty: entries are bytes. Default: []."""
def segments(path: str | PathLike[str], follow: bool = False, partitions: int = 0, quantum: int = 1, from_: int = 0, until: int = 0, schema: str | Sequence[str] = []) -> Pipeline:
    """The entries of a stream in a folder, as it is now or as it grows.

    Fields: value (bytes), or the members of `schema`; label (int64); on request key (bytes), time (int64) and index (int64); with "rehearse" also is_replay (uint8) and weight (float32), and on request extra (float32, of varying length: what the trainer gave back). `millrace append` writes such streams (docs/streams.md). As it is now: all partitions, one after the other; what is appended after the run began is not looked at. About 4 MB are a block, so "shuffle": true is a shuffle in windows (docs/shuffle.md). With "follow": true the run waits for what is appended: `quantum` entries of each partition in turn, whatever comes first. An entry that is damaged is a bad sample. Samples cannot be stored in a cache.

    Parameters:
        path: The stream's folder.
        follow: Go on with what is appended while the run goes on, in the stream's order; without it a run sees what is there when it opens. Default: false.
        partitions: With follow: how many partitions take part; 0: as many as there are at the start. Default: 0.
        quantum: With follow: how many entries are taken of a partition before it is the next one's turn. Default: 1.
        from: With follow: the number of the first entry, in each partition. Default: 0.
        until: With follow: the run ends before this entry of each partition; 0: never. Default: 0.
        schema: Entries are JSON objects with these members, each "NAME: TYPE": "price: float32", "pixels: uint8[28,28]", "tokens: int32[]" (any number), "title: string"; "label: int64" is the entry's label. An entry that is not so is a bad sample. Empty: entries are bytes. Default: []."""
def synthetic(samples: int = 1000, shape: int | Sequence[int] = [1024]) -> Pipeline:
    """Samples made of nothing: every byte of sample i is i mod 256.

    Fields: data (uint8 of the given shape) and index (int64).

    Parameters:
        samples: Number of samples. Default: 1000.
        shape: Shape of a sample; three numbers make it an image (height, width, channels). Default: [1024]."""
def tar(path: str | Sequence[str], fields: str | Sequence[str] = [], numbers: str | Sequence[str] = [], index: Literal["read", "write", "none"] = 'read', block_bytes: int | str = '16MB', max_unpacked_bytes: int | str = '4GB', in_memory: bool = False) -> Pipeline:
    """Samples in tar shards, by WebDataset's rules.

    Files that follow each other and have the same key are one sample: the key is the name up to the first dot after the last slash, the rest is the extension, which names the field. Fields: one for each extension (bytes, or int64 as `numbers` says), on request key (bytes) and index (int64). A sample that lacks a field somebody wants is a bad sample; files with other extensions are left out. With "shuffle": true shards are mapped and samples taken one by one; else, and where shards are compressed, they are read in blocks (a compressed shard is one block). ustar, GNU long names and pax are understood; links, folders and what lies under a name such as __meta__ are left out; a sparse file, a wrong checksum, a name with .. and a shard that is cut off are errors that name the byte. Shards must not be cut shorter while a run uses them.

    Parameters:
        path: Shards: names of files, patterns with braces (train-{0000..0123}.tar) or wildcards, folders. Endings .gz, .tgz, .zst and .lz4 are unpacked.
        fields: Extensions to take, each a field, "jpg"; several that stand for one, "jpg;jpeg;png"; under another name, "image=jpg;png". Empty: those of the first 16 samples, pictures first. Default: [].
        numbers: Fields that are whole numbers written as text (cls): int64 instead of bytes. Default: [].
        index: An index as DALI's wds2idx writes it, SHARD.idx or with .idx in place of the shard's ending: read it where there is one that fits, also write it where there is none, or leave it alone. Samples are the same with and without; a compressed shard that has one is not unpacked when the run opens. Default: "read".
        block_bytes: Read about as much at once, where samples are not taken one by one. Default: "16MB".
        max_unpacked_bytes: Refuse compressed shards that have more. Default: "4GB".
        in_memory: Where samples are taken one by one ("shuffle": true), unpack compressed shards once and keep them all in memory: the order is that of shards that are not compressed. Default: false."""
def tfrecord(path: str | Sequence[str], fields: str | Sequence[str] = [], index: Literal["read", "write", "none"] = 'read', block_bytes: int | str = '16MB', max_unpacked_bytes: int | str = '4GB') -> Pipeline:
    """The records of TFRecord files; features of a tf.train.Example become fields.

    Fields: one for each feature (bytes, int64, float32; one number, a fixed number of them or any), on request record (the record's bytes) and index (int64). Where the first record is not a tf.train.Example, record is the only field. Looking at the first record, a feature with one number is a number, one with more is a list of any length, and one with several pieces of bytes is left out. A feature that is missing is a bad sample; a list that is missing is empty. Both checksums of every record are verified: the length's when the files are opened (unless an index says where records begin), both when a record is used. With "shuffle": true files are mapped and records taken one by one, unless they are compressed or a list of any length is wanted; else they are read in blocks.

    Parameters:
        path: Files: names, patterns with braces (train-{00000..01023}-of-01024) or wildcards, folders. Endings .gz and .zst are unpacked.
        fields: Features to take, each a field: "NAME:TYPE" with a type of bytes, int64 or float32, one number, or [8] for eight or [] for any number of them: "box:float32[4]"; under another name: "image=image/encoded:bytes". Empty: those of the first record, pictures first, then by name. Default: [].
        index: An index as tfrecord2idx writes it, FILE.idx or with .idx in place of the file's ending: read it where there is one that fits, also write it where there is none, or leave it alone. Default: "read".
        block_bytes: Read about as much at once, where samples are not taken one by one. Default: "16MB".
        max_unpacked_bytes: Refuse compressed files that have more. Default: "4GB"."""
def tokens(path: str | Sequence[str], length: int, stride: int = 0, labels: bool = False, dtype: Literal["uint16", "uint32", "int32", "int64"] = 'uint16', documents: Literal["across", "within"] = 'across', end: int = -1) -> Pipeline:
    """Windows of a long row of tokens, in flat files or Megatron's .bin and .idx.

    Fields: tokens (as many as `length` says, in the file's own type), labels (the tokens one further) where they are asked for, on request index (int64). Files are mapped; no sample runs from one file into the next, and what is left at the end of a file is left out. The dataset's fingerprint covers sizes, parameters and 64 pieces of 4 KiB spread over each file. Files must not be cut shorter while a run uses them: the system then ends the process (SIGBUS).

    Parameters:
        path: Files of tokens: names, patterns with braces or wildcards, folders (their .bin files). Where Megatron's .idx lies beside a .bin, it is read.
        length: Tokens in a sample.
        stride: Tokens from the beginning of a sample to that of the next; 0: as many as it has. Default: 0.
        labels: Also give the tokens that follow each token, as field labels. Default: false.
        dtype: Type of a flat file's tokens, little-endian; an .idx says it itself. Default: "uint16".
        documents: Whether samples run across the ends of documents, or lie within one; what is left of a document then, and documents that are too short, are left out. Default: "across".
        end: The token that ends a document of a flat file, where samples lie within; the whole file is looked through for it when the run opens. Default: -1."""


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
    def shuffle(self, shuffle: bool | Mapping[str, Any] = True, *, window: int | str | None = None,
                lanes: int | None = None) -> Pipeline: ...
    def kinds(self, kinds: Mapping[str, _Kind] | None = None, /, **named: _Kind) -> Pipeline: ...
    def auto_cache(self, **parameters: Any) -> Pipeline: ...
    def rehearse(self, size: int = 0, **parameters: Any) -> Pipeline: ...
    def pace(self, **parameters: Any) -> Pipeline: ...
    def map_batch(self, function: Callable[..., Any]) -> Pipeline: ...
    def take(self, count: int) -> Pipeline: ...
    def skip(self, count: int) -> Pipeline: ...
    def every(self, step: int, offset: int = 0) -> Pipeline: ...
    def split(self, name: str, parts: Mapping[str, float], salt: str = "") -> Pipeline: ...
    def where(self, condition: str) -> Pipeline: ...
    def repeat(self, times: int) -> Pipeline: ...
    def weights(self, field: str, count: int = 0) -> Pipeline: ...
    def balance(self, field: str = "label", count: int = 0) -> Pipeline: ...
    def bucket(self, field: str | None = None, *, size: int = 0, groups: int = 100,
               lanes: bool = False) -> Pipeline: ...
    def loader(self, *, seed: int | None = None, epochs: int | None = None,
               batch: int | None = None, to: Literal["numpy", "torch", "jax"] = "numpy",
               threads: int | Literal["auto"] = 0, rank: int | None = None, world: int | None = None,
               digest: bool = False, ragged: Literal["values", "nested"] = "values",
               pin: bool | None = None, state: Mapping[str, Any] | None = None,
               batches_ahead: int = 0, reads: int = 0, read_ahead_bytes: int = 0,
               io: Literal["auto", "uring", "pread"] = "auto", disable_cpu: str | None = None,
               allocator: Callable[[int], Any] | None = None,
               trace: str | PathLike[str] | None = None,
               journal: str | PathLike[str] | None = None,
               fabric: str | None = None, policy: Any = None) -> Loader: ...
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
    def remainder(self, remainder: Literal["keep", "drop", "pad", "even"]) -> Pipeline:
        """What becomes of samples that do not fill the last batch: keep (a short batch, of which some ranks may get nothing), drop, pad (filled up from the start of the epoch's order; every rank takes the same number of steps), or even (a short batch, filled up in this way until every rank has as many: what torch's DistributedSampler does).

        Parameters:
            remainder: What becomes of samples that do not fill the last batch: keep (a short batch, of which some ranks may get nothing), drop, pad (filled up from the start of the epoch's order; every rank takes the same number of steps), or even (a short batch, filled up in this way until every rank has as many: what torch's DistributedSampler does)."""
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
    def threads(self, threads: Literal["cpus", "auto"]) -> Pipeline:
        """Where the caller names no number: cpus (one for each CPU) or auto (as many as are of use, adapted while it runs, with reads and batches ahead; see docs/tune.md). The bytes are the same.

        Parameters:
            threads: Where the caller names no number: cpus (one for each CPU) or auto (as many as are of use, adapted while it runs, with reads and batches ahead; see docs/tune.md). The bytes are the same."""
    def affine(self, degrees: float | Sequence[float] = 0, translate: float | Sequence[float] = [], scale: float | Sequence[float] = [1], shear: float | Sequence[float] = [0, 0], center: float | Sequence[float] = [], filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns, shifts, scales and shears the image by random amounts.

        For the same values equal to torchvision's affine over Pillow 13's Image.transform. Draw 0 is the angle; draws 1 and 2 the shift, uniform in [-share * side, share * side] and rounded, halves to even; draw 3 the scale; draws 4 and 5 the shear along x and y; each uniform in its range. Sine, cosine and tangent are millrace's own, within two units in the last place of libm's: where a value lies between two bytes, as in the middle of an image of odd sides, it may become the other one.

        Parameters:
            degrees: Angles to draw from, with the clock: f for [-f, f], or [low, high]. Default: 0.
            translate: Largest shift as a share of the width and of the height; one number is for both. Default: [].
            scale: Factor, or [smallest, largest]. Default: [1].
            shear: Degrees: f for [-f, f] along x, [low, high] along x, or both ranges, x then y. Default: [0, 0].
            center: [x, y] that stays where it is but for the shift; empty: the middle. Default: [].
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def auto_augment(self, policy: Literal["imagenet", "cifar10", "svhn"] = 'imagenet', filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes the image by one of 25 pairs of changes that were found for a dataset.

        torchvision's AutoAugment over Pillow, with its three policies, for the same draws. Draw 0 is the pair, below(25). Part i = 0, 1 of it is done if draw 1 + i, uniform in [0, 1), is below its probability; where it has a sign it is negative if below(draw 3 + i, 2) is 0. Changes are those of rand_augment with 10 bins, and invert.

        Parameters:
            policy: The dataset for which the pairs were found. Default: "imagenet".
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def autocontrast(self, cutoff: float | Sequence[float] = 0, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Stretches the values of each channel to the full range.

        Equal to Pillow's ImageOps.autocontrast. Done if draw 0, uniform in [0, 1), is below p.

        Parameters:
            cutoff: Percent of the values to leave out at both ends, or at the low and at the high one. Default: 0.
            p: Probability of doing it, by draw 0. Default: 1."""
    def bpe_encode(self, tokenizer: str, digest: str = '', add_special_tokens: bool = True, dtype: Literal["int32", "int64"] = 'int32', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns text into the ids of a byte-level BPE tokenizer.

        Equal to the tokenizers package's Tokenizer.from_file(f).encode(text).ids, on any text; letters and numbers are those of Unicode 16. The pre-tokenizers of GPT-2 and Llama 3, added tokens, and templates; a file that asks for more is refused. Text that is not UTF-8 is an error of the sample.

        Parameters:
            tokenizer: A tokenizer.json file of Hugging Face's tokenizers.
            digest: The file's XXH3 hash of 128 bits, 32 hexadecimal digits as xxh128sum prints them; checked when the file is opened. Without it nothing that is made with the file is ever cached. Default: "".
            add_special_tokens: Put the tokens around a text that the file's template has, a begin of text for instance. Default: true.
            dtype: Element type of the ids. Default: "int32"."""
    def bucketize(self, boundaries: float | Sequence[float], right: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns numbers into the index of the interval they lie in.

        Equal to torch.bucketize with the same right, and to numpy.digitize with the opposite one. Compared in float64. NaN gets the last bucket.

        Parameters:
            boundaries: Rising numbers between the buckets; n of them make n + 1 buckets.
            right: Whether a number equal to a boundary belongs to the bucket after it. Default: false."""
    def cache(self, size: int | str = '20GB', path: str | PathLike[str] = '', tier: Literal["disk", "memory"] = 'disk', compression: Literal["none", "lz4", "zstd"] = 'none', group: bool = False, keep: Literal["samples", "index", "auto"] = 'samples', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Keeps samples as they are here, for every later epoch, run and job.

        Everything before it must be deterministic. A sample is named by its content (files: inode, size and times of change) and by the ops before the cache with their parameters, versions and libraries, so pipelines that begin alike share the work, and nothing stale is served. Bytes are the same with and without it; a store that fails is reported once, and the samples are made again. See docs/cache.md.

        Parameters:
            size: The most that the store may take. Default: "20GB".
            path: Folder of the store (~/ is the user's home); empty: one for all pipelines of the user, below $XDG_CACHE_HOME or ~/.cache (tier memory: below /dev/shm). Default: "".
            tier: disk, or memory: shared by the processes of this machine, and gone with the last of them. Default: "disk".
            compression: How values are packed: none, lz4 or zstd. Default: "none".
            group: Share the store with the folder's group; else it is the user's alone. Default: false.
            keep: samples: as they are here, and what decode_image behind it finds out about their files (where the rows of a JPEG begin). index: the latter alone. auto: of a pipeline's caches that say so, the one that pays works, as a model of the costs says when the loader is opened. Default: "samples"."""
    def cast(self, dtype: Literal["float32", "float16", "bfloat16", "uint8", "int32", "int64"], scale: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes the element type; layout and shape stay.

        Arithmetic is float32, then rounded to nearest, ties to even. Floats to uint8 are rounded the same way and cut to 0 .. 255; NaN becomes 0. int32 and int64 are made of whole numbers; one that does not fit makes the sample a bad one.

        Parameters:
            dtype: Element type of the output.
            scale: uint8 to float: divide by 255; uint16: by 65535; float or uint16 to uint8: multiply by 255. Default: false."""
    def center_crop(self, size: int | Sequence[int], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts the middle out of the image.

        Starts at round((side - size) / 2), halves to even, as torchvision does. Where the image is smaller, zeros are put around it: floor((size - side) / 2) before it, the rest behind it.

        Parameters:
            size: A number for a square, or [height, width]."""
    def clip(self, low: float, high: float, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Brings numbers into a range.

        Equal to numpy's clip and torch's clamp, bit for bit; NaN stays NaN.

        Parameters:
            low: Numbers below become this one.
            high: Numbers above become this one."""
    def color_jitter(self, brightness: float | Sequence[float] = 0, contrast: float | Sequence[float] = 0, saturation: float | Sequence[float] = 0, hue: float | Sequence[float] = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes brightness, contrast, saturation and hue by random factors.

        For the same factors and order equal to torchvision over Pillow bit for bit (ImageEnhance, and the hue in 8-bit HSV shifted by trunc(255 * factor)). Draws 0 .. 3 are the factors of brightness, contrast, saturation and hue, uniform in their ranges. The order starts as these four; for i = 3, 2, 1, with draws 4, 5, 6: exchange entries i and below(i + 1). A part whose range is only its neutral value (1, hue: 0) is left out.

        Parameters:
            brightness: f for factors in [max(0, 1 - f), 1 + f]; or [low, high]. Default: 0.
            contrast: Likewise, around the mean grey. Default: 0.
            saturation: Likewise; grey images are left as they are. Default: 0.
            hue: f for shifts in [-f, f], or [low, high]; 0.5 is half the circle. Default: 0."""
    def concat(self, name: str, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts fields one behind the other into one tensor, along the first axis.

        Numbers count as vectors of one, so numbers and vectors become one vector; otherwise fields may differ in their first dimension alone. As numpy.concatenate. Fields must have one element type and a fixed size; the new one stands in the place of the first.

        Parameters:
            name: What to call the new field."""
    def crop(self, height: int, width: int, top: int = 0, left: int = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts a fixed rectangle out of the image.

        The box must lie inside the image. Equal to Pillow's Image.crop.

        Parameters:
            top: First row of the box. Default: 0.
            left: First column of the box. Default: 0.
            height: Rows of the box.
            width: Columns of the box."""
    def cusum(self, rows: int | Sequence[int] = [], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Sums up a signal's deviations from its mean, along the last axis.

        Computed in float64; for float64 equal to numpy's cumsum(x - x.mean(-1)), bit for bit.

        Parameters:
            rows: Of two axes, the rows that are summed, the others stay; empty: all. Default: []."""
    def cut_mix(self, alpha: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts a rectangle of the image before it into every image of a batch.

        For the same draws equal to torchvision's v2.CutMix. The share is drawn as in mix_up, with draws 2 and 3, 4 and 5, ...; the middle of the rectangle is x = below(draw 0, width), y = below(draw 1, height); it reaches floor(sqrt(1 - share) / 2 * side) to each side, cut off at the edges. Fields of two and more axes are images, of any type and of one size (so masks go with them); the others are targets and blended by the area that was left.

        Parameters:
            alpha: Of the Beta(alpha, alpha) that a sample's own share is drawn from: 1 is uniform, less is nearer to 0 or 1. Default: 1."""
    def decode_audio(self, dtype: Literal["float32", "int16", "int32", "float64"] = 'float32', mono: bool = False, channels: int = 0, sample_rate: int = 0, max_samples: int = 100000000, max_channels: int = 64, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Decodes a WAV, FLAC, Ogg or MP3 recording.

        Samples are libsndfile's: equal to soundfile.read(f, dtype, always_2d=True), also for mono once the mean is taken (in float64, rounded once). A file that holds less than its header says, or that libsndfile finds an error in, is refused. MP3 is decoded by libmpg123, whose floats may differ in the last bit between CPUs.

        Parameters:
            dtype: Element type of samples: floats from -1 to 1, or whole numbers that fill their type. Default: "float32".
            mono: Give the mean of all channels, as [frames] instead of [frames, channels]. Default: false.
            channels: Refuse files with another number of channels; 0: any. Default: 0.
            sample_rate: Refuse files with another number of frames a second; 0: any. Default: 0.
            max_samples: Refuse files of more samples over all channels, before memory is taken for them. Default: 100000000.
            max_channels: Refuse files of more channels. Default: 64."""
    def decode_image(self, mode: Literal["rgb", "grey", "rgb16", "grey16", "index"] = 'rgb', orient: bool = False, max_pixels: int = 89478485, lenient: bool = False, verify: bool = False, dct_scale: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Decodes a JPEG, PNG or WebP image.

        The pixels equal Pillow's Image.open(f).convert("RGB") (mode rgb) or convert("L") (mode grey), and with orient those after ImageOps.exif_transpose, bit for bit. Alpha is dropped; of an animation the first frame is taken. Files that are damaged are refused, also where Pillow goes on with guessed pixels. rgb16 and grey16 give a PNG's 16 bits as they are stored, and 8 bits times 257. dct_scale leaves out the high frequencies of a JPEG that the next op would average away, and is no part of this promise: the page on pipelines says how much pixels differ. The two ops then run fused even where fuse is false.

        Parameters:
            mode: Colour with three channels, or grey with one; as uint8, or as uint16 (rgb16, grey16) for PNGs of 16 bits a channel. index: the numbers of a PNG with a palette as they are stored, as masks of classes have them; of other images as grey. Default: "rgb".
            orient: Turn the image upright as its EXIF or XMP orientation says. Default: false.
            max_pixels: Refuse images of more pixels, before memory is taken for them. Default: 89478485.
            lenient: Accept files that the decoding library warns about, with the pixels it guesses. Default: false.
            verify: Read every file to its end. Otherwise damage below the part of a JPEG that later ops need goes unseen. Default: false.
            dct_scale: Decode JPEGs at 1/2, 1/4 or 1/8 where the next op is resize or random_resized_crop and makes the image smaller by at least as much. Other pixels, not Pillow's. Default: false."""
    def decode_npy(self, dtype: Literal["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bool"], shape: int | Sequence[int] = [], layout: Literal["plain", "hwc", "chw"] = 'plain', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Reads an array from the bytes of a .npy file.

        Equal to numpy.load, for arrays of numbers in C order and little-endian. What dtype and shape do not say of all samples is an error of the sample that differs. Shards that millrace pack writes are loaded by it.

        Parameters:
            dtype: Element type of every array; another one is an error of the sample.
            shape: Shape of every array; -1 stands for a dimension that varies. Empty: a single number. Default: [].
            layout: What the axes mean: hwc and chw are images. Default: "plain"."""
    def drop(self, fields: str | Sequence[str], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Goes on without some fields of a sample.

        They are not read, unless an earlier op takes them. No value is touched.

        Parameters:
            fields: Names or patterns (feature_*) of the fields to leave out."""
    def elastic(self, alpha: float = 50, sigma: float = 5, filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Bends the image by smooth random moves of its pixels.

        As torchvision's ElasticTransform, which draws as many numbers as there are pixels from torch's generator and samples in float32, so that its bytes cannot be had again. Here: uniform noise in [-1, 1) for each pixel, the upper 24 bits of splitmix64 of draw 0 (along x) or 1 (along y) and the pixel's number; blurred by a Gaussian of sigma over 8 sigma + 1 pixels (made odd), mirrored at the edges, in float32, down, then along; times alpha / 2 pixels. The image is then looked up as Pillow's Image.transform does.

        Parameters:
            alpha: How far pixels move. Default: 50.
            sigma: How far a move spreads to the neighbours, in pixels. Default: 5.
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def embedding_lookup(self, table: str, digest: str = '', dtype: Literal["float32", "float16", "float64"] = 'float32', width: int = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns numbers into rows of a table.

        Equal to numpy's table[numbers]. A number that is no row is an error of the sample.

        Parameters:
            table: A .npy file of two axes: one row for each number.
            digest: The file's XXH3 hash of 128 bits, 32 hexadecimal digits as xxh128sum prints them; checked when the file is opened. Without it nothing that is made with the file is ever cached. Default: "".
            dtype: The table's element type, and the output's. Default: "float32".
            width: How many numbers a row has; 0: as the file says, which is known only once it is open. Default: 0."""
    def encode_jpeg(self, quality: int = 90, subsampling: Literal["4:2:0", "4:2:2", "4:4:4"] = '4:2:0', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Encodes an image as JPEG.

        To keep photos smaller than they came: decode_image, resize, encode_jpeg; cut there (millrace pack --upto encode_jpeg), and decode_image again behind it. Other pixels than without, as any JPEG has. Equal to Pillow's save(quality=..., subsampling=...).

        Parameters:
            quality: As libjpeg counts it; higher is larger and nearer to the image. Default: 90.
            subsampling: Of colour: 4:2:0 has a quarter of it, 4:2:2 half, 4:4:4 all. Default: "4:2:0"."""
    def equalize(self, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Spreads the values of each channel evenly.

        Equal to Pillow's ImageOps.equalize. Done if draw 0, uniform in [0, 1), is below p.

        Parameters:
            p: Probability of doing it, by draw 0. Default: 1."""
    def erasing(self, p: float = 0.5, scale: float | Sequence[float] = [0.02, 0.33], ratio: float | Sequence[float] = [0.3, 3.3], count: int = 1, fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Paints random boxes of the image over.

        Boxes are drawn as in torchvision's RandomErasing. Done if draw 0, uniform in [0, 1), is below p. For box b, attempt k = 0 .. 9, with d = 1 + 40 b + 4 k: area = H * W * range(draw d, scale); r = exp(range(draw d + 1, log of ratio)); h = round(sqrt(area * r)), w = round(sqrt(area / r)), halves to even. If h < H and w < W: first row = below(draw d + 2, H - h + 1), first column = below(draw d + 3, W - w + 1). After ten failures there is no such box. torchvision's comes after normalising, where 0 is the mean; here it comes before, so give the mean as fill for the same.

        Parameters:
            p: Probability of doing it. Default: 0.5.
            scale: Smallest and largest share of the image's area. Default: [0.02, 0.33].
            ratio: Smallest and largest height / width of a box. Default: [0.3, 3.3].
            count: How many boxes. Default: 1.
            fill: What the boxes become, for all channels or for each. Default: [0]."""
    def extract_text(self, part: Literal["main", "all"] = 'main', min_length: int = 80, max_depth: int = 2000, max_bytes: int | str = '64MB', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Takes the readable text out of a web page.

        The page is parsed by libxml2. Scripts, styles, forms' controls, embedded things and elements marked hidden are left out. Block elements (p, div, li, tr, headings ...) begin and end a block; within a block runs of spaces become one, br a line end, table cells are set apart by a space, pre stays as it is. Blocks are joined by line ends. The main part: blocks of at least min_length characters, of which at most a third is in links, and that are not in nav, aside, footer, form, menu or dialog; headings right before such a block; and a single other block with as few links between two of them. Text that is UTF-8 is taken as UTF-8; other text as the page says, else as Latin 1. The output is UTF-8.

        Parameters:
            part: The main part of the page, or all that can be read. Default: "main".
            min_length: Characters that a block of the main part has, if it stands alone. Default: 80.
            max_depth: Refuse pages whose elements are nested deeper. Default: 2000.
            max_bytes: Refuse larger pages. Default: "64MB"."""
    def fill_null(self, value: float = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts a number in the place of missing ones (NaN).

        Equal to numpy's where(isnan(x), value, x).

        Parameters:
            value: What stands in the place of NaN. Default: 0."""
    def five_crop(self, size: int | Sequence[int], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts out the four corners and the middle, as a stack of five images.

        Equal to torchvision's five_crop: upper left, upper right, lower left, lower right, middle. The output has the dimensions [5, height, width, channels]; normalize, cast and to_float take it.

        Parameters:
            size: A number for squares, or [height, width]."""
    def frequency_mask(self, width: int, masks: int = 1, share: float = 1, value: float = 0, axis: int = -2, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Covers bands of frequencies of a spectrogram.

        As in SpecAugment and torchaudio, the same mask for all channels. Of a limit l = min(width, floor(share x places)), mask k takes draw 2k for its width, unit() x l rounded down, and draw 2k + 1 for its first place, unit() x (places - that width before rounding), rounded down.

        Parameters:
            width: A mask covers fewer places than this.
            masks: How many masks; they may overlap. Default: 1.
            share: A mask covers no more than this part of the axis. Default: 1.
            value: What the covered numbers become. Default: 0.
            axis: Which axis is frequency: -2 for spectrograms of layout freq_time, -1 for time_freq. Default: -2."""
    def gaussian_blur(self, size: int | Sequence[int], sigma: float | Sequence[float] = [0.1, 2.0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Blurs the image with a Gaussian of random width.

        torchvision's gaussian_blur: weights exp(-x * x / (2 sigma * sigma)) over their sum, the image mirrored at its edges, rounded to the nearest byte. torchvision sums in float32 in an order that depends on the machine; here it is float32 too, down the columns, then along the row, from the first weight to the last. So a value that lies between two bytes may become the other one; none is further off. Draw 0 is sigma, uniform in its range.

        Parameters:
            size: Pixels that are weighed, odd: a number for both directions, or [height, width].
            sigma: Width of the Gaussian in pixels, or [low, high] to draw from. Default: [0.1, 2.0]."""
    def gaussian_noise(self, mean: float = 0, sigma: float | Sequence[float] = 0.1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Adds normally distributed noise to each value.

        As torchvision's GaussianNoise with clip, on bytes: the sum is rounded to nearest, ties to even, and cut to 0 .. 255. The numbers are millrace's own: byte i of the image takes the (k + 1/2) / 4096 quantile of the normal distribution, k being bits 16 (i mod 4) + 4 and the 11 above them of splitmix64 of draw 0 and i / 4. Draw 1 is sigma, uniform in its range.

        Parameters:
            mean: Mean of what is added; 1 is the range from black to white. Default: 0.
            sigma: Its standard deviation, or [low, high] to draw from. Default: 0.1."""
    def grayscale(self, channels: int = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns colour into grey.

        Equal to Pillow's convert("L"): (19595 R + 38470 G + 7471 B + 32768) / 65536, rounded down. Grey images stay as they are.

        Parameters:
            channels: 1, or 3 equal ones. Default: 1."""
    def hash_bucket(self, buckets: int, seed: int = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns words or ids into one of n numbers by their hash.

        XXH3's 64 bits with the seed, modulo buckets; equal to the xxhash package's xxh3_64_intdigest(word, seed) % buckets. uint8[n] is one word; uint8[..., w] are words filled up with zeros, which are left out. Whole numbers are hashed as 8 little-endian bytes.

        Parameters:
            buckets: How many numbers there are: results go from 0 to one less.
            seed: Another seed, another hash. Default: 0."""
    def index_image(self, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts behind an encoded JPEG where its rows begin.

        For packs and caches of encoded photos (millrace pack --row-index): decode_image then decodes a part of the image without what lies above it, to the same pixels. A few hundred bytes, which other readers of JPEG do not see: they come behind the end of the image. Files of other formats, progressive JPEGs and damaged files stay as they are."""
    def invert(self, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Makes the negative of the image.

        Equal to Pillow's ImageOps.invert. Done if draw 0, uniform in [0, 1), is below p.

        Parameters:
            p: Probability of doing it, by draw 0. Default: 1."""
    def letterbox(self, size: int | Sequence[int], filter: Literal["bilinear", "bicubic", "nearest", "lanczos", "box"] = 'bilinear', fill: int | Sequence[int] = [114], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Resizes the image to fit into a size and puts bars beside it.

        Equal to ImageOps.pad of Pillow 13: the side that would be too long becomes the size, the other one is in proportion, rounded, halves to even; the image lies in the middle, an odd pixel before or behind it so that its place is even. A side is never less than a pixel.

        Parameters:
            size: A number for a square, or [height, width].
            filter: As in resize. Default: "bilinear".
            fill: Value of the bars, for all channels or for each. Default: [114]."""
    def log1p(self, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Takes the logarithm of one more: log(1 + x).

        Computed in float64 and rounded to the output's type: for float32 the nearest number in all but rare cases, within a few units in the last place for float64. -1 becomes minus infinity and numbers below it NaN, as in numpy. Whole numbers become float32."""
    def mel_spectrogram(self, sample_rate: int = 16000, n_fft: int = 400, win_length: int = 0, hop_length: int = 0, window: Literal["hann", "hamming", "ones"] = 'hann', power: Literal["1", "2"] = '2', center: bool = True, pad_mode: Literal["reflect", "constant"] = 'reflect', layout: Literal["freq_time", "time_freq"] = 'freq_time', n_mels: int = 128, f_min: float = 0, f_max: float = 0, mel_scale: Literal["htk", "slaney"] = 'htk', norm: bool = False, log: Literal["none", "log", "log10", "db"] = 'none', log_offset: float = 1e-08, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns sound into a spectrogram on the mel scale, if wanted with its logarithm.

        torchaudio's MelSpectrogram with the same parameters, in float32 and within its rounding errors, then scale x log(x + log_offset); the bits are the same on every CPU. Types and shapes as spectrogram's, with n_mels in the place of n_fft / 2 + 1.

        Parameters:
            sample_rate: Samples in a second, which the filters' frequencies refer to. Default: 16000.
            n_fft: Samples in a transform: even, and without prime factors above 5. Default: 400.
            win_length: Samples under the window, in the middle of n_fft; 0: n_fft. Default: 0.
            hop_length: Samples from one frame to the next; 0: half of win_length. Default: 0.
            window: The window's form; hann and hamming are the periodic ones. Default: "hann".
            power: "2" for squares of magnitudes, "1" for magnitudes. Default: "2".
            center: Whether frame k has its middle at sample k x hop_length, so that the signal is continued by n_fft / 2 on both ends, or its beginning. Default: true.
            pad_mode: How the signal is continued: mirrored, or with zeros. Default: "reflect".
            layout: Which axis is the last; torchaudio has time there. Default: "freq_time".
            n_mels: How many filters. Default: 128.
            f_min: Where the first filter begins, in Hz. Default: 0.
            f_max: Where the last filter ends, in Hz; 0: half of sample_rate. Default: 0.
            mel_scale: Which mel scale. Default: "htk".
            norm: Divide each filter by its width, torchaudio's "slaney". Default: false.
            log: What is taken of the sums: nothing, log, log10, or 10 x log10. Default: "none".
            log_offset: Added before the logarithm; sums below 2^-126 count as that. Default: 1e-8."""
    def mfcc(self, n_mfcc: int = 40, log_mels: bool = False, sample_rate: int = 16000, n_fft: int = 400, win_length: int = 0, hop_length: int = 0, window: Literal["hann", "hamming", "ones"] = 'hann', power: Literal["1", "2"] = '2', center: bool = True, pad_mode: Literal["reflect", "constant"] = 'reflect', layout: Literal["freq_time", "time_freq"] = 'freq_time', n_mels: int = 128, f_min: float = 0, f_max: float = 0, mel_scale: Literal["htk", "slaney"] = 'htk', norm: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns sound into mel-frequency cepstral coefficients.

        torchaudio's MFCC with the same parameters (dct_type 2, norm ortho, top_db 80 of each channel), in float32 and within its rounding errors; the bits are the same on every CPU. norm is the filters' here.

        Parameters:
            n_mfcc: How many coefficients are kept. Default: 40.
            log_mels: log(x + 1e-6) instead of decibels that end 80 below the strongest. Default: false.
            sample_rate: Samples in a second, which the filters' frequencies refer to. Default: 16000.
            n_fft: Samples in a transform: even, and without prime factors above 5. Default: 400.
            win_length: Samples under the window, in the middle of n_fft; 0: n_fft. Default: 0.
            hop_length: Samples from one frame to the next; 0: half of win_length. Default: 0.
            window: The window's form; hann and hamming are the periodic ones. Default: "hann".
            power: "2" for squares of magnitudes, "1" for magnitudes. Default: "2".
            center: Whether frame k has its middle at sample k x hop_length, so that the signal is continued by n_fft / 2 on both ends, or its beginning. Default: true.
            pad_mode: How the signal is continued: mirrored, or with zeros. Default: "reflect".
            layout: Which axis is the last; torchaudio has time there. Default: "freq_time".
            n_mels: How many filters. Default: 128.
            f_min: Where the first filter begins, in Hz. Default: 0.
            f_max: Where the last filter ends, in Hz; 0: half of sample_rate. Default: 0.
            mel_scale: Which mel scale. Default: "htk".
            norm: Divide each filter by its width, torchaudio's "slaney". Default: false."""
    def mix_up(self, alpha: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Blends every sample of a batch with the one before it, targets alike.

        For the same share equal to torchvision's v2.MixUp: sample i becomes share * sample i + (1 - share) * sample i - 1, the first with the last, in float32 and for the halves as torch rounds them; labels must be rows of numbers, as one_hot makes them. The share is of Beta(alpha, alpha), by rejection with draws 0 and 1, 2 and 3, ..., of the batch's first sample. What is mixed with what depends on the batch, so on world and rank.

        Parameters:
            alpha: Of the Beta(alpha, alpha) that a sample's own share is drawn from: 1 is uniform, less is nearer to 0 or 1. Default: 1."""
    def multi_hot(self, classes: int, dtype: Literal["float32", "uint8", "int64"] = 'float32', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns the class numbers of a sample into one row of zeros with a one for each.

        Equal to scikit-learn's MultiLabelBinarizer, with classes 0 to classes - 1, in another element type. Lists may differ in length, and be empty; a number may come twice. A number that is no class is an error of the sample.

        Parameters:
            classes: How many classes there are; numbers go from 0 to one less.
            dtype: Element type of the output. Default: "float32"."""
    def normalize(self, mean: float | Sequence[float] = [0], std: float | Sequence[float] = [1], dtype: Literal["float32", "float16", "bfloat16", "uint8"] = 'float32', layout: Literal["chw", "hwc"] = 'chw', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns bytes into normalised numbers: (byte / 255 - mean) / std.

        Computed in float32, one rounding per operation, equal to torchvision's ToTensor and Normalize on a CPU bit for bit; float16 and bfloat16 are that number rounded to nearest, ties to even. A stack of images, as five_crop gives, is normalised image by image.

        Parameters:
            mean: Subtracted from byte / 255; for all channels or for each. Default: [0].
            std: What the difference is divided by; likewise. Default: [1].
            dtype: Element type of the output; uint8 keeps the bytes and changes only the layout. Default: "float32".
            layout: chw: one plane per channel; hwc: channels last. Default: "chw"."""
    def one_hot(self, classes: int, dtype: Literal["float32", "uint8", "int64"] = 'float32', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns class numbers into rows of zeros with a one.

        Equal to torch.nn.functional.one_hot in another element type. A number that is no class is an error of the sample.

        Parameters:
            classes: How many classes there are; numbers go from 0 to one less.
            dtype: Element type of the output. Default: "float32"."""
    def one_of(self, ops: Sequence[str | Mapping[str, Mapping[str, object]]], weights: float | Sequence[float] = [], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Runs one of several ops.

        Without weights it is the one at below(draw 0, number of ops). With weights: draw 0 in [0, 1) times their sum; the first op whose weight, added to those before it, is above that. All must give the same type. Inner ops draw as in random_apply.

        Parameters:
            ops: Ops of which one is run.
            weights: How likely each is, compared with the others; empty: all are equally likely. Default: []."""
    def pack_batch(self, length: int, rows: int = 0, value: float = 0, longer: Literal["split", "cut"] = 'split', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Lays the sequences of a batch into rows of one length, several to a row.

        Batches have FIELD of shape [rows, length], FIELD_positions (of each number in its sequence) and FIELD_segments (1 for the first sequence of a row, 2 for the next, 0 where there is none), both int32: what attention needs to keep sequences apart. Longest first, each into the first row that has room. It works on batches, so it stands behind all ops on samples; other fields stay one for each sample. Digests of samples are those of the sequences.

        Parameters:
            length: How long a row is.
            rows: Rows of every batch; one that needs more is an error. 0: as many as it needs. Default: 0.
            value: What stands behind the last sequence of a row. Default: 0.
            longer: Sequences longer than a row become several, or their end is left out. Default: "split"."""
    def pad(self, padding: int | Sequence[int], mode: Literal["constant", "edge", "reflect"] = 'constant', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts a border around the image.

        Equal to Pillow's ImageOps.expand (constant) and numpy.pad (edge, reflect), which are what torchvision calls.

        Parameters:
            padding: All sides; or [left and right, top and bottom]; or [left, top, right, bottom].
            mode: constant: fill; edge: the nearest pixel; reflect: mirrored, the edge not repeated. Default: "constant".
            fill: Value of the border with mode constant, for all channels or for each. Default: [0]."""
    def pad_batch(self, length: int = 0, multiple: int = 1, value: float = 0, side: Literal["right", "left"] = 'right', mask: bool = True, cut: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts values of unequal size into one array, filled up to the longest, with a mask.

        Equal to torch.nn.utils.rnn.pad_sequence with batch_first, along every axis that varies. It works on batches, so it stands behind all ops on samples. The length is that of the rank's own part of a batch; digests of samples are those of the values without what fills them up.

        Parameters:
            length: How long all become; 0: as long as the longest of the batch. Default: 0.
            multiple: The length is rounded up to a multiple of this. Default: 1.
            value: What stands where a value has nothing. Default: 0.
            side: Where it is filled up: behind the values, or before them. Default: "right".
            mask: Batches also have FIELD_mask, true where a value is. Default: true.
            cut: The end of values longer than length is left out; else these are an error. Default: false."""
    def permute(self, layout: Literal["chw", "hwc"] = 'chw', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes between channels last and one plane per channel.

        Elements of any type; an image that has the layout already stays as it is. Equal to numpy's transpose.

        Parameters:
            layout: chw: one plane per channel; hwc: channels last. Default: "chw"."""
    def perspective(self, distortion: float = 0.5, p: float = 0.5, filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Moves the four corners of the image inwards by random amounts.

        For the same corners equal to torchvision's perspective over Pillow 13's Image.transform (the map's numbers are rounded to float32, as torchvision does; it solves for them by least squares, here it is Gauss, so the last bit may differ). Done if draw 0, uniform in [0, 1), is below p. With a = floor(distortion * floor(side / 2)): upper left x = below(draw 1, a + 1), y by draw 2; upper right x = W - a - 1 + below(draw 3, a + 1), y by draw 4; lower right by draws 5 and 6, lower left by 7 and 8. Corners that would lie on a line leave the image as it is.

        Parameters:
            distortion: How far corners may move inwards, as a share of half a side. Default: 0.5.
            p: Probability of doing it. Default: 0.5.
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def posterize(self, bits: int = 4, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Keeps the leading bits of each value.

        Equal to Pillow's ImageOps.posterize (bits 0, which Pillow refuses, gives black). Done if draw 0, uniform in [0, 1), is below p.

        Parameters:
            bits: How many leading bits of a value to keep. Default: 4.
            p: Probability of doing it, by draw 0. Default: 1."""
    def power(self, period: int = 128, outputs: str | Sequence[str] = ['active', 'reactive', 'rms_current'], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns voltage and current into power and root mean squares of each period.

        Row 0 is voltage u, row 1 current i. active = mean(u i), rms = sqrt(mean(x x)), apparent = rms(u) rms(i), reactive = sqrt(apparent^2 - active^2), 0 where rounding makes that negative. Computed in float64; for float64 equal to numpy's, bit for bit.

        Parameters:
            period: Samples in one period; what is left behind the last whole one is dropped. Default: 128.
            outputs: Rows of the output, of active, reactive, apparent, rms_voltage and rms_current. Default: ["active", "reactive", "rms_current"]."""
    def rand_augment(self, num_ops: int = 2, magnitude: int = 9, bins: int = 31, filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes the image in a few random ways, all of one magnitude.

        torchvision's RandAugment over Pillow, for the same draws. Step i: the change is below(draw 2 i, 14) of identity, shear_x, shear_y, translate_x, translate_y, rotate, brightness, color, contrast, sharpness, posterize, solarize, autocontrast, equalize; where it has a sign it is negative if below(draw 2 i + 1, 2) is 1. Magnitudes are those of torch.linspace in float32. A shear's tangent is the magnitude itself, which torchvision takes through an angle and back, so its last bit may differ.

        Parameters:
            num_ops: How many changes, one after the other. Default: 2.
            magnitude: How strong they are: a level below bins. Default: 9.
            bins: How many levels there are. Default: 31.
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def random_apply(self, ops: Sequence[str | Mapping[str, Mapping[str, object]]], p: float = 0.5, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Runs a list of ops, all of them or none.

        They run if draw 0, uniform in [0, 1), is below p. The image must come out with the type it had. An inner op draws by its own key: its op word is a hash of its name, of how many of that name come before it in the list, and of this op's word.

        Parameters:
            ops: Ops to run, in order, or not to.
            p: Probability of running them. Default: 0.5."""
    def random_crop(self, size: int | Sequence[int], pad_if_needed: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts a rectangle of fixed size out of the image, at a random place.

        All places are equally likely. Draw 0 is the first row, below(height - size + 1); draw 1 the first column likewise. With pad_if_needed a side that lacks k pixels is first extended by k zeros on both ends, as torchvision does.

        Parameters:
            size: A number for a square, or [height, width].
            pad_if_needed: Put zeros around an image that is too small, instead of refusing it. Default: false."""
    def random_crop_time(self, length: int, axis: int = 0, pad_if_needed: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts a stretch of fixed length out of one axis, at a random place.

        All places are equally likely: draw 0 is the first, below(places - length + 1).

        Parameters:
            length: How many places of the axis are kept.
            axis: Which axis is time: 0 for recordings and for spectrograms of layout time_freq, -1 for those of layout freq_time. Default: 0.
            pad_if_needed: Put zeros behind what is too short, instead of refusing it. Default: false."""
    def random_flip(self, p: float = 0.5, direction: Literal["horizontal", "vertical"] = 'horizontal', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Mirrors the image with a given probability.

        Flips if draw 0, uniform in [0, 1), is below p. Equal to Pillow's Image.transpose.

        Parameters:
            p: Probability of flipping. Default: 0.5.
            direction: horizontal exchanges left and right, vertical top and bottom. Default: "horizontal"."""
    def random_order(self, ops: Sequence[str | Mapping[str, Mapping[str, object]]], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Runs several ops in a random order.

        The order starts as it is given; for i = n - 1 .. 1, with draws 0, 1, ...: exchange entries i and below(i + 1). Each op must keep the type. Inner ops draw as in random_apply, by their place in the list, not in the order.

        Parameters:
            ops: Ops to run, each once."""
    def random_resized_crop(self, size: int | Sequence[int], scale: float | Sequence[float] = [0.08, 1.0], ratio: float | Sequence[float] = [0.75, 1.3333333333333333], filter: Literal["bilinear", "bicubic", "nearest", "lanczos", "box"] = 'bilinear', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts a box of random area, shape and place out of the image and resizes it.

        Boxes are drawn as in torchvision; the pixels are Pillow's crop, then resize, bit for bit. Attempt k = 0 .. 9: area = H * W * range(draw 4k, scale); r = exp(range(draw 4k + 1, log of ratio)); w = round(sqrt(area * r)), h = round(sqrt(area / r)), halves to even. If 1 <= w <= W and 1 <= h <= H: first row = below(draw 4k + 2, H - h + 1), first column = below(draw 4k + 3, W - w + 1). After ten failures: the largest box in the middle of an allowed ratio.

        Parameters:
            size: A number for a square, or [height, width].
            scale: Smallest and largest share of the image's area. Default: [0.08, 1.0].
            ratio: Smallest and largest width / height of the box. Default: [0.75, 1.3333333333333333].
            filter: As in resize. Default: "bilinear"."""
    def rename(self, fields: str | Sequence[str], names: str | Sequence[str], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Gives fields of a sample other names.

        Names may change places. No value is touched.

        Parameters:
            fields: Fields as they are called.
            names: What to call them, in the same order."""
    def resample_audio(self, from_: int, to: int, quality: Literal["high", "medium", "low", "quick"] = 'high', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes the number of samples a second.

        libsoxr's soxr_oneshot without dither: equal to soxr.resample(x, from, to, quality) of the soxr package. The output has samples x to / from samples, rounded to the nearest.

        Parameters:
            from: Samples a second that come in.
            to: Samples a second that go out.
            quality: libsoxr's recipes HQ, MQ, LQ and QQ. Default: "high"."""
    def resize(self, size: int | Sequence[int], filter: Literal["bilinear", "bicubic", "nearest", "lanczos", "box"] = 'bilinear', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Resizes the image to a size, or its shorter side to a length.

        Equal to Image.resize of Pillow 13 bit for bit. With one number n the longer side is floor(n * longer / shorter), as in torchvision.

        Parameters:
            size: A number: the shorter side, the other in proportion; or [height, width].
            filter: How pixels are weighed; all but nearest widen when shrinking (antialias). Default: "bilinear"."""
    def rotate(self, degrees: float | Sequence[float], expand: bool = False, center: float | Sequence[float] = [], filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns the image by a random angle.

        Equal to Image.rotate of Pillow 13, which torchvision calls, for the same angle. Draw 0 is the angle, uniform in its range. Sine and cosine are millrace's own, within a unit in the last place of libm's, and rounded to 15 decimals as Pillow does.

        Parameters:
            degrees: Angles to draw from, against the clock: f for [-f, f], or [low, high].
            expand: Make the output so large that the turned image fits; only with one angle. Default: false.
            center: [x, y] to turn around, from the upper left corner; empty: the middle. Default: [].
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def select(self, fields: str | Sequence[str], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Goes on with some fields of a sample, in a given order.

        The first one named is the one that later ops work on unless they say otherwise. The others are not read, unless an earlier op takes them. No value is touched.

        Parameters:
            fields: Names or patterns (feature_*) of the fields to go on with."""
    def sharpness(self, factor: float | Sequence[float] = 2, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Makes the image sharper or softer.

        Equal to Pillow's ImageEnhance.Sharpness, which torchvision calls, for the same factor. Done if draw 0, uniform in [0, 1), is below p; draw 1 is the factor, uniform in its range.

        Parameters:
            factor: 0 is smooth, 1 the image, more is sharper; or [low, high] to draw from. Default: 2.
            p: Probability of doing it. Default: 1."""
    def slice(self, start: int = 0, length: int = 0, step: int = 1, axis: int = 0, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Takes a part of one axis.

        Equal to numpy's x[start : start + length * step : step] on that axis, except that a slice that does not fit is refused.

        Parameters:
            start: The first place that is taken; negative: from the end. Default: 0.
            length: How many places are taken; 0: as many as there are. Default: 0.
            step: From one taken place to the next. Default: 1.
            axis: Which axis is cut; negative: from the last. Default: 0."""
    def solarize(self, threshold: float = 128, p: float = 1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns bright values over.

        Equal to Pillow's ImageOps.solarize. Done if draw 0, uniform in [0, 1), is below p.

        Parameters:
            threshold: Values from here on become 255 less themselves. Default: 128.
            p: Probability of doing it, by draw 0. Default: 1."""
    def spectrogram(self, n_fft: int = 400, win_length: int = 0, hop_length: int = 0, window: Literal["hann", "hamming", "ones"] = 'hann', power: Literal["1", "2"] = '2', center: bool = True, pad_mode: Literal["reflect", "constant"] = 'reflect', layout: Literal["freq_time", "time_freq"] = 'freq_time', *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns sound into the strength of each frequency in short stretches.

        torchaudio's Spectrogram with the same parameters (normalized is false), computed in float32 and within its rounding errors; the bits are the same on every CPU. int16 and int32 count as parts of 2^15 and 2^31. [samples] becomes [n_fft / 2 + 1, frames], [samples, channels] becomes [channels, n_fft / 2 + 1, frames].

        Parameters:
            n_fft: Samples in a transform: even, and without prime factors above 5. Default: 400.
            win_length: Samples under the window, in the middle of n_fft; 0: n_fft. Default: 0.
            hop_length: Samples from one frame to the next; 0: half of win_length. Default: 0.
            window: The window's form; hann and hamming are the periodic ones. Default: "hann".
            power: "2" for squares of magnitudes, "1" for magnitudes. Default: "2".
            center: Whether frame k has its middle at sample k x hop_length, so that the signal is continued by n_fft / 2 on both ends, or its beginning. Default: true.
            pad_mode: How the signal is continued: mirrored, or with zeros. Default: "reflect".
            layout: Which axis is the last; torchaudio has time there. Default: "freq_time"."""
    def stack(self, name: str, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Puts fields of one shape into one tensor, along a new first axis.

        n fields of shape [a, b] become one of shape [n, a, b], in the order in which they are named; n numbers become a vector. As numpy.stack. Fields must have one element type and a fixed size; the new one stands in the place of the first.

        Parameters:
            name: What to call the new field."""
    def standardize(self, mean: float | Sequence[float], std: float | Sequence[float], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Subtracts a mean and divides by a deviation: (x - mean) / std.

        In float32 (float64 for float64), one rounding per operation, as numpy and torch compute it. Whole numbers become float32 first.

        Parameters:
            mean: Subtracted: one number, or one for each place of the last axis.
            std: What the difference is divided by; likewise."""
    def ten_crop(self, size: int | Sequence[int], vertical: bool = False, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Cuts out the corners and the middle, of the image and of its mirror image.

        Equal to torchvision's ten_crop: five_crop of the image, then of the mirrored one. The output has the dimensions [10, height, width, channels]; normalize, cast and to_float take it.

        Parameters:
            size: A number for squares, or [height, width].
            vertical: Exchange top and bottom for the second five, instead of left and right. Default: false."""
    def time_mask(self, width: int, masks: int = 1, share: float = 1, value: float = 0, axis: int = -1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Covers stretches of time of a spectrogram.

        As in SpecAugment and torchaudio, the same mask for all channels. Of a limit l = min(width, floor(share x places)), mask k takes draw 2k for its width, unit() x l rounded down, and draw 2k + 1 for its first place, unit() x (places - that width before rounding), rounded down.

        Parameters:
            width: A mask covers fewer places than this.
            masks: How many masks; they may overlap. Default: 1.
            share: A mask covers no more than this part of the axis. Default: 1.
            value: What the covered numbers become. Default: 0.
            axis: Which axis is time: -1 for spectrograms of layout freq_time, -2 for time_freq. Default: -1."""
    def to_float(self, dtype: Literal["float32", "float16", "bfloat16"] = 'float32', max: float = 255, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns bytes into numbers from 0 to 1; shape and layout stay.

        byte / max in float32, then rounded to nearest, ties to even, where the type is shorter. Equal to torchvision's ToTensor and to albumentations' ToFloat; torchvision's v2.ToDtype multiplies by 1 / 255, which may be a unit in the last place off.

        Parameters:
            dtype: Element type of the output. Default: "float32".
            max: The byte that becomes 1; what bytes are divided by. Default: 255."""
    def trivial_augment(self, bins: int = 31, filter: Literal["nearest", "bilinear"] = 'nearest', fill: int | Sequence[int] = [0], *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Changes the image in one random way, by a random magnitude.

        torchvision's TrivialAugmentWide over Pillow, for the same draws. Draw 0 is the change, below(14) in the order that rand_augment names; draw 1 the level, below(bins); it is negative where it has a sign and below(draw 2, 2) is 1.

        Parameters:
            bins: How many levels of magnitude there are. Default: 31.
            filter: nearest, or bilinear between the four pixels around a place. Default: "nearest".
            fill: Value of what lies outside of the image, for all channels or for each. Default: [0]."""
    def vocabulary(self, file: str, digest: str = '', unknown: int = -1, *, field: str | Sequence[str] | None = None) -> Pipeline:
        """Turns words into their line numbers in a file.

        uint8[n] is one word; uint8[..., w] are words filled up with zeros, which are left out. Words are compared byte by byte. A word that stands twice in the file is refused.

        Parameters:
            file: A text file with one word in each line; the first is number 0.
            digest: The file's XXH3 hash of 128 bits, 32 hexadecimal digits as xxh128sum prints them; checked when the file is opened. Without it nothing that is made with the file is ever cached. Default: "".
            unknown: The number of words that are not in the file. Default: -1."""
