# SPDX-License-Identifier: Apache-2.0
"""mr.parquet from Python, and Petastorm's readers over it (Petastorm is not needed)."""
import datetime
import decimal
import io
import json
import threading
import time

import numpy as np
import pytest

import millrace as mr
from millrace import petastorm
from petastorm_schema import schema_pickle
from png16 import png16

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows")
    for part in range(2):
        i = np.arange(100) + 100 * part
        pq.write_table(pa.table({"id": i, "x": (i / 2).astype(np.float32), "name": [f"n{v}" for v in i],
                                 "pair": [[v, v + 1] for v in i.tolist()]}),
                       path / f"{part}.parquet", row_group_size=13)
    return path


def test_a_source_with_paths_columns_and_a_condition(folder):
    pipeline = mr.parquet([folder / "0.parquet", folder / "1.parquet"], columns=["id", "na*"],
                          where=["and", [">=", "id", 50], ["<", "id", 120]])
    assert set(pipeline.types) >= {"id", "name"} and "x" not in pipeline.types
    with pipeline.batch(16).shuffle({"window": 3}).loader(seed=2, epochs=1) as loader:
        rows = [(int(i), n) for b in loader for i, n in zip(b["id"], b["name"].texts())]
    assert sorted(rows) == [(i, f"n{i}") for i in range(50, 120)]
    with pytest.raises(ValueError, match="nosuch"):
        mr.parquet(folder, columns=["nosuch"]).batch(1).loader()


def test_a_view_of_text_names_the_condition_of_the_source(folder):
    with pytest.raises(ValueError, match='field "name" is') as caught:
        mr.parquet(folder).where("name == 'n3'").loader()
    said = 'mr.parquet(..., where=["==", "name", "text"])'
    assert said in caught.value.hint
    assert ids_where(folder, ["==", "name", "n3"]) == [3]


@pytest.mark.parametrize("nulls", ["fill", "mask"])
def test_a_fill_matters_where_a_column_has_a_null(tmp_path, nulls):
    """Columns that pyarrow writes may have nulls by their schema, also where there are none."""
    path, nan = tmp_path / "a.parquet", float("nan")
    columns = {"id": range(6), "flag": [True] * 6, "x": [0.5, None] * 3, "n": [1, 2, None, 4, 5, 6]}
    pq.write_table(pa.table(columns), path, row_group_size=3)

    def rows(columns, **options):
        with mr.parquet(path, columns=columns, nulls=nulls, fill=nan, **options).shuffle(False).batch(2).loader(
                epochs=1) as loader:
            return [float(v) for batch in loader for v in batch[columns[-1]][:batch.valid]]

    assert rows(["flag", "x", "id"]) == list(range(6))
    assert np.array_equal(rows(["id", "x"]), [0.5, nan] * 3, equal_nan=True)
    assert rows(["n"], where=["!=", "id", 2]) == [1, 2, 4, 5, 6]  # nobody wants that null
    with pytest.raises(mr.SampleError, match='column "n": row 2 is null, which cannot be filled with nan') as caught:
        rows(["n"])
    assert "fill=" in caught.value.hint and "on_error" not in str(caught.value)


def test_nan_fills_floats_of_petastorms_readers(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(6), "x": [0.5, None] * 3}), path)
    with petastorm.make_batch_reader(f"file://{path}", nulls="fill", fill=float("nan"), shuffle_row_groups=False,
                                     num_epochs=1) as reader:
        batches = list(reader)
    assert np.concatenate([batch.id for batch in batches]).tolist() == list(range(6))
    assert np.isnan(np.concatenate([batch.x for batch in batches])).sum() == 3


UNITS = {"ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}
MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), datetime.datetime(1970, 1, 1),
           datetime.datetime(2000, 2, 29, 12, 30, 15, 250000), datetime.datetime(2024, 5, 31),
           datetime.datetime(2100, 3, 1, 0, 0, 0, 1000)]


def ids_where(path, condition):
    try:
        with mr.parquet(path, columns=["id"], where=condition).shuffle(False).batch(8).loader(epochs=1) as loader:
            return [i for batch in loader for i in batch["id"][:batch.valid].tolist()]
    except ValueError as error:
        if "fits the condition" not in str(error):
            raise
        return []


@pytest.mark.parametrize("unit", [*UNITS, "int96"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_conditions_on_times_as_people_write_them(tmp_path, unit, zone):
    path = tmp_path / "times.parquet"
    kind = pa.timestamp("ns" if unit == "int96" else unit, zone)
    pq.write_table(pa.table({"id": range(5), "t": pa.array(MOMENTS, kind)}), path,
                   use_deprecated_int96_timestamps=unit == "int96")
    far = [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)]
    for when in [*MOMENTS, *far, MOMENTS[2] + datetime.timedelta(microseconds=1)]:
        for op, holds in (("==", when.__eq__), ("<", when.__gt__), ("<=", when.__ge__), (">", when.__lt__)):
            expected = [i for i, moment in enumerate(MOMENTS) if holds(moment)]
            for literal in (when, str(when), when.isoformat(), np.datetime64(when)):
                assert ids_where(path, [op, "t", literal]) == expected, literal
    east = datetime.timezone(datetime.timedelta(hours=2))
    if zone or unit == "int96":
        for literal in (MOMENTS[2].replace(tzinfo=datetime.timezone.utc).astimezone(east), "2000-02-29T12:30:15.25Z",
                        "2000-02-29 14:30:15.250+0200", "2000-02-29 12:00:15.25-00:30"):
            assert ids_where(path, ["in", "t", [literal]]) == [2]
    else:
        with pytest.raises(ValueError, match="without a zone"):
            ids_where(path, ["==", "t", MOMENTS[2].replace(tzinfo=east)])
    for wrong in ("", "2000", "2000-02-30", "2000-13-01", "1900-02-29", "2000-02-29 24:00", "2000-02-29 1:00",
                  "2000-02-29 12:00:15.", "2000-02-29x", "2000-02-29 12:00:00 UTC"):
        with pytest.raises(ValueError, match='column "t" is compared with a number'):
            ids_where(path, ["==", "t", wrong])


def test_conditions_on_dates_decimals_and_large_numbers(tmp_path):
    path, days = tmp_path / "kinds.parquet", [datetime.date(1900, 2, 28), datetime.date(1970, 1, 1), datetime.date(2024, 2, 29)]
    clock = [datetime.time(0), datetime.time(12, 30, 0, 5), datetime.time(23, 59, 59, 999999)]
    pq.write_table(pa.table({
        "id": range(3), "day": days, "clock": pa.array(clock, pa.time64("us")),
        "u": pa.array([0, 2 ** 63, 2 ** 64 - 1], pa.uint64()), "i": [-2 ** 63, 0, 2 ** 63 - 1],
        "price": [decimal.Decimal(v) for v in ("0.10", "0.20", "12345678901234.56")]}), path)
    for column, values in (("day", days), ("clock", clock)):
        for k, literal in enumerate(values):
            assert ids_where(path, ["==", column, literal]) == ids_where(path, ["==", column, str(literal)]) == [k]
            assert ids_where(path, [">", column, literal]) == list(range(k + 1, 3))
    assert ids_where(path, ["in", "day", set(days[1:])]) == [1, 2]
    assert ids_where(path, ["==", "u", 2 ** 64 - 1]) == ids_where(path, [">", "u", 2 ** 63]) == [2]
    assert ids_where(path, ["==", "u", np.uint64(2 ** 63)]) == [1] and ids_where(path, ["<", "u", 2 ** 64]) == [0, 1, 2]
    assert ids_where(path, [">", "u", -2 ** 70]) == [0, 1, 2] and ids_where(path, [">", "i", 2 ** 63]) == []
    assert ids_where(path, ["<", "i", 2 ** 64]) == [0, 1, 2] and ids_where(path, [">=", "i", -2 ** 63]) == [0, 1, 2]
    for k, price in enumerate(("0.10", "0.20", "12345678901234.56")):
        assert ids_where(path, ["==", "price", decimal.Decimal(price)]) == ids_where(path, ["==", "price", price]) == [k]
    for column, literal in (("day", "today"), ("day", datetime.datetime(2024, 2, 29)), ("clock", "25:00"), ("price", "much"),
                            ("price", "0x1"), ("i", "1.5"), ("i", "five"), ("u", b"1"), ("i", "")):
        with pytest.raises(ValueError, match=f'column "{column}" is compared with a number'):
            ids_where(path, ["==", column, literal])


def test_a_wrong_value_of_a_condition_is_named(tmp_path):
    path = tmp_path / "kinds.parquet"
    pq.write_table(pa.table({"i8": pa.array([1, 2], pa.int8()), "s": ["a", "b"], "b": [True, False],
                             "day": [datetime.date(2024, 1, 1)] * 2}), path)
    for condition, said in ((["in", "i8", [1, 2, "a"]], 'column "i8" is compared with a number, not with "a": it holds int8'),
                            (["==", "s", 3], 'column "s" is compared with a text, not with 3: it holds text'),
                            (["==", "b", 1], 'column "b" is compared with true or false, not with 1: it holds bool'),
                            (["==", "day", "x" * 60], f'not with "{"x" * 39}...: it holds dates')):
        with pytest.raises(ValueError) as caught:
            mr.parquet(path, where=condition).loader()
        assert said in str(caught.value)


def test_a_null_inside_a_list_is_called_so(tmp_path):
    path = tmp_path / "lists.parquet"
    for lists, said in (([[1, 2], [3, None], [4]], "a value inside the list of row 1 of the file is null\n"),
                        ([[1, 2], None, [4, None]], "row 1 of the file is null (and 1 more in the row group)"),
                        ([[1], None, [4]], "row 1 of the file is null\n")):
        pq.write_table(pa.table({"l": pa.array(lists, pa.list_(pa.int32()))}), path)
        with pytest.raises(RuntimeError) as caught, mr.parquet(path).batch(1).loader() as loader:
            list(loader.one_epoch())
        assert said in str(caught.value), str(caught.value)


def test_a_file_that_is_there_and_empty_is_a_wrong_value(tmp_path):
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"i": pa.array([], pa.int8())}), path)
    with pytest.raises(ValueError, match="the file has no rows"):
        mr.parquet(path).loader()
    (tmp_path / "t.bin").write_bytes(bytes(10))
    with pytest.raises(ValueError, match="fewer than 100 tokens"):
        mr.tokens(tmp_path / "t.bin", length=100, dtype="uint16").loader()
    with pytest.raises(FileNotFoundError):
        mr.parquet(tmp_path / "nowhere.parquet").loader()


def test_the_command_says_what_becomes_of_images(tmp_path):
    path = tmp_path / "images.parquet"
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"photo": pa.array([{"bytes": b"x", "path": None}], kind)}), path)
    said = {c["name"]: c["loaded"] for c in json.loads(mr._core.parquet_json(str(path)))["columns"]}
    assert said["photo.bytes"].endswith('as "photo"') and "empty where it is null" in said["photo.path"]
    assert set(mr.parquet(path).types) == {"photo", "photo.path"}


def test_nulls_that_become_nan(tmp_path):
    path = tmp_path / "holes.parquet"
    pq.write_table(pa.table({"x": [0.5, None], "h": pa.array([None, np.float16(2)], pa.float16()), "i": [1, None]}), path)
    for nan in (float("nan"), np.float32("nan"), "nan"):
        with mr.parquet(path, columns=["x", "h"], nulls="fill", fill=nan).shuffle(False).batch(2).loader() as loader:
            batch = next(iter(loader))
            assert np.array_equal(batch["x"], [0.5, np.nan], equal_nan=True)
            assert np.array_equal(batch["h"], np.array([np.nan, 2], np.float16), equal_nan=True)
    with pytest.raises(mr.SampleError, match='column "i": row 1 is null, which cannot be filled with nan: it is int64'), \
            mr.parquet(path, nulls="fill", fill=float("nan")).batch(2).loader() as loader:
        list(loader)
    for wrong in ("much", None, [1], float("inf")):
        with pytest.raises(ValueError, match="fill wants a number"):
            mr.parquet(path, nulls="fill", fill=wrong)


def test_batches_as_petastorms(folder):
    with petastorm.make_batch_reader(f"file://{folder}", num_epochs=2, seed=1, workers_count=2,
                                     batch_size=32, reader_pool_type="thread") as reader:
        assert reader.batched_output and not reader.last_row_consumed
        batches = list(reader)
        assert reader.last_row_consumed
    assert sorted(i for b in batches for i in b.id.tolist()) == sorted([*range(200)] * 2)
    for batch in batches:
        assert batch.x.dtype == np.float32 and (batch.x == batch.id / 2).all()
        assert batch.name.tolist() == [f"n{i}".encode() for i in batch.id]
        assert batch.pair.shape == (len(batch.id), 2)


def test_order_columns_shards_and_epochs(folder):
    def ids(**arguments):
        with petastorm.make_batch_reader([str(folder)], schema_fields=["id"], batch_size=16,
                                         **arguments) as reader:
            return [i for batch in reader for i in batch.id.tolist()]
    assert ids(shuffle_row_groups=False) == list(range(200))
    assert ids(seed=1) == ids(seed=1, workers_count=3) != ids(seed=2)
    shards = [ids(cur_shard=k, shard_count=3) for k in range(3)]
    assert sorted(sum(shards, [])) == list(range(200)) and min(map(len, shards)) > 60
    with petastorm.make_batch_reader(str(folder), schema_fields=["^id$"], num_epochs=None) as reader:
        assert sum(len(next(reader).id) for _ in range(9)) > 400
        assert next(reader)._fields == ("id",)


def test_rows_and_a_function_of_rows(folder):
    def double(row):
        return {"id": row["id"], "twice": row["x"] * 2}
    spec = petastorm.TransformSpec(double, removed_fields=["none"])
    with petastorm.make_reader(str(folder), schema_fields=["id", "x"], transform_spec=spec) as reader:
        rows = list(reader)
        reader.reset()
        assert len(list(reader)) == 200
    assert sorted(int(row.id) for row in rows) == list(range(200))
    assert all(row.twice == row.id for row in rows)


@pytest.mark.parametrize("edits", [[], [("length", "int16", (), False), ("twice", np.float32, (None,), False),
                                        ("name", np.str_, (), False)]], ids=["seen", "said"])
def test_fields_of_a_transform_may_vary_later(tmp_path, edits):
    """The first two rows say nothing of how long a list or a text may be."""
    lists = [[1.0, 2.0], [3.0, 4.0], [5.0] * 7, []]
    pq.write_table(pa.table({"id": range(4), "bag": pa.array(lists, pa.list_(pa.float32())), "name": ["a", "b", "ccc", ""]}),
                   tmp_path / "a.parquet")

    def edit(row):
        row["length"] = np.int16(len(row["bag"]))
        if edits:
            row["twice"], row["name"] = row.pop("bag") * 2, f"{row['name'].tobytes().decode()}!"
        return row
    spec = petastorm.TransformSpec(edit, edits, removed_fields=["bag"] if edits else ["id"])
    with petastorm.make_reader(tmp_path, transform_spec=spec, shuffle_row_groups=False) as reader:
        assert reader.schema["length"] == ("int16", (), "")
        assert reader.schema["twice" if edits else "bag"] == ("float32", (-1,), "")
        rows = list(reader)
    assert rows[0]._fields == (("id", "name", "length", "twice") if edits else ("bag", "name", "length"))
    assert [row.length for row in rows] == [2, 2, 7, 0]
    assert [(row.twice / 2 if edits else row.bag).tolist() for row in rows] == lists
    assert [row.name for row in rows] == ([b"a!", b"b!", b"ccc!", b"!"] if edits else [b"a", b"b", b"ccc", b""])


def test_a_transform_that_changes_a_length(tmp_path):
    """Of arrays of one length, to which nothing need be said of edited fields."""
    rows = np.arange(40, dtype=np.float32).reshape(4, 10)
    pq.write_table(pa.table({"id": range(4), "x": pa.FixedSizeListArray.from_arrays(rows.reshape(-1), 10)}), tmp_path / "a.parquet")

    def read(function):
        with petastorm.make_reader(tmp_path, transform_spec=petastorm.TransformSpec(function),
                                   shuffle_row_groups=False) as reader:
            return reader.schema["x"], [row.x.tolist() for row in reader]
    assert read(lambda row: row) == (("float32", (10,), ""), rows.tolist())
    assert read(lambda row: {**row, "x": row["x"][:5]}) == (("float32", (5,), ""), rows[:, :5].tolist())
    assert read(lambda row: {**row, "x": row["x"][:row["id"]]}) == (
        ("float32", (-1,), ""), [row[:i].tolist() for i, row in enumerate(rows)])


def test_a_transform_that_leaves_fields_out(folder):
    """Those that its TransformSpec removes, it may return or not; another one is missed."""
    def spec(**more):
        edits = [("half", "float32", (), False)]
        return petastorm.TransformSpec(lambda row: {"half": row["x"], "x": row["x"]}, edits, **more)
    for more in ({"removed_fields": ["id", "x"]}, {"selected_fields": ["half"]}):
        with petastorm.make_reader(folder, schema_fields=["id", "x"], transform_spec=spec(**more)) as reader:
            assert next(reader)._fields == ("half",)
    with pytest.raises(mr.SampleError, match="returned no id: removed_fields"), \
            petastorm.make_reader(folder, schema_fields=["id", "x"], transform_spec=spec()) as reader:
        next(reader)


def test_a_function_of_frames(folder):
    pytest.importorskip("pandas")

    def half(frame):
        frame["half"] = frame["id"] / 2
        return frame
    spec = petastorm.TransformSpec(half, removed_fields=["id"])
    with mr.petastorm.make_batch_reader(str(folder), schema_fields=["id", "x", "pair"],
                                        transform_spec=spec) as reader:
        for batch in reader:
            assert batch._fields == ("x", "pair", "half") and (batch.half == batch.x).all()


@pytest.mark.parametrize("pool", ["thread", "dummy"])
def test_frames_are_transformed_ahead_of_their_use(folder, pool):
    """In threads, of which several run at once, and in the order of the batches all the same."""
    pytest.importorskip("pandas")
    threads, second = set(), threading.Event()

    def note(frame):
        threads.add(threading.current_thread())
        if frame["id"][0] == 16:
            second.set()
        elif frame["id"][0] == 0 and pool == "thread":
            assert second.wait(60)  # the next batch has its turn while this one waits
        return frame
    arguments = {"schema_fields": ["id", "x"], "batch_size": 16, "workers_count": 2, "shuffle_row_groups": False}
    with petastorm.make_batch_reader(folder, transform_spec=petastorm.TransformSpec(note), reader_pool_type=pool,
                                     **arguments) as reader, petastorm.make_batch_reader(folder, **arguments) as plain:
        assert reader.state_dict() == plain.state_dict()
        for batch, other in zip(reader, plain, strict=True):
            assert batch.id.tolist() == other.id.tolist() and batch.x.tolist() == other.x.tolist()
            assert reader.state_dict() == plain.state_dict()
        assert reader.last_row_consumed
        reader.reset()
        assert next(reader).id[0] == 0
    assert (threading.main_thread() in threads) == (pool == "dummy")


def test_no_frame_is_transformed_after_join(folder):
    pytest.importorskip("pandas")
    begun, ended = [], []

    def note(frame):
        begun.append(1)
        time.sleep(0.05)
        ended.append(1)
        return frame
    with petastorm.make_batch_reader(folder, schema_fields=["id"], batch_size=4, workers_count=64,
                                     transform_spec=petastorm.TransformSpec(note)) as reader:
        next(reader)
        reader.stop()
        reader.join()
        assert len(begun) == len(ended) <= 2 * 8 + 1  # as many threads as CPUs is no number of batches to hold


@pytest.mark.parametrize("workers", [1, 3])
def test_errors_of_frames_come_in_their_turn(folder, tmp_path, workers):
    pytest.importorskip("pandas")

    def fail(frame):
        if frame["id"][0] >= 48:
            raise KeyError("not this one")
        return frame
    with petastorm.make_batch_reader(folder, schema_fields=["id"], batch_size=16, workers_count=workers,
                                     transform_spec=petastorm.TransformSpec(fail), shuffle_row_groups=False) as reader:
        assert [next(reader).id[0] for _ in range(3)] == [0, 16, 32]
        with pytest.raises(KeyError, match="not this one"):
            next(reader)
    pq.write_table(pa.table({"x": [1, 2, 3, 4, None, 6]}), tmp_path / "a.parquet", row_group_size=2)
    with petastorm.make_batch_reader(tmp_path, batch_size=2, workers_count=workers, shuffle_row_groups=False,
                                     transform_spec=petastorm.TransformSpec(lambda frame: frame)) as reader:
        assert [next(reader).x.tolist() for _ in range(2)] == [[1, 2], [3, 4]]
        with pytest.raises(mr.SampleError, match="is null"):
            next(reader)
        assert not reader.last_row_consumed


def test_filters_and_where(folder):
    def ids(**arguments):
        with petastorm.make_batch_reader(str(folder), schema_fields=["id"], **arguments) as reader:
            return sorted(i for batch in reader for i in batch.id.tolist())
    assert ids(filters=[("id", "<", 5), ("x", ">=", 1)]) == [2, 3, 4]
    assert ids(filters=[[("id", "=", 7)], [("id", "in", (1, 150))]]) == [1, 7, 150]
    assert ids(where=["in", "name", ["n3", "n199"]], filters=[("id", "!=", 3)]) == [199]


def test_what_cannot_be_is_refused_with_the_way(folder, tmp_path):
    for name, word in (("predicate", "where="), ("rowgroup_selector", "where="),
                       ("filesystem", "mount")):
        with pytest.raises(NotImplementedError, match=word):
            petastorm.make_batch_reader(str(folder), **{name: object()})
    with pytest.raises(TypeError, match="nosuch"):
        petastorm.make_reader(str(folder), nosuch=1)
    with pytest.raises(ValueError, match="mount"):
        petastorm.make_reader("hdfs://server/rows")
    with pytest.raises(ValueError, match="cur_shard"):
        petastorm.make_reader(str(folder), cur_shard=1)
    with pytest.raises(ValueError, match="regular expression"):
        petastorm.make_reader(str(folder), schema_fields=["a|b"])
    for pickled, word in ((b"no pickle", "damaged"), (schema_pickle(4, last="n" * 300), "name of 300 bytes")):
        write_schema(tmp_path, pickled)
        with pytest.raises(ValueError, match=f"schema cannot be read: .*{word}.*make_batch_reader"):
            petastorm.make_reader(str(tmp_path))


def test_nulls_filters_and_addresses_of_petastorms(tmp_path):
    pq.write_table(pa.table({"i": [1, None, 3], "x": [0.5, None, 2.5]}), tmp_path / "a.parquet")
    for make in (petastorm.make_batch_reader, petastorm.make_reader):
        with pytest.raises(mr.SampleError, match="nulls="), make(str(tmp_path)) as reader:
            list(reader)
    with petastorm.make_batch_reader(str(tmp_path), nulls="fill", fill=float("nan"), schema_fields=["x"],
                                     shuffle_row_groups=False) as reader:
        assert np.array_equal(next(reader).x, [0.5, np.nan, 2.5], equal_nan=True)
    with petastorm.make_reader(str(tmp_path), nulls="mask", schema_fields=["i"],
                               shuffle_row_groups=False) as reader:
        assert [(row.i, row.i_mask) for row in reader] == [(1, True), (0, False), (3, True)]
    for filters in ([("i", "~", 3)], [("i", 3)]):
        with pytest.raises(ValueError, match="not in"):
            petastorm.make_batch_reader(str(tmp_path), filters=filters)
    ngram = type("NGram", (), {"get_field_names_at_all_timesteps": None})()
    with pytest.raises(NotImplementedError, match="NGram.*map"):
        petastorm.make_reader(str(tmp_path), schema_fields=ngram)
    with pytest.raises(ValueError, match="s3, http.*mount"):
        petastorm.make_batch_reader("hdfs://server/rows")
    with pytest.raises(OSError, match="127.0.0.1"):
        petastorm.make_batch_reader("http://127.0.0.1:9/rows.parquet")


def write_schema(folder, pickled):
    empty = pa.schema([("id", pa.int32())], {b"dataset-toolkit.unischema.v1": pickled})
    pq.write_metadata(empty, folder / "_common_metadata")


def saved(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def test_codecs_of_petastorm(tmp_path):
    """Arrays and images come as they were before its codecs took them."""
    from PIL import Image
    rng = np.random.default_rng(3)
    deep = [("deep", np.uint16, (None, None, 3)), ("depth", np.uint16, (6, None)), ("flat", np.uint8, (6, None))]
    rows = [{"id": i, "image": rng.integers(0, 256, (4 + i % 3, 5, 3), np.uint8),
             "deep": rng.integers(0, 65536, (5, 2 + i % 3, 3), np.uint16),
             "depth": rng.integers(0, 65536, (6, 2 + i % 4), np.uint16),
             "flat": rng.integers(0, 256, (6, 3 + i % 2), np.uint8),
             "matrix": rng.standard_normal((4, i % 5)).astype(np.float32),
             "packed": rng.integers(-9, 9, 7), "name": f"row {i}"} for i in range(23)]

    def stored(row):
        image, flat, matrix = io.BytesIO(), io.BytesIO(), io.BytesIO()
        Image.fromarray(row["image"]).save(image, "PNG")
        Image.fromarray(row["flat"]).save(flat, "PNG")
        np.save(matrix, row["matrix"])
        return {**row, "image": image.getvalue(), "matrix": matrix.getvalue(), "flat": flat.getvalue(),
                "deep": png16(row["deep"], 2), "depth": png16(row["depth"][..., None], 0),
                "packed": saved(np.savez_compressed, arr=row["packed"])}
    pq.write_table(pa.Table.from_pylist([stored(row) for row in rows]), tmp_path / "a.parquet",
                   row_group_size=6)
    write_schema(tmp_path, schema_pickle(4, images=deep))
    with petastorm.make_reader(tmp_path, seed=2, workers_count=2) as reader:
        given = sorted(reader, key=lambda row: row.id)
    assert len(given) == 23
    for ours, row in zip(given, rows):
        for name in ("image", "deep", "depth", "flat", "matrix", "packed"):
            value = getattr(ours, name)
            assert value.dtype == row[name].dtype and np.array_equal(value, row[name]), name
        assert ours.name == row["name"].encode()
    with petastorm.make_reader(tmp_path, schema_fields=["packed"]) as reader:
        assert next(reader)._fields == ("packed",)
    write_schema(tmp_path, schema_pickle(4, images=[("deep", np.float32, (None, None, 3))]))
    with pytest.raises(NotImplementedError, match="deep: images of float32"):
        petastorm.make_reader(tmp_path)


# ---- Through pyarrow -----------------------------------------------------------------------------
class Stream:
    """Nobody's class: only the interface."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_tables_of_others(tmp_path):
    rows = pa.table({
        "i": pa.array(range(50), pa.int16()), "x": np.arange(50) / 7, "flag": [i % 3 == 0 for i in range(50)],
        "text": [f"row {i}" * (i % 3) for i in range(50)], "bag": [list(range(i % 4)) for i in range(50)],
        "pair": pa.array([[i, i + 1] for i in range(50)], pa.list_(pa.float32(), 2)),
        "day": pa.array(range(50), pa.date32()),
        "word": pa.array([f"w{i % 5}" for i in range(50)]).dictionary_encode()})
    chunks = pa.concat_tables([rows.slice(0, 13), rows.slice(13)])
    for given in (Stream(chunks), chunks.to_reader()):
        loader = mr.arrow(given).batch(8).loader(seed=1, epochs=1, threads=2)
        seen = []
        for batch in loader:
            for slot in range(batch.valid):
                i = int(batch["i"][slot])
                seen.append(i)
                expected = rows.slice(i, 1).to_pylist()[0]
                assert batch["x"][slot] == expected["x"] and batch["flag"][slot] == expected["flag"]
                assert bytes(batch["text"][slot]) == expected["text"].encode()
                assert bytes(batch["word"][slot]) == expected["word"].encode()
                assert batch["bag"][slot].tolist() == expected["bag"]
                assert batch["pair"][slot].tolist() == expected["pair"] and batch["day"][slot] == i
        assert sorted(seen) == list(range(50))
    path = tmp_path / "a.parquet"
    pq.write_table(rows, path)
    with pytest.warns(UserWarning, match="read by pyarrow"):
        pipeline = mr.arrow(str(path), columns=["i", "x"])
    assert list(pipeline.types) == ["i", "x"]
    with pytest.raises(ValueError, match="column a, row 1: null"):
        mr.arrow(pa.table({"a": [1, None]}))
    with pytest.raises(TypeError, match="column s is month_day"):
        mr.arrow(pa.table({"s": pa.array([(1, 2, 3)], pa.month_day_nano_interval())}))
    with pytest.raises(ValueError, match="column s.a, row 2: null"):
        mr.arrow(pa.table({"s": [[{"a": 1}], [], [{"a": 2}, {"a": None}]]}))
    with pytest.raises(ValueError, match="two columns"):
        mr.arrow(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]))


def test_tables_of_others_have_the_fields_of_files(tmp_path):
    """Whatever is nested in what: the same names and values as mr.parquet gives."""
    n = 40
    rows = pa.table({
        "text": pa.array([f"é{i}" * (i % 3) for i in range(n)], pa.string_view()),
        "fixed": pa.array([b"%02d" % i for i in range(n)], pa.binary(2)),
        "words": [["a" * k for k in range(i % 4)] for i in range(n)],
        "deep": [[[[i, k] for k in range(i % 2)], []] * (i % 3) for i in range(n)],
        "member": [{"a": i, "b": {"c": f"x{i}", "d": [i / 2] * (i % 3)}} for i in range(n)],
        "named": pa.array([[(f"k{k}", k * 1.5) for k in range(i % 3)] for i in range(n)],
                          pa.map_(pa.string(), pa.float64())),
        "ids": pa.array([[b"abc"] * (i % 3) for i in range(n)], pa.list_(pa.binary(3))),
        "exact": pa.array([i * 10 ** 16 + 1 for i in range(n)], pa.decimal128(38, 0)),
        "image": [{"bytes": bytes([i]) * i, "path": None if i % 2 else f"{i}.png"} for i in range(n)],
        "word": pa.array([f"w{i % 5}" for i in range(n)]).dictionary_encode()})
    path = tmp_path / "a.parquet"
    pq.write_table(rows.set_column(0, "text", rows["text"].cast(pa.string())), path, row_group_size=17)

    def values(pipeline):
        with pipeline.shuffle(False).batch(7).loader(epochs=1) as loader:
            return {name: [b[name][i].tolist() for b in batches for i in range(b.valid)]
                    for batches in [list(loader)] for name in batches[0].keys()}
    ours, theirs = values(mr.parquet(path, ragged=True)), values(mr.arrow(pa.concat_tables(
        [rows.slice(0, 3), rows.slice(3, 20), rows.slice(23)])))
    assert set(ours) == set(theirs) >= {"deep.lengths1", "member.b.d", "named.key.lengths", "image.path"}
    for name in ours:
        assert ours[name] == theirs[name], name
    dense = pa.table({"pair": [[1, 2], [3, 4], [5, 6]], "same": ["a", "b", "ccc"], "bag": [[1], [2], []]})
    assert [kind[1] for kind in mr.arrow(dense).types.values()] == [(2,), (-1,), (-1,)]
    assert values(mr.arrow(dense)) == {"pair": [[1, 2], [3, 4], [5, 6]], "same": [[97], [98], [99] * 3],
                                       "bag": [[1], [2], []]}


# ---- Batches in memory of the row group's ---------------------------------------------------------
@pytest.fixture(scope="module")
def long_rows(tmp_path_factory):
    """Two row groups of 1,000 rows: batches of 64 begin at multiples of 64 bytes, but 15, which lies in both."""
    path = tmp_path_factory.mktemp("lent") / "a.parquet"
    i = np.arange(2000)
    pq.write_table(pa.table({"id": i, "x": (i / 2).astype(np.float32), "pair": [[v, -v] for v in i.tolist()],
                             "name": [f"n{v}" for v in i]}), path, row_group_size=1000)
    return path


def check_long_rows(batch, first):
    i = np.arange(first, first + batch.size)
    assert np.array_equal(batch["id"], i) and np.array_equal(batch["x"], (i / 2).astype(np.float32))
    assert np.array_equal(batch["pair"], np.stack([i, -i], 1)) and batch["name"].texts() == [f"n{v}" for v in i]


def address(array):
    return array.__array_interface__["data"][0]


def test_batches_in_order_are_rows_of_the_row_group(long_rows):
    with mr.parquet(long_rows).shuffle(False).batch(64).loader(epochs=1, threads=2) as loader:
        batches = list(loader)
    for k, batch in enumerate(batches):
        check_long_rows(batch, 64 * k)
        assert all(address(batch[name]) % 64 == 0 for name in ("id", "x", "pair"))
    for name in ("id", "x", "pair"):
        follows = [address(b[name]) == address(a[name]) + a[name].nbytes for a, b in zip(batches, batches[1:])]
        assert follows[:14] == [True] * 14 and not follows[14] and not follows[15]


def test_batches_outlive_their_loader_and_are_the_consumers_own(long_rows):
    """Whoever writes to a batch changes no other, of whichever epoch."""
    kept = []
    with mr.parquet(long_rows).shuffle(False).batch(64).loader(epochs=3, threads=2) as loader:
        for _ in range(3):
            for k, batch in enumerate(loader):
                check_long_rows(batch, 64 * k)
                if k % 5 == 0:
                    kept.append((64 * k, batch))
                else:
                    for name in ("id", "x", "pair"):
                        batch[name][...] = 77
    del loader, batch
    for first, batch in kept:
        check_long_rows(batch, first)


@pytest.mark.parametrize("change", [
    lambda p: p.remainder("pad"), lambda p: p.remainder("even"), lambda p: p.repeat(2),
    lambda p: p.shuffle({"window": 2})])
def test_rows_that_may_come_twice_are_copied(long_rows, change):
    """Of a batch that was written to, too: what was padded is as it is in the file."""
    pipeline = change(mr.parquet(long_rows, columns=["id", "x"]).shuffle(False).batch(96))
    with pipeline.loader(epochs=2, threads=2, seed=1) as loader:
        for _ in range(2):
            for batch in loader:
                assert np.array_equal(batch["id"], batch.samples)
                batch["id"][...] = 77


def test_a_batch_as_large_as_a_row_group_and_larger(long_rows):
    for size in (1000, 1500, 2000):
        with mr.parquet(long_rows).shuffle(False).batch(size).loader(epochs=2, threads=2) as loader:
            for _ in range(2):
                for k, batch in enumerate(loader):
                    check_long_rows(batch, size * k)


# ---- Types that a footer says twice ------------------------------------------------------------------
@pytest.mark.parametrize("kind, was, becomes", [
    (pa.decimal128(9, 2), b"\x25\x0a\x15\x04\x15\x12", b"\x25\x0a\x15\x08\x15\x12"),  # scale 4
    (pa.decimal128(9, 2), b"\x25\x0a\x15\x04\x15\x12", b"\x25\x0c\x15\x04\x15\x12"),  # a date
    (pa.int8(), b"\x25\x1e", b"\x25\x16"), (pa.uint16(), b"\x25\x18", b"\x25\x1a")])  # uint8, uint32
def test_a_type_that_is_damaged_in_one_of_its_places_is_refused(tmp_path, kind, was, becomes):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([1, 2], kind), "other": [3, 4]}), path, store_schema=False)
    whole = path.read_bytes()
    begin = whole.index(b"\x18\x01x", len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")) + 3
    assert whole[begin:].startswith(was), whole[begin:begin + 16]
    path.write_bytes(whole[:begin] + becomes + whole[begin + len(was):])
    with pytest.raises(Exception, match="column x: the schema says its type twice, and not the same"):
        mr.parquet(path).batch(2).loader()
    with mr.parquet(path, columns=["other"]).shuffle(False).batch(2).loader(epochs=1) as loader:
        assert next(iter(loader))["other"].tolist() == [3, 4]
