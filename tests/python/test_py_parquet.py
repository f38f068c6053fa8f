# SPDX-License-Identifier: Apache-2.0
"""mr.parquet from Python, and Petastorm's readers over it (Petastorm is not needed)."""
import datetime
import decimal
import io
import json

import numpy as np
import pytest

import millrace as mr
from millrace import petastorm
from petastorm_schema import schema_pickle

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


UNITS = {"ms": 10 ** 3, "us": 10 ** 6, "ns": 10 ** 9}
MOMENTS = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999000), datetime.datetime(1970, 1, 1),
           datetime.datetime(2000, 2, 29, 12, 30, 15, 250000), datetime.datetime(2024, 5, 31),
           datetime.datetime(2100, 3, 1, 0, 0, 0, 1000)]


def ids_where(path, condition):
    try:
        with mr.parquet(path, columns=["id"], where=condition).shuffle(False).batch(8).loader(epochs=1) as loader:
            return [i for batch in loader for i in batch["id"][:batch.valid].tolist()]
    except FileNotFoundError:
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
    with pytest.raises(mr.SampleError, match='column "i": nulls cannot be filled with nan: it is int64'), \
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
    write_schema(tmp_path, b"no pickle")
    with pytest.raises(ValueError, match="schema cannot be read"):
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
    rows = [{"id": i, "image": rng.integers(0, 256, (4 + i % 3, 5, 3), np.uint8),
             "matrix": rng.standard_normal((4, i % 5)).astype(np.float32),
             "packed": rng.integers(-9, 9, 7), "name": f"row {i}"} for i in range(23)]

    def stored(row):
        image = io.BytesIO()
        Image.fromarray(row["image"]).save(image, "PNG")
        matrix = io.BytesIO()
        np.save(matrix, row["matrix"])
        return {**row, "image": image.getvalue(), "matrix": matrix.getvalue(),
                "packed": saved(np.savez_compressed, arr=row["packed"])}
    pq.write_table(pa.Table.from_pylist([stored(row) for row in rows]), tmp_path / "a.parquet",
                   row_group_size=6)
    write_schema(tmp_path, schema_pickle(4))
    with petastorm.make_reader(tmp_path, seed=2, workers_count=2) as reader:
        given = sorted(reader, key=lambda row: row.id)
    assert len(given) == 23
    for ours, row in zip(given, rows):
        for name in ("image", "matrix", "packed"):
            value = getattr(ours, name)
            assert value.dtype == row[name].dtype and np.array_equal(value, row[name]), name
        assert ours.name == row["name"].encode()
    with petastorm.make_reader(tmp_path, schema_fields=["packed"]) as reader:
        assert next(reader)._fields == ("packed",)


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
