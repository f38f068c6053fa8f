# SPDX-License-Identifier: Apache-2.0
"""The Parquet reader against pyarrow, value by value: a corpus of files by many writers, and tables made
at random. A failing table prints its seed; MILLRACE_SEED repeats it."""
import decimal
import io
import json
import os
import pathlib
import random
import types
import uuid

import numpy as np
import pytest

from mrlib import MrError
from petastorm_schema import schema_pickle

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
reader = pytest.importorskip("parquet_reader")
if reader.lib is None:
    pytest.skip("parquet_probe.so is not built (MR_TESTS)", allow_module_level=True)
Reader = reader.Reader

CORPUS = pathlib.Path(__file__).parents[3] / "shared/data/corpora/parquet"
FILES = sorted(CORPUS.glob("data/**/*.parquet"))
BAD_FILES = sorted(CORPUS.glob("bad_data/*.parquet"))


# ---- What pyarrow has, in our terms ------------------------------------------------------------
def leaves(kind, steps=()):
    """The leaves of an Arrow type in the file's order, as the steps that lead to each."""
    if pa.types.is_struct(kind):
        for i in range(kind.num_fields):
            yield from leaves(kind.field(i).type, steps + (("member", kind.field(i).name),))
    elif pa.types.is_map(kind):
        yield from leaves(kind.key_type, steps + (("pair", 0),))
        yield from leaves(kind.item_type, steps + (("pair", 1),))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or \
            pa.types.is_fixed_size_list(kind):
        yield from leaves(kind.value_type, steps + (("items", None),))
    else:
        yield steps


def plain(kind):
    """A type without units, dictionaries and texts: numbers and bytes."""
    t = pa.types
    if t.is_dictionary(kind):
        return plain(kind.value_type)
    if t.is_struct(kind):
        return pa.struct([(f.name, plain(f.type)) for f in kind])
    if t.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return pa.list_(plain(kind.value_type))
    if t.is_timestamp(kind) or t.is_time64(kind) or t.is_duration(kind) or t.is_date64(kind):
        return pa.int64()
    if t.is_date32(kind) or t.is_time32(kind):
        return pa.int32()
    if t.is_string(kind) or t.is_large_string(kind) or t.is_large_binary(kind):
        return pa.binary()
    return kind


def value(v):
    if isinstance(v, decimal.Decimal):
        return float(v)
    if isinstance(v, uuid.UUID):
        return v.bytes
    if isinstance(v, str):
        return v.encode()
    return float(v) if isinstance(v, np.floating) else v


def follow(v, steps):
    if v is None or not steps:
        return value(v)
    kind, which = steps[0]
    if kind == "member":
        return follow(v[which], steps[1:])
    return [follow(x[which] if kind == "pair" else x, steps[1:]) for x in v]


def expected_columns(table):
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if isinstance(field.type, pa.ExtensionType):
            values = column.to_pylist()
        else:
            values = column.cast(plain(field.type)).to_pylist()
        for steps in leaves(field.type):
            yield [follow(v, steps) for v in values]


def same(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return repr(a) == repr(b)
    return type(a) is type(b) and a == b or a is None and b is None


def difference(ours, theirs):
    for row, (a, b) in enumerate(zip(ours, theirs)):
        if not same(a, b):
            return f"row {row}: {a!r}, pyarrow has {b!r}"
    return f"{len(ours)} rows, pyarrow has {len(theirs)}"


def compare(data, table, **options):
    with Reader(data, **options) as ours:
        columns, groups = ours.columns, len(ours.group_rows)
        theirs = list(expected_columns(table))
        assert len(theirs) == len(columns)
        for c, column in enumerate(columns):
            values = [v for g in range(groups) for v in ours.column(g, c)]
            assert same(values, theirs[c]), \
                f"column {column.name.decode()}: {difference(values, theirs[c])}"


def write(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


# ---- Files by many writers ---------------------------------------------------------------------
REFUSED = {
    "datapage_v1-corrupt-checksum.parquet": "checksum",
    "rle-dict-uncompressed-corrupt-checksum.parquet": "checksum",
}
# pyarrow refuses an optional key; what is in the file, then, by hand.
BY_HAND = {
    "incorrect_map_schema.parquet": [[[b"parent", b"name"]], [[b"another", b"report"]]],
}
LARGE = {"large_string_map.brotli.parquet"}  # two strings of 1 GiB, which pyarrow cannot hold
# Listed as damaged because a reader failed at it: indices of 0 bits into a dictionary of one entry.
# Other writers do the same for constant columns, and pyarrow reads it.
NOT_DAMAGED = {"ARROW-GH-43605.parquet"}


def all_columns(data, **options):
    with Reader(data, **options) as ours:
        return [[v for g in range(len(ours.group_rows)) for v in ours.column(g, c)]
                for c in range(len(ours.columns))]


@pytest.mark.skipif(not FILES, reason="the corpus of Parquet files is not here")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_file_of_the_corpus_equals_pyarrow(path):
    if path.name in LARGE and not os.environ.get("MILLRACE_LARGE"):
        pytest.skip("takes 30 s and 2 GB; set MILLRACE_LARGE=1")
    data = path.read_bytes()
    if path.name in REFUSED:
        with pytest.raises(MrError, match=REFUSED[path.name]):
            all_columns(data)
    elif path.name in BY_HAND:
        assert all_columns(data) == BY_HAND[path.name]
    elif path.name in LARGE:
        with Reader(data) as ours:
            vector = ours.decode(0, 0).contents
            assert (vector.n_rows, vector.n_cells) == (2, 2)
    else:
        compare(data, pq.ParquetFile(path).read())
        compare(data, pq.ParquetFile(path).read(), scalar=True, by_index=True)


@pytest.mark.skipif(not BAD_FILES, reason="the corpus of Parquet files is not here")
@pytest.mark.parametrize("path", BAD_FILES, ids=lambda p: p.name)
def test_damaged_file_of_the_corpus_is_refused(path):
    if path.name in NOT_DAMAGED:
        compare(path.read_bytes(), pq.read_table(path))
        return
    with pytest.raises(MrError, match="row group [0-9]+, column|schema|footer"):
        all_columns(path.read_bytes())


# ---- Tables made at random ---------------------------------------------------------------------
class Maker:
    """A random table and the options it is written with."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def numbers(self, n, dtype):
        info = np.iinfo(dtype)
        how = self.random.randrange(4)
        if how == 0:
            return self.numpy.integers(info.min, info.max, n, dtype, endpoint=True)
        if how == 1:  # few values: dictionaries and runs
            return self.numpy.integers(0, self.random.choice([1, 2, 3, 100]), n).astype(dtype)
        if how == 2:  # small steps: differences
            return np.cumsum(self.numpy.integers(-3, 5, n)).astype(dtype)
        return np.full(n, self.random.choice([info.min, 0, info.max]), dtype)

    def floats(self, n, dtype):
        a = self.numpy.standard_normal(n).astype(dtype)
        if self.random.random() < 0.5:
            a = self.numpy.choice(a[:max(1, min(n, 9))], n) if n else a
        a[self.numpy.random(n) < 0.05] = self.random.choice([np.nan, -0.0, np.inf])
        return a

    def texts(self, n):
        if self.random.random() < 0.5:
            words = [self.numpy.bytes(self.random.randrange(20)) for _ in range(7)]
            return [self.random.choice(words) for _ in range(n)]
        return [b"common beginning"[:self.random.randrange(17)] +
                self.numpy.bytes(self.random.randrange(30)) for _ in range(n)]

    def leaf(self, n):
        """Values of a random plain type, without nulls."""
        kind = self.random.choice(["int", "int", "float", "float", "bool", "text", "fixed", "string",
                                   "decimal", "date", "time", "timestamp", "half"])
        if kind == "int":
            dtype = self.random.choice([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32,
                                        np.int64, np.uint64])
            return pa.array(self.numbers(n, dtype))
        if kind == "float":
            return pa.array(self.floats(n, self.random.choice([np.float32, np.float64])))
        if kind == "half":
            return pa.array(self.floats(n, np.float16))
        if kind == "bool":
            return pa.array(self.numpy.random(n) < self.random.choice([0.5, 0.01, 1.0]))
        if kind == "text":
            return pa.array(self.texts(n), pa.binary())
        if kind == "string":
            return pa.array([t.hex() for t in self.texts(n)], pa.string())
        if kind == "fixed":
            size = self.random.choice([1, 2, 4, 5, 16, 33])
            return pa.array([self.numpy.bytes(size) for _ in range(n)], pa.binary(size))
        if kind == "decimal":
            digits = self.random.choice([4, 9, 18, 30, 38, 60])
            scale = self.random.randrange(digits)
            context = decimal.Context(prec=digits)
            values = [decimal.Decimal(self.random.randrange(-10 ** digits + 1, 10 ** digits))
                      .scaleb(-scale, context) for _ in range(n)]
            make = pa.decimal128 if digits <= 38 else pa.decimal256
            return pa.array(values, make(digits, scale))
        if kind == "date":
            return pa.array(self.numbers(n, np.int32)).cast(pa.date32())
        if kind == "time":
            return pa.array(self.numpy.integers(0, 86400 * 10 ** 6, n)).cast(pa.time64("us"))
        return pa.array(self.numbers(n, np.int64)).cast(
            pa.timestamp(self.random.choice(["ms", "us", "ns"]), self.random.choice([None, "UTC"])))

    def nulls(self, n):
        share = self.random.choice([0, 0, 0, 0.01, 0.3, 0.9, 1])
        return self.numpy.random(n) < share

    def with_nulls(self, array):
        missing = self.nulls(len(array))
        return array.take(pa.array([None if gone else i for i, gone in enumerate(missing)],
                                   pa.int64())) if missing.any() else array

    def lengths(self, n):
        most = 64 if n <= 500 else 4  # lists in lists grow fast
        if self.random.random() < 0.4:
            return np.full(n, min(most, self.random.choice([1, 2, 5, 64])))
        return self.numpy.integers(0, min(most, self.random.choice([2, 4, 30])), n)

    def array(self, n, depth):
        kind = self.random.choice(["leaf", "leaf", "list", "list", "struct", "map"]) if depth else \
            "leaf"
        if kind == "leaf":
            return self.with_nulls(self.leaf(n))
        if kind == "struct":
            names = ["x", "y"][:self.random.randrange(1, 3)]
            fields = [self.array(n, depth - 1) for _ in names]
            return pa.StructArray.from_arrays(fields, names, mask=pa.array(self.nulls(n)))
        lengths, missing = self.lengths(n), self.nulls(n)
        lengths[missing] = 0
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        mask = pa.array(missing) if missing.any() else None
        items = int(lengths.sum())
        if kind == "list":
            return pa.ListArray.from_arrays(offsets, self.array(items, depth - 1), mask=mask)
        keys = pa.array([t.hex() for t in self.texts(items)], pa.string())
        return pa.MapArray.from_arrays(offsets, keys, self.array(items, depth - 1), mask=mask)

    def table(self):
        n = self.random.choice([0, 1, 7, 100, 1000, 3000])
        arrays = [self.array(n, self.random.randrange(4)) for _ in range(self.random.randrange(1, 6))]
        fields = [pa.field(f"c{i}", a.type, nullable=a.null_count > 0 or self.random.random() < 0.5)
                  for i, a in enumerate(arrays)]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def encodings(self, table):
        """An encoding for each column that allows one, where no dictionary is used."""
        plain_type = pa.types
        chosen = {}
        for field in table.schema:
            t, choices = field.type, ["PLAIN"]
            if plain_type.is_integer(t) or plain_type.is_timestamp(t) or plain_type.is_date32(t):
                choices += ["DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"]
            elif plain_type.is_float32(t) or plain_type.is_float64(t) or plain_type.is_float16(t):
                choices += ["BYTE_STREAM_SPLIT"]
            elif plain_type.is_fixed_size_binary(t):
                choices += ["BYTE_STREAM_SPLIT", "DELTA_BYTE_ARRAY"]
            elif plain_type.is_binary(t) or plain_type.is_string(t):
                choices += ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"]
            elif plain_type.is_boolean(t):
                choices += ["RLE"]
            else:
                continue
            chosen[field.name] = self.random.choice(choices)
        return chosen

    def options(self, table):
        options = {
            "compression": self.random.choice(["none", "snappy", "gzip", "brotli", "zstd", "lz4"]),
            "data_page_version": self.random.choice(["1.0", "2.0"]),
            "data_page_size": self.random.choice([1, 100, 3000, 1 << 20]),
            "write_batch_size": self.random.choice([1, 13, 100, 1024]),
            "row_group_size": self.random.choice([1, 99, 1000, 1 << 20]),
            "write_page_checksum": self.random.random() < 0.5,
            "write_page_index": self.random.random() < 0.5,
            "store_schema": False,
            "use_dictionary": self.random.random() < 0.5,
            "dictionary_pagesize_limit": self.random.choice([20, 1000, 1 << 20]),
        }
        if table.num_rows > 500 and options["row_group_size"] == 1:
            options["row_group_size"] = 300
        if not options["use_dictionary"]:
            options["column_encoding"] = self.encodings(table)
        return options


def seeds(n):
    given = os.environ.get("MILLRACE_SEED")
    return [int(given)] if given else range(n)


def made(seed):
    """A file, and what pyarrow reads from it: the table that was written, but for pages without values
    before the first, at which pyarrow stops reading a nested column."""
    maker = Maker(seed)
    table = maker.table()
    data = write(table, **maker.options(table))
    try:
        again = pq.ParquetFile(io.BytesIO(data)).read()
    except pa.ArrowInvalid as error:
        assert "expected" in str(error)
        return data, table
    return data, again if again.num_rows == table.num_rows else table


@pytest.mark.parametrize("seed", seeds(250))
def test_random_table_equals_pyarrow(seed):
    print(f"MILLRACE_SEED={seed}")
    data, table = made(seed)
    compare(data, table)
    compare(data, table, scalar=True, by_index=True)


# ---- Rows into batches -------------------------------------------------------------------------
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_a_dictionary_that_is_the_column_itself(codec, version):
    """A writer numbers values as they come up; where all differ, the dictionary has them in the rows' order. So it is
    taken for the column until an entry, a null or a page says otherwise."""
    n = 5000
    numbers = np.random.default_rng(1).permutation(10 * n)[:n]
    once, late, early, swapped = (numbers.copy() for _ in range(4))
    late[n - 1], early[1], swapped[2500] = late[0], early[0], swapped[7]
    holes = [None if i == 3000 else int(x) for i, x in enumerate(numbers)]
    columns = {"once": once, "late": late, "early": early, "swapped": swapped, "holes": pa.array(holes, pa.int64()),
               "half": np.concatenate([numbers[:n // 2], numbers[:n // 2]]), "lists": [[int(x)] for x in numbers]}
    table = pa.table({**columns, **{name + "32": np.asarray(columns[name], np.float32) for name in ("once", "late")}})
    for limit in (1 << 20, 4096):  # with the smaller one pages behind the first are plain
        data = write(table, compression=codec, data_page_version=version, dictionary_pagesize_limit=limit,
                     data_page_size=8192, write_batch_size=500)
        compare(data, table)


@pytest.mark.parametrize("seed", seeds(60))
def test_rows_are_copied_where_they_are_wanted(seed):
    print(f"MILLRACE_SEED={seed}")
    data, table = made(seed)
    rows = np.random.default_rng(seed)
    with Reader(data) as ours:
        for g, n in enumerate(ours.group_rows[:3]):
            for c in range(len(ours.columns)):
                vector = ours.decode(g, c)
                wanted = rows.integers(0, n, 20) if n else np.empty(0, np.int64)
                check_rows(ours, vector, c, wanted)
                reader.lib.probe_free(vector)


def check_rows(ours, vector, column, wanted):
    v = vector.contents
    values, meta = reader.rows_of(v), ours.columns[column]
    for field in ours.fields(column, reader.MASK):
        role, dtype = field.role, reader.DTYPES[field.type.dtype]
        if role == 0 and meta.max_rep == 0 and meta.items > 0:  # dense
            size, stride = np.dtype(dtype).itemsize * meta.items, 48
            base = np.zeros((len(wanted) + 1, stride), np.uint8)
            reader._call(reader.lib.probe_copy, vector, field, wanted.ctypes.data, len(wanted),
                         base.ctypes.data, stride)
            got = [base[i, :size].tobytes() for i in range(len(wanted))]
            all_rows = reader._array(v.values, v.n_rows * meta.items, dtype).tobytes()
            assert got == [all_rows[r * size:(r + 1) * size] for r in wanted]
            assert not base[:, size:].any() and not base[len(wanted)].any()
        elif role == 0 and meta.max_rep == 0:
            for r in wanted.tolist():
                n = reader.lib.probe_row(vector, field, r, None)
                room = np.zeros(n + 1, np.uint8)
                reader.lib.probe_row(vector, field, r, room.ctypes.data)
                assert room[:n].tobytes() == (values[r] or b"")
        elif role == 2:
            for r in wanted.tolist():
                lists = [values[r] or []] if field.depth else []
                for _ in range(field.depth - 1):
                    lists = [x or [] for many in lists for x in many]
                expected = [len(x or b"") for many in lists for x in many]
                room = np.zeros(len(expected) + 1, np.int64)
                assert reader.lib.probe_row(vector, field, r, None) == len(expected)
                reader.lib.probe_row(vector, field, r, room.ctypes.data)
                assert room[:-1].tolist() == expected and room[-1] == 0


# ---- Nulls -------------------------------------------------------------------------------------
def test_a_null_is_an_error_that_names_row_and_column():
    table = pa.table({"a": pa.array([1, 2, None, 4, None], pa.int32()), "b": [1.5, 2, 3, 4, 5]})
    with Reader(write(table, row_group_size=2)) as ours:
        ours.decode(0, 0, reader.ERROR)
        with pytest.raises(MrError, match='row group 1, column "a": row 2 of the file is null'):
            ours.decode(1, 0, reader.ERROR)


def test_nulls_are_filled():
    table = pa.table({"a": pa.array([1, None, 3], pa.int16()), "f": [None, 2.5, None]})
    with Reader(write(table)) as ours:
        for column, fill, expected in [(0, -7, [1, -7, 3]), (1, 0.25, [0.25, 2.5, 0.25])]:
            v = ours.decode(0, column, reader.FILL, fill).contents
            dtype = reader.DTYPES[v.column.contents.dtype]
            assert reader._array(v.values, 3, dtype).tolist() == expected
        with pytest.raises(MrError, match='column "a": row 1 is null, which cannot be filled with 1e'):
            ours.decode(0, 0, reader.FILL, 1e6)


def test_nulls_of_half_precision_are_filled():
    table = pa.table({"h": pa.array([np.float16(1.5), None], pa.float16())})
    with Reader(write(table)) as ours:
        for fill in (0, 2.5, -0.1, 1e6, float("nan")):
            v = ours.decode(0, 0, reader.FILL, fill).contents
            with np.errstate(over="ignore"):
                expected = np.array([1.5, fill], np.float64).astype(np.float16)
            assert np.array_equal(reader._array(v.values, 2, np.float16), expected, equal_nan=True)


def test_a_literal_at_the_end_of_int64():
    table = pa.table({"i": pa.array([-2 ** 63, -2 ** 63 + 1, 0, 2 ** 63 - 1])})
    with Reader(write(table)) as ours:
        for op, literal, expected in (("==", -2.0 ** 63, [1, 0, 0, 0]), ("<", -2.0 ** 63, [0] * 4),
                                      (">=", -2.0 ** 63, [1] * 4), ("<", 2.0 ** 63, [1] * 4),
                                      (">", -0.5, [0, 0, 1, 1]), ("<=", -1e19, [0] * 4)):
            assert ours.where(0, [op, "i", literal])[1].tolist() == [bool(b) for b in expected]


def test_lists_of_one_length_are_dense():
    values = np.arange(3000 * 64, dtype=np.float32).reshape(3000, 64)
    table = pa.table({"v": pa.FixedSizeListArray.from_arrays(values.reshape(-1), 64)})
    for version in ["1.0", "2.0"]:
        data = write(table, data_page_size=4000, data_page_version=version, compression="zstd",
                     use_dictionary=False)
        with Reader(data) as ours:
            v = ours.decode(0, 0, reader.ERROR).contents
            assert v.length[0] == 64 and not v.offsets[0] and not v.valid
            assert np.array_equal(reader._array(v.values, v.n_cells, np.float32).reshape(-1, 64),
                                  values)


# ---- Conditions --------------------------------------------------------------------------------
def truth(condition, row):
    """Whether a condition holds for a row; None: neither."""
    op = condition[0]
    if op == "not":
        inner = truth(condition[1], row)
        return None if inner is None else not inner
    if op in ("and", "or"):
        parts = [truth(c, row) for c in condition[1:]]
        decides = op == "or"
        return decides if decides in parts else None if None in parts else not decides
    v = row[condition[1]]
    if op in ("is_null", "not_null"):
        return (v is None) == (op == "is_null")
    if v is None:
        return None
    if op in ("in", "not_in"):
        return (v in condition[2]) == (op == "in")
    w = condition[2]
    return {"==": v == w, "!=": v != w, "<": v < w, "<=": v <= w, ">": v > w, ">=": v >= w}[op]


def random_condition(r, depth=2):
    if depth and r.random() < 0.5:
        op = r.choice(["and", "or", "not"])
        return [op] + [random_condition(r, depth - 1) for _ in range(1 if op == "not" else 2)]
    column = r.choice(["i", "u", "f", "s", "b", "t"])
    literal = {"i": lambda: r.choice([r.randrange(-20, 220), 99.5, 2 ** 62, -1e30, 1e30]),
               "u": lambda: r.choice([r.randrange(0, 200), -1, 0.5, 2 ** 63 - 1, 1.5e19]),
               "f": lambda: r.choice([0.0, 0.25, -1, 3]), "b": lambda: r.random() < 0.5,
               "s": lambda: r.choice(["", "a050", "a1", "b", "a199"]),
               "t": lambda: r.randrange(0, 400)}[column]
    op = r.choice(["==", "!=", "<", "<=", ">", ">=", "in", "not_in", "is_null", "not_null"])
    if op in ("in", "not_in"):
        return [op, column, [literal() for _ in range(r.randrange(4))]]
    return [op, column] if op.endswith("null") else [op, column, literal()]


@pytest.fixture(scope="module")
def ordered():
    """A table in which statistics and pages can rule out much, and its rows."""
    n, numbers = 4000, np.random.default_rng(5)
    floats = numbers.standard_normal(n)
    floats[::50] = np.nan
    columns = {
        "i": pa.array((np.arange(n) // 20).tolist(), pa.int32()),
        "u": pa.array([None if k % 9 == 0 else k // 30 for k in range(n)], pa.uint64()),
        "f": pa.array(floats), "s": pa.array([f"a{k // 20:03}" for k in range(n)]),
        "b": pa.array([k > 3000 for k in range(n)]),
        "t": pa.array([None] * 1500 + [k // 7 for k in range(n - 1500)], pa.timestamp("us"))}
    table = pa.table(columns)
    data = write(table, row_group_size=1000, data_page_size=500, write_batch_size=50,
                 write_page_index=True)
    rows = table.set_column(5, "t", table["t"].cast(pa.int64())).to_pylist()
    return data, rows


@pytest.mark.parametrize("seed", seeds(150))
def test_condition_takes_the_rows_for_which_it_is_true(ordered, seed):
    print(f"MILLRACE_SEED={seed}")
    data, rows = ordered
    condition = random_condition(random.Random(seed))
    with Reader(data, scalar=seed % 2 == 1) as ours:
        for g in range(4):
            expected = [truth(condition, row) is True for row in rows[g * 1000:(g + 1) * 1000]]
            for pages in (False, True):
                verdict, bits = ours.where(g, condition, pages=pages)
                assert bits.tolist() == expected, condition
                assert verdict != 0 or not any(expected), condition
                assert verdict != 2 or all(expected), condition


@pytest.mark.parametrize("column", ["i", "u", "f", "s", "t", "e"])
def test_values_are_found_among_many(column):
    """Literals of every kind, some of them no value's, some twice, in no order."""
    r, n = random.Random(column), 700
    columns = {"i": pa.array([r.randrange(-200, 200) for _ in range(n)], pa.int16()),
               "u": pa.array([r.choice([0, 1, 2 ** 63, 2 ** 64 - 1, r.randrange(300)]) for _ in range(n)], pa.uint64()),
               "f": pa.array([r.choice([0.0, -0.0, float("nan"), float("inf"), r.randrange(90) / 4]) for _ in range(n)]),
               "s": pa.array(["é" * r.randrange(4) + str(r.randrange(30)) for _ in range(n)]),
               "t": pa.array([None if r.random() < 0.2 else r.randrange(300) for _ in range(n)], pa.timestamp("us")),
               "e": pa.array([decimal.Decimal(r.randrange(300)) / 4 for _ in range(n)], pa.decimal128(9, 2))}
    table = pa.table({column: columns[column]})
    values = [value(v) for v in table[column].cast(plain(table[column].type)).to_pylist()]
    known = [v for v in values if v is not None and v == v and v != float("inf") and
             not (isinstance(v, int) and v >= 2 ** 63)]
    literals = [v.decode() if isinstance(v, bytes) else v for v in r.sample(known, 40) * 2]
    literals += {"s": ["", "z", "éé"], "u": [-1, 2.5, 1e30, -1e30, float(2 ** 63), str(2 ** 64 - 1)]}.get(
        column, [-9999, 0.125, 1e30, -1e30])
    meant = {float(v) if column == "u" else v.encode() if isinstance(v, str) else v for v in literals}
    r.shuffle(literals)
    with Reader(write(table, row_group_size=n)) as ours:
        for op in ("in", "not_in"):
            expected = [v is not None and ((float(v) if column == "u" else v) in meant) == (op == "in") for v in values]
            assert ours.where(0, [op, column, literals])[1].tolist() == expected


def test_statistics_rule_row_groups_out(ordered):
    with Reader(ordered[0]) as ours:
        assert [ours.where(g, ["<", "i", 50])[0] for g in range(4)] == [2, 0, 0, 0]
        assert [ours.where(g, ["==", "s", "a075"])[0] for g in range(4)] == [0, 1, 0, 0]
        assert [ours.where(g, ["is_null", "t"])[0] for g in range(4)] == [2, 1, 0, 0]
        assert [ours.where(g, ["<", "f", -1000])[0] for g in range(4)] == [0, 0, 0, 0]


def test_conditions_on_the_path():
    parts = json.loads(reader.lib.probe_partitions(
        b"/data", b"/data/year=2024/kind=a%2Fb/none=__HIVE_DEFAULT_PARTITION__/x=1.parquet"))
    assert parts == {"year": "2024", "kind": "a/b", "none": None}
    with Reader(write(pa.table({"a": [1, 2, 3]}))) as ours:
        for condition, expected in [(["==", "year", 2024], 3), (["<", "year", 2024], 0),
                                    (["==", "kind", "a/b"], 3), (["is_null", "none"], 3),
                                    (["==", "none", "x"], 0),
                                    (["and", ["in", "year", [2023, 2024]], [">", "a", 1]], 2)]:
            assert ours.where(0, condition, parts)[1].sum() == expected, condition


@pytest.mark.parametrize("condition, message", [
    (["~", "i", 3], "begins with an operator"), ([">", "j", 3], 'no column fits "j"'),
    ([">", "i", "x"], "compared with a number"), ([">", "s", 3], "compared with a text"),
    (["in", "i", 3], "takes an array"), (["not"], "take conditions"), (5, "is an array"),
    ([">", "i"], "takes a column")])
def test_wrong_conditions_are_explained(ordered, condition, message):
    with Reader(ordered[0]) as ours:
        with pytest.raises(MrError, match=message):
            ours.where(0, condition)


# ---- Columns and pages -------------------------------------------------------------------------
def test_columns_are_chosen_by_name_and_pattern():
    table = pa.table({"a": pa.array([{"x": 1, "y": [2]}]), "a2": [1], "image": [b"x"]})
    with Reader(write(table)) as ours:
        assert [c.name.decode() for c in ours.columns] == ["a.x", "a.y", "a2", "image"]
        for pattern, expected in [("a", [0, 1]), ("a.x", [0]), ("a*", [0, 1, 2]), ("*", [0, 1, 2, 3]),
                                  ("?2", [2]), ("[h-j]*", [3])]:
            assert ours.select(pattern) == expected
        with pytest.raises(MrError, match='no column fits "imag".*did you mean "image"'):
            ours.select("imag")


def test_only_wanted_pages_are_needed(ordered):
    data, rows = ordered
    with Reader(data) as ours:
        for c, column in enumerate(ours.columns):
            ranges = (reader.Range * 2)(reader.Range(100, 130), reader.Range(700, 705))
            n_bytes = reader.c.c_int64()
            vector = reader._call(reader.lib.probe_decode_ranges, ours.decoder, ours.file, 1, c,
                                  ours.address, ranges, 2, n_bytes)
            v = vector.contents
            got = reader.rows_of(v)
            expected = ours.column(1, c)
            for k in range(v.n_ranges):
                a, b = v.ranges[k].start, v.ranges[k].end
                part = got[v.range_start[k]:v.range_start[k] + b - a]
                assert same(part, expected[a:b])
            covered = {r for k in range(v.n_ranges)
                       for r in range(v.ranges[k].start, v.ranges[k].end)}
            assert set(range(100, 130)) | set(range(700, 705)) <= covered
            assert len(got) < 1000 or column.name == b"b"


# ---- Damage ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", seeds(40))
def test_damage_is_an_error_or_changes_nothing_it_should_not(seed):
    """A file cut off is refused; bytes that are wrong give an error or values, and never more."""
    print(f"MILLRACE_SEED={seed}")
    data, _ = made(seed + 1000)
    r = random.Random(seed)
    for cut in [r.randrange(len(data)) for _ in range(5)]:
        with pytest.raises(MrError):
            all_columns(data[:cut])
    for _ in range(30):
        wrong = bytearray(data)
        for _ in range(r.choice([1, 1, 3])):
            wrong[r.randrange(len(wrong))] = r.randrange(256)
        try:
            all_columns(bytes(wrong))
        except MrError as error:
            assert error.text


def test_checksums_are_checked():
    data = write(pa.table({"a": list(range(1000))}), write_page_checksum=True, compression="none",
                 use_dictionary=False)
    at = data.index(np.array([500, 501], np.int64).tobytes())
    wrong = data[:at] + b"\x55" + data[at + 1:]
    with pytest.raises(MrError, match='row group 0, column "a": the checksum'):
        all_columns(wrong)


def test_lists_in_lists_have_a_bound():
    """16 are read, and one more is refused by name."""
    kind, value = pa.int32(), 7
    for depth in range(1, 18):
        kind, value = pa.list_(kind), [value]
        data = write(pa.table({"deep": pa.array([value, None], kind), "b": [1, 2]}))
        if depth <= 16:
            assert all_columns(data) == [[value, None], [1, 2]]
    with pytest.raises(MrError, match='column "deep.*more than 16 lists in each other'):
        all_columns(data)


# ---- Petastorm ---------------------------------------------------------------------------------
def read_petastorm(data):
    out = (reader.Tensor * 8)()
    n = reader._call(reader.lib.probe_petastorm, data, len(data), out, 8)
    return [(t.name.decode(errors="replace"), t.codec, reader.DTYPES[t.type.dtype] if not t.text else str,
             t.type.dims[:t.type.n_dims], t.nullable) for t in out[:n]]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_schema_of_petastorm_is_read(protocol):
    assert read_petastorm(schema_pickle(protocol)) == [
        ("id", 0, np.int32, [], False), ("image", 3, np.uint8, [-1, -1, 3], False),
        ("matrix", 1, np.float32, [4, -1], True), ("packed", 2, np.int64, [7], False),
        ("name", 0, str, [], True)]


@pytest.mark.parametrize("size", [255, 256, 300, 512, 70000])
def test_a_name_of_petastorms_is_whole_or_refused(size):
    """One cut short would be that of no column."""
    name = "n" * (size - 3) + "end"
    if size == 255:
        assert read_petastorm(schema_pickle(4, last=name))[-1][0] == name
        return
    with pytest.raises(MrError, match=f'"n{{60}}..." has a name of {size} bytes; at most 255') as caught:
        read_petastorm(schema_pickle(4, last=name))
    assert caught.value.code == -6
    with pytest.raises(MrError, match='"a(é){29}.*has a name of 401 bytes'):
        read_petastorm(schema_pickle(4, last="a" + "é" * 200))
    with pytest.raises(MrError, match="zero byte"):
        read_petastorm(schema_pickle(4, last="id\0more"))


class Evil:
    def __reduce__(self):
        return os.mkdir, ("run-by-a-pickle",)


def test_nothing_of_a_pickle_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(read_petastorm(schema_pickle(4, Evil()))) == 5
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("seed", range(5))
def test_damaged_schema_of_petastorm_is_refused_or_read(seed):
    data, r = schema_pickle(4), random.Random(seed)
    for cut in range(0, len(data), 7):
        with pytest.raises(MrError):
            read_petastorm(data[:cut])
    for _ in range(300):
        wrong = bytearray(data)
        wrong[r.randrange(len(wrong))] = r.randrange(256)
        try:
            read_petastorm(bytes(wrong))
        except MrError as error:
            assert error.text


def test_arrays_of_petastorm_are_unzipped():
    out, array = io.BytesIO(), np.arange(1000).reshape(10, 100)
    np.savez_compressed(out, arr=array)
    data, room = out.getvalue(), np.zeros(20000, np.uint8)
    with Reader(write(pa.table({"a": [1]}))) as ours:
        n = reader._call(reader.lib.probe_unzip, ours.decoder, data, len(data), room.ctypes.data,
                         room.size)
        assert np.array_equal(np.load(io.BytesIO(room[:n].tobytes())), array)
        with pytest.raises(MrError):
            reader._call(reader.lib.probe_unzip, ours.decoder, data, len(data) - 1,
                         room.ctypes.data, room.size)
