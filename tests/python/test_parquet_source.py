# SPDX-License-Identifier: Apache-2.0
"""The source `parquet`: every value is pyarrow's, by the row's number; the law of the order holds; and
what is wrong with a file is said with file, row group and column."""
import collections
import decimal
import io
import os
import shutil
import time

import numpy as np
import pytest

from mrlib import Loader, MrError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ORDERS = {
    "none": False,
    "all": True,
    "window": {"window": 3},
    "lanes": {"window": 2, "lanes": 4},
}


def table(rows=600, first=0):
    """Every kind of field, so that some columns share a strip and some do not."""
    rng = np.random.default_rng(rows + first)
    numbers = np.arange(first, first + rows)
    return pa.table({
        "id": pa.array(numbers, pa.int64()),
        "f": pa.array(rng.standard_normal(rows), pa.float32()),
        "d": pa.array(rng.standard_normal(rows), pa.float64()),
        "small": pa.array(numbers % 100, pa.int8()),
        "short": pa.array(numbers % 1000, pa.uint16()),
        "flag": pa.array(numbers % 3 == 0),
        "text": [f"row {i}" * (i % 4) for i in numbers],
        "bag": pa.array([list(range(i % 5)) for i in numbers], pa.list_(pa.int32())),
        "dense": pa.array([[i, i + 1, i + 2] for i in numbers], pa.list_(pa.float32())),
        "more": pa.array(numbers * 7, pa.int64()),
        "last": pa.array(rng.integers(0, 50, rows), pa.int64()),
    })


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    pq.write_table(table(), path, row_group_size=47, data_page_size=256)
    return str(path)


def document(path, shuffle=True, batch=16, fields=None, **source):
    out = {"source": {"parquet": {"path": path, **source}}, "batch": batch, "shuffle": shuffle}
    if fields:
        out["fields"] = fields
    return out


def plain(value):
    """A value of pyarrow as the source gives it."""
    if isinstance(value, str):
        return list(value.encode())
    if isinstance(value, bytes):
        return list(value)
    return value


def same(ours, theirs):
    return np.array_equal(np.asarray(ours), np.asarray(plain(theirs), np.asarray(ours).dtype))


def compare(batch, rows, names):
    """The batch's valid rows are these rows of a table, given as a list of dictionaries."""
    for slot, index in enumerate(batch["index"][:batch.valid]):
        for name in names:
            assert same(batch[name][slot], rows[index][name]), (name, int(index), batch[name][slot])


def indices(batches):
    return [i for batch in batches for i in batch["index"][:batch.valid].tolist()]


# ---- Values ------------------------------------------------------------------------------------
@pytest.mark.parametrize("order", ORDERS)
def test_values_are_pyarrows(file, order):
    rows, names = pq.read_table(file).to_pylist(), table(1).column_names
    with Loader(document(file, ORDERS[order], fields=names + ["index"]), epochs=2) as loader:
        batches = list(loader)
    for batch in batches:
        compare(batch, rows, names)
    for epoch in (0, 1):
        seen = indices(b for b in batches if b.epoch == epoch)
        assert sorted(seen) == list(range(600))
    assert (indices(batches) == list(range(600)) * 2) == (order == "none")


@pytest.mark.parametrize("columns", [["d"], ["last", "id"], ["d*", "text"], ["flag", "small", "bag"]])
def test_only_wanted_columns(file, columns):
    rows = pq.read_table(file).to_pylist()
    names = [n for n in table(1).column_names
             if n in columns or ("d*" in columns and n.startswith("d"))]
    with Loader(document(file, fields=names + ["index"], columns=columns)) as loader:
        for batch in loader:
            assert set(batch) == set(names) | {"index"}
            compare(batch, rows, names)
    with pytest.raises(MrError) as error:
        Loader(document(file, columns=["nosuch"]))
    assert "nosuch" in str(error.value)


@pytest.mark.parametrize("order", ["none", "window"])
def test_lists_of_bytes_of_a_fixed_length(tmp_path, order):
    """UUIDs in lists, for one: an item is a row of bytes, in lists of any length and of one."""
    path, rng = str(tmp_path / "fixed.parquet"), np.random.default_rng(1)
    kept = {"bag": [[rng.bytes(5) for _ in range(i % 4)] for i in range(90)],
            "pair": [[rng.bytes(16), rng.bytes(16)] for i in range(90)],
            "named": [[("k", rng.bytes(3))] * (i % 3) for i in range(90)]}
    kinds = {"bag": pa.list_(pa.binary(5)), "pair": pa.list_(pa.binary(16)),
             "named": pa.map_(pa.string(), pa.binary(3))}
    pq.write_table(pa.table({n: pa.array(kept[n], kinds[n]) for n in kept}), path, row_group_size=40)
    widths = {"bag": 5, "pair": 16, "named.value": 3}
    for ragged in (False, True):
        with Loader(document(path, ORDERS[order], batch=8, ragged=ragged,
                             fields=[*widths, "index"])) as loader:
            for batch in loader:
                for slot, index in enumerate(batch["index"][:batch.valid]):
                    for name, width in widths.items():
                        items = kept[name.split(".")[0]][index]
                        theirs = [v[1] if name == "named.value" else v for v in items]
                        assert batch[name][slot].shape == (len(theirs), width)
                        assert batch[name][slot].tobytes() == b"".join(theirs)


@pytest.mark.parametrize("lists", [[[1], [2, 3, 4]], [[1, 2], [3], [4, 5, 6]], [[], [1, 2], [3], [4]], [[1, 2], [3, 4]]])
def test_lists_whose_mean_length_is_whole(tmp_path, lists):
    """The counts of the footer fit lists of one length; the lists need not."""
    path = str(tmp_path / "bags.parquet")
    for rows in ([*lists], [lists[-1]] * len(lists) + lists, [[1, 2], [3, 4]] + lists):
        pq.write_table(pa.table({"bag": rows}), path, row_group_size=len(lists), write_statistics=False)
        with Loader(document(path, False, batch=len(rows))) as loader:
            assert [np.asarray(v).tolist() for v in next(loader)["bag"]] == rows


def test_a_column_that_is_called_index(tmp_path):
    path = str(tmp_path / "own.parquet")
    pq.write_table(pa.table({"index": [30, 10, 20], "x": [1, 2, 3]}), path)
    for order in (False, {"window": 2}):
        with Loader(document(path, order, batch=3)) as loader:
            batch = next(loader)
            assert sorted(zip(batch["x"].tolist(), batch["index"].tolist())) == [(1, 30), (2, 10), (3, 20)]
    with Loader(document(path, False, batch=3, columns=["x"], fields=["x", "index"])) as loader:
        assert next(loader)["index"].tolist() == [0, 1, 2]


def test_less_is_read_for_fewer_columns(file):
    def bytes_read(columns):
        with Loader(document(file, {"window": 3, "lanes": 1}, columns=columns)) as loader:
            list(loader)
            return loader.stats()["bytes_read"]
    one, all_of_them = bytes_read(["small"]), bytes_read([])
    sizes = pq.ParquetFile(file).metadata
    of_one = sum(sizes.row_group(g).column(3).total_compressed_size
                 for g in range(sizes.num_row_groups))
    assert one == of_one < all_of_them


# ---- The law -----------------------------------------------------------------------------------
@pytest.mark.parametrize("order", ORDERS)
def test_threads_do_not_matter(file, order):
    digests = set()
    for threads in (1, 2, 3, 8):
        with Loader(document(file, ORDERS[order]), threads=threads, epochs=2, digest=True) as loader:
            list(loader)
            digests.add(loader.digest())
    assert len(digests) == 1


@pytest.mark.parametrize("order", ORDERS)
def test_ranks_share_the_order(file, order):
    def read(world, rank):
        doc = document(file, ORDERS[order], batch=24, fields=["id", "text", "index"])
        with Loader(doc, world=world, rank=rank, threads=2) as loader:
            return list(loader)
    for world in (1, 2, 4, 8):
        ranks = [read(world, rank) for rank in range(world)]
        assert len({len(batches) for batches in ranks}) == 1
        seen = [i for batches in ranks for i in indices(batches)]
        assert sorted(seen) == list(range(600))
        assert all((b["id"] == b["index"]).all() for batches in ranks for b in batches)


@pytest.mark.parametrize("order", ORDERS)
def test_resume_at_every_step(file, order):
    doc = document(file, ORDERS[order], batch=50, fields=["id", "text", "dense", "index"])
    with Loader(doc, epochs=2, digest=True) as loader:
        whole, states = [], [loader.save()]
        for batch in loader:
            whole.append(batch.digest)
            states.append(loader.save())
    for step, state in enumerate(states):
        with Loader(doc, epochs=2, digest=True, state=state, threads=2) as loader:
            assert [batch.digest for batch in loader] == whole[step:], step


@pytest.mark.parametrize("threads", [1, 2, 10])
def test_every_row_once_in_every_one_of_200_epochs(tmp_path, threads):
    path = str(tmp_path / "light.parquet")
    pq.write_table(pa.table({"x": np.arange(120, dtype=np.int32)}), path, row_group_size=10)
    doc = document(path, {"window": 4}, batch=30, fields=["x"])
    with Loader(doc, epochs=200, threads=threads) as loader:
        seen = collections.defaultdict(list)
        for batch in loader:
            seen[batch.epoch] += batch["x"][:batch.valid].tolist()
    assert len(seen) == 200
    assert all(sorted(rows) == list(range(120)) for rows in seen.values())


# ---- Nulls -------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def nulls(tmp_path_factory):
    path = tmp_path_factory.mktemp("nulls") / "nulls.parquet"
    rows = {
        "a": pa.array([None if i % 5 == 3 else i for i in range(200)], pa.int32()),
        "b": pa.array([None if i % 7 == 2 else i / 2 for i in range(200)], pa.float64()),
        "s": [None if i % 3 == 1 else f"text {i}" for i in range(200)],
        "full": pa.array(range(200), pa.int16()),
    }
    pq.write_table(pa.table(rows), path, row_group_size=33)
    return str(path)


def test_a_null_is_an_error_with_its_place(nulls):
    with pytest.raises(MrError) as error, Loader(document(nulls, False, columns=["a"])) as loader:
        list(loader)
    said = str(error.value)
    assert "nulls.parquet" in said and 'column "a"' in said and "row group 0" in said
    assert "row 3" in said and '"nulls": "fill"' in said


@pytest.mark.parametrize("columns", [[], ["a"], ["b", "full"]])
def test_nulls_filled_and_masked(nulls, columns):
    rows = pq.read_table(nulls).to_pylist()
    names = columns or ["a", "b", "s", "full"]
    with Loader(document(nulls, columns=columns, nulls="mask", fill=-1,
                         fields=[*names, *(n + ".mask" for n in names), "index"])) as loader:
        for batch in loader:
            for slot, index in enumerate(batch["index"][:batch.valid]):
                for name in names:
                    value = rows[index][name]
                    assert bool(batch[name + ".mask"][slot]) == (value is not None)
                    empty = "" if name == "s" else -1
                    assert same(batch[name][slot], empty if value is None else value)
    with Loader(document(nulls, columns=["a"], nulls="fill", fill=7, fields=["a"])) as loader:
        assert sum((b["a"][:b.valid] == 7).sum() for b in loader) == 41


# ---- Conditions --------------------------------------------------------------------------------
CONDITIONS = [
    ([">", "id", 400], lambda r: r["id"] > 400),                       # statistics settle most
    (["<", "small", 3], lambda r: r["small"] < 3),                      # rows do
    (["and", [">=", "id", 100], ["<", "id", 300], ["==", "flag", True]],
     lambda r: 100 <= r["id"] < 300 and r["flag"]),
    (["or", ["in", "id", [1, 599]], ["==", "text", "row 5"]], lambda r: r["id"] in (1, 599, 5)),
    (["not", ["<", "id", 590]], lambda r: r["id"] >= 590),
]


@pytest.mark.parametrize("condition,holds", CONDITIONS)
def test_where(file, condition, holds):
    rows = [row for row in pq.read_table(file).to_pylist() if holds(row)]
    for shuffle in (False, {"window": 2}):
        doc = document(file, shuffle, where=condition, fields=["id", "text", "f", "index"])
        with Loader(doc) as loader:
            assert loader.n_samples == len(rows)
            batches = list(loader)
        for batch in batches:
            compare(batch, rows, ["id", "text", "f"])
        assert sorted(indices(batches)) == list(range(len(rows)))


@pytest.mark.parametrize("order", ["none", "window"])
def test_nulls_of_rows_that_a_condition_leaves_out_are_no_error(tmp_path, order):
    path = str(tmp_path / "holes.parquet")
    rows = [{"id": i, "x": None if i % 7 == 0 else i, "text": None if i % 7 == 0 else f"t{i}",
             "bag": None if i % 7 == 0 else [i, None if i % 7 == 3 else 1] * (i % 3)} for i in range(200)]
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=60, data_page_size=64)
    for columns, condition, left in (
            (["id", "x", "text"], ["not_null", "x"], [r for r in rows if r["x"] is not None]),
            (["bag", "id"], ["in", "id", [1, 2, 4, 194]], [rows[i] for i in (1, 2, 4, 194)])):
        with Loader(document(path, ORDERS[order], columns=columns, where=condition)) as loader:
            seen = {int(i): {n: batch[n][slot] for n in columns} for batch in loader
                    for slot, i in enumerate(batch["id"][:batch.valid])}
        assert sorted(seen) == [r["id"] for r in left]
        for row in left:
            for name in columns:
                assert same(seen[row["id"]][name], row[name])
    inside = "a value inside the list of row"
    for columns, condition, null in ((["x"], [">=", "id", 50], "row 56"), (["bag"], ["in", "id", [4, 8, 136]], f"{inside} 136"),
                                     (["bag"], ["in", "id", [4, 8, 133]], "row 133")):
        with pytest.raises(MrError, match=f'column "{columns[0]}": {null} of the file is null'), \
                Loader(document(path, False, columns=columns, where=condition)) as loader:
            list(loader)


def test_where_reads_no_row_group_that_statistics_rule_out(file):
    doc = document(file, {"window": 3, "lanes": 1}, where=["<", "id", 47], fields=["f"])
    with Loader(doc) as loader:
        list(loader)
        one = loader.stats()["bytes_read"]
    assert one == pq.ParquetFile(file).metadata.row_group(0).column(1).total_compressed_size


def test_where_reads_no_page_that_the_page_index_rules_out(tmp_path):
    """Pages of the condition's column that cannot hold a row are overwritten: nobody looks at them."""
    path = str(tmp_path / "pages.parquet")
    rows = pa.table({"id": np.arange(6000), "x": np.arange(6000) * 2})
    pq.write_table(rows, path, row_group_size=3000, data_page_size=800, write_batch_size=100,
                   use_dictionary=False, compression="none", write_page_index=True)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with open(path, "r+b") as out:
        out.seek(column.data_page_offset + column.total_compressed_size // 2)
        out.write(b"\xff" * (column.total_compressed_size // 2))
    doc = document(path, False, where=["<", "id", 700], columns=["x"], fields=["x"])
    with Loader(doc) as loader:
        assert [int(x) for b in loader for x in b["x"][:b.valid]] == list(range(0, 1400, 2))
    doc["source"]["parquet"]["where"] = ["<", "id", 2500]
    with pytest.raises(MrError, match="row group 0, column .id"):
        Loader(doc)


# ---- What is kept ------------------------------------------------------------------------------
def bytes_read_by(action):
    """What this thread's and its children's calls read, and what the action gave."""
    def count():
        with open("/proc/self/io", encoding="utf-8") as lines:
            return int(next(lines).split()[1])
    before = count()
    return action(), count() - before


@pytest.fixture
def kept(tmp_path):
    for i in range(60):
        pq.write_table(table(1000, first=1000 * i).select(["id", "f", "small"]),
                       tmp_path / f"{i:02}.parquet", row_group_size=300)
    time.sleep(0.1)  # files that are younger are not named
    return document(str(tmp_path), False, where=["<", "small", 50], store=str(tmp_path / "store"),
                    fields=["id"])


def ids_of(doc):
    with Loader(doc) as loader:
        return [int(x) for b in loader for x in b["id"][:b.valid]]


def open_only(doc):
    with Loader(doc) as loader:
        return loader.n_samples


def skip_without_a_store(doc):
    try:
        return open_only(doc)
    finally:
        if not os.path.exists(doc["source"]["parquet"]["store"]):
            pytest.skip("this build has no store")


def test_footers_and_counts_are_kept(kept):
    assert skip_without_a_store(kept) == 30000
    kept["fields"] = ["index"]  # nothing of the files is wanted
    n, warm = bytes_read_by(lambda: open_only(kept))
    without = {**kept, "source": {"parquet": {**kept["source"]["parquet"], "store": ""}}}
    m, cold = bytes_read_by(lambda: open_only(without))
    assert n == m == 30000 and warm < cold / 4
    kept["fields"] = ["id"]
    assert ids_of(kept) == [i for i in range(60000) if i % 100 < 50]


def test_what_is_kept_is_the_files_and_the_conditions(kept, tmp_path):
    skip_without_a_store(kept)
    first = ids_of(kept)
    pq.write_table(table(70, first=90000).select(["id", "f", "small"]), tmp_path / "07.parquet")
    time.sleep(0.1)
    second = ids_of(kept)
    assert second == [i for i in first if i < 7000] + list(range(90000, 90050)) + \
        [i for i in first if i >= 8000]
    kept["source"]["parquet"]["where"] = ["<", "small", 2]
    assert len(ids_of(kept)) == 59 * 20 + 2


def test_a_store_that_cannot_be_is_said_and_nothing_else(kept, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    kept["source"]["parquet"]["store"] = str(tmp_path / "file")
    with Loader(kept) as loader:
        assert loader.n_samples == 30000
        assert any("nothing is kept" in warning for warning in loader.warnings)


def test_words_are_hashed_as_xxhash_does(file):
    xxhash = pytest.importorskip("xxhash")
    words = [word.encode() for word in pq.read_table(file)["text"].to_pylist()]
    for buckets in (1, 2, 1000, 2**53 - 111):
        doc = document(file, {"window": 3}, fields=["text", "index"])
        doc["ops"] = [{"hash_bucket": {"buckets": buckets, "seed": 5, "field": "text"}}]
        with Loader(doc) as loader:
            for batch in loader:
                for slot, index in enumerate(batch["index"][:batch.valid]):
                    assert batch["text"][slot] == xxhash.xxh3_64_intdigest(words[index], 5) % buckets


# Ops on values: the source runs them on dictionaries and columns as it unpacks these; where a condition stands, chains run
# them on rows.
OPS = [{"hash_bucket": {"buckets": 1000, "field": f}} for f in ("word", "rare", "whole", "flag", "short")]
OPS += [{"log1p": {"field": f}} for f in ("price", "single", "money")]
OPS += [{"standardize": {"mean": 3, "std": 2, "field": "price"}}, {"clip": {"low": 0, "high": 2, "field": "price"}},
        {"fill_null": {"value": -1, "field": "single"}}, {"bucketize": {"boundaries": [1, 5, 7], "field": "score"}}]
WRITTEN = {"dictionary": {}, "plain": {"use_dictionary": False}, "falls back": {"dictionary_pagesize_limit": 300},
           "second version": {"data_page_version": "2.0"},
           "deltas": {"use_dictionary": False, "column_encoding": {"word": "DELTA_BYTE_ARRAY", "rare": "DELTA_LENGTH_BYTE_ARRAY",
                                                                   "whole": "DELTA_BINARY_PACKED"}}}


def values_for_ops(rows=700):
    rng = np.random.default_rng(5)

    def holes(values, kind):
        return pa.array([None if rng.random() < 0.2 else v for v in values], kind)
    return pa.table({
        "word": holes([f"w{v}" * (v % 3) for v in rng.integers(0, 30, rows)], pa.string()),
        "rare": [f"{v:08x}" for v in rng.integers(0, 2**31, rows)],
        "whole": holes(rng.integers(-5, 5, rows).tolist(), pa.int32()),
        "flag": holes((rng.random(rows) < 0.5).tolist(), pa.bool_()),
        "short": holes(rng.integers(0, 50, rows).tolist(), pa.int16()),
        "money": pa.array([None if v % 7 == 0 else decimal.Decimal(int(v)) / 4 for v in rng.integers(0, 40, rows)],
                          pa.decimal128(9, 2)),
        "price": holes(rng.integers(0, 20, rows).astype(float).tolist(), pa.float64()),
        "single": pa.array(np.where(rng.random(rows) < 0.1, np.nan, rng.integers(-1, 20, rows)), pa.float32()),
        "score": pa.array(rng.integers(0, 9, rows), pa.int8()),
        "key": pa.array(np.arange(rows)),
    })


@pytest.mark.parametrize("nulls", ["fill", "mask"])
@pytest.mark.parametrize("order", ["none", "window"])
@pytest.mark.parametrize("written", WRITTEN)
def test_ops_on_dictionaries_give_what_ops_on_rows_give(tmp_path, written, order, nulls):
    rows, path = values_for_ops(), str(tmp_path / "rows.parquet")
    pq.write_table(rows, path, row_group_size=150, data_page_size=200, write_batch_size=16, compression="zstd", **WRITTEN[written])

    def arrays(**source):
        with Loader({**document(path, ORDERS[order], nulls=nulls, fill=1.0, **source), "ops": OPS}, threads=2) as loader:
            return [dict(batch) for batch in loader]
    ours, theirs = arrays(), arrays(where=[">=", "key", 0])
    assert len(ours) == len(theirs) == (700 + 15) // 16
    for a, b in zip(ours, theirs):
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], name)


def test_ops_on_dictionaries_give_what_others_compute(tmp_path):
    xxhash = pytest.importorskip("xxhash")
    rows, path = values_for_ops(), str(tmp_path / "rows.parquet")
    pq.write_table(rows, path, row_group_size=150)
    with Loader({**document(path, False, 700, nulls="fill"), "ops": OPS}) as loader:
        batch = next(iter(loader))
    words = [(v or "").encode() for v in rows["word"].to_pylist()]
    assert batch["word"].tolist() == [xxhash.xxh3_64_intdigest(w) % 1000 for w in words]
    whole = [v or 0 for v in rows["whole"].to_pylist()]
    assert batch["whole"].tolist() == [xxhash.xxh3_64_intdigest(v.to_bytes(8, "little", signed=True)) % 1000 for v in whole]
    price = np.array([v or 0.0 for v in rows["price"].to_pylist()])
    np.testing.assert_allclose(batch["price"], np.clip((np.log1p(price) - 3) / 2, 0, 2), rtol=1e-12)
    single = rows["single"].to_numpy()
    np.testing.assert_array_equal(np.isnan(single), batch["single"] == -1)
    assert batch["score"].tolist() == np.searchsorted([1, 5, 7], rows["score"].to_numpy()).tolist()


def test_a_condition_that_nothing_fits(file):
    with pytest.raises(MrError) as error:
        Loader(document(file, where=[">", "id", 10_000]))
    assert "rows fits the condition (where)" in str(error.value) and "none of " in str(error.value)


def test_files_without_rows(tmp_path):
    for name in "ab":
        pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / f"{name}.parquet")
    for path, more, said in ((tmp_path / "a.parquet", {}, "the file has no rows"),
                             (tmp_path, {"where": [">", "id", 1]}, "the files have no rows")):
        with pytest.raises(MrError, match=said):
            Loader(document(str(path), **more))


# ---- Several files -----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files, the second with its columns in another order."""
    path = tmp_path_factory.mktemp("many")
    for i in range(3):
        part = table(100, first=100 * i)
        if i == 1:
            part = part.select(part.column_names[::-1])
        pq.write_table(part, path / f"part-{i}.parquet", row_group_size=30)
    (path / "notes.txt").write_text("not a table")
    return path


@pytest.mark.parametrize("how", ["folder", "glob", "list"])
def test_folders_patterns_and_lists(folder, how):
    path = {"folder": str(folder), "glob": str(folder / "part-*.parquet"),
            "list": [str(folder / f"part-{i}.parquet") for i in range(3)]}[how]
    rows = [row for i in range(3) for row in table(100, first=100 * i).to_pylist()]
    names = table(1).column_names
    with Loader(document(path, fields=names + ["index"])) as loader:
        batches = list(loader)
    for batch in batches:
        compare(batch, rows, names)
    assert sorted(indices(batches)) == list(range(300))


def test_patterns_for_folders_and_what_is_set_aside(tmp_path):
    def write(name, value):
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), path)
    for value, name in enumerate(["a.parquet", "k=1/b.parquet", "k=1/deep/c.parquet", "k=2/d.parquet", "k=2/_left/e.parquet",
                                  "_temporary/0/f.parquet", ".hidden/g.parquet", "_h.parquet", "_k=3/i.parquet", "k=2/j.txt"]):
        write(name, value)

    def found(*paths):
        with Loader(document([str(tmp_path / p) for p in paths], False, columns=["x"])) as loader:
            return [x for b in loader for x in b["x"][:b.valid].tolist()]
    with pytest.raises(MrError, match="different folders of the form a=b"):
        found("set")
    shutil.rmtree(tmp_path / "set" / "k=1")
    (tmp_path / "set" / "a.parquet").unlink()
    assert found("set") == [8, 3]
    write("k=1/b.parquet", 1)
    write("k=1/deep/c.parquet", 2)
    assert found("set/k=*") == [1, 2, 3]
    assert found("set/k=1/**/*.parquet") == [1, 2] and found("set/k=1/*.parquet") == [1]
    assert found("set/**/c.parquet") == found("set/**/deep/*") == found("**/deep/**/c.*") == [2]
    assert found("set/k=1/**") == [1, 2] and found("set/k=?/**/[bd].parquet") == [1, 3]
    assert found("set/k=2/_left/e.parquet") == found("set/k=2/_left/*") == found("set/k=2/_*/e*") == [4]
    here = os.getcwd()
    os.chdir(tmp_path / "set" / "k=2" / "_left")  # a pattern without a folder leaves aside the same
    try:
        write("k=2/_left/_u.parquet", 5)
        for paths, values in (["*.parquet"], [4]), (["_*.parquet"], [5]), (["_u.parquet"], [5]):
            with Loader(document(paths, False, columns=["x"])) as loader:
                assert [x for b in loader for x in b["x"][:b.valid].tolist()] == values
    finally:
        os.chdir(here)
        (tmp_path / "set" / "k=2" / "_left" / "_u.parquet").unlink()
    with pytest.raises(MrError, match="no file has a name like this"):
        found("set/**/nosuch*")
    with pytest.raises(MrError, match="begin with"):
        shutil.rmtree(tmp_path / "set" / "_temporary")
        for part in ("k=1", "k=2", "_k=3"):
            shutil.rmtree(tmp_path / "set" / part)
        found("set")


@pytest.fixture(scope="module")
def hive(tmp_path_factory):
    path = tmp_path_factory.mktemp("hive=no")  # above the folder that is asked for: not a column
    for year in (2023, 2024):
        for land in ("de", "f%20r"):
            part = path / f"year={year}" / f"land={land}"
            part.mkdir(parents=True)
            pq.write_table(pa.table({"x": np.arange(30) + year}), part / "a.parquet",
                           row_group_size=11)
    return path


def test_columns_that_stand_in_folders(hive):
    wanted = [(2023, "de"), (2023, "f r"), (2024, "de"), (2024, "f r")]
    for shuffle in (False, {"window": 4}):
        with Loader(document(str(hive), shuffle, fields=["x", "year", "land", "index"])) as loader:
            batches = list(loader)
        assert sorted(indices(batches)) == list(range(120))
        for batch in batches:
            for slot, index in enumerate(batch["index"][:batch.valid]):
                year, land = wanted[index // 30]
                assert batch["year"][slot] == year and batch["year"].dtype == np.int64
                assert bytes(batch["land"][slot]) == land.encode()
                assert batch["x"][slot] == year + index % 30


def test_files_that_metadata_names(hive, tmp_path):
    """A file _metadata has the footers of all: nothing else is read to begin with."""
    root = tmp_path / "set"
    shutil.copytree(hive, root)
    collected = []
    for path in sorted(root.glob("**/*.parquet")):
        footer = pq.read_metadata(path)
        footer.set_file_path(str(path.relative_to(root)))
        collected.append(footer)
    whole = collected[0]
    for footer in collected[1:]:
        whole.append_row_groups(footer)
    whole.write_metadata_file(str(root / "_metadata"))
    doc = document(str(root), {"window": 4}, fields=["x", "year", "land", "index"])
    with Loader(doc, digest=True) as loader:
        expected = [b.digest for b in loader]
    doc["source"]["parquet"]["path"] = str(root / "_metadata")
    with Loader(doc, digest=True) as loader:
        assert [b.digest for b in loader] == expected
    doc["source"]["parquet"]["where"] = ["and", ["==", "year", 2024], [">", "x", 2050]]
    with Loader(doc) as loader:
        assert loader.n_samples == 2 * 3
    path = sorted(root.glob("**/*.parquet"))[2]
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(MrError, match="beyond the file's end"):
        Loader(doc)
    path.unlink()
    with pytest.raises(MrError, match="a.parquet"):
        Loader(doc)


def test_columns_in_folders_are_chosen_and_compared(hive):
    with Loader(document(str(hive), columns=["x", "year"], where=["==", "year", 2024])) as loader:
        batches = list(loader)
        assert loader.n_samples == 60 and set(batches[0]) == {"x", "year"}
    assert {int(y) for b in batches for y in b["year"]} == {2024}
    with Loader(document(str(hive), columns=["land"], where=["==", "land", "f r"])) as loader:
        assert {bytes(v) for b in loader for v in b["land"]} == {b"f r"}
    with Loader(document(str(hive), fields=["index"])) as loader:
        assert sorted(indices(loader)) == list(range(120))


def test_a_pattern_may_name_columns_of_files_and_of_folders(hive):
    with Loader(document(str(hive), columns=["*"])) as loader:
        assert set(next(loader)) == {"x", "year", "land"}
    with Loader(document(str(hive), columns=["[xy]*"])) as loader:
        assert set(next(loader)) == {"x", "year"}


def test_values_of_folders_are_compared_as_what_they_are(tmp_path):
    for name in ("id=9007199254740992", "id=9007199254740993", "id=-5"):
        for flag in ("True", "false"):
            part = tmp_path / name / f"flag={flag}"
            part.mkdir(parents=True)
            pq.write_table(pa.table({"x": [1]}), part / "a.parquet")

    def found(condition):
        with Loader(document(str(tmp_path), False, where=condition)) as loader:
            return [(i, bytes(f)) for b in loader
                    for i, f in zip(b["id"][:b.valid].tolist(), b["flag"])]
    assert {i for i, _ in found(["==", "id", 9007199254740993])} == {9007199254740993}
    assert {i for i, _ in found(["in", "id", [9007199254740992, -5]])} == {9007199254740992, -5}
    assert {i for i, _ in found(["<", "id", 0.5])} == {-5}
    assert {f for _, f in found(["==", "flag", True])} == {b"True"}
    assert {f for _, f in found(["!=", "flag", True])} == {b"false"}
    for literal in (None, {}, [1]):
        with pytest.raises(MrError, match="where"):
            found(["==", "id", literal])
    with pytest.raises(MrError, match="is_null"):
        found(["in", "id", [1, None]])


def test_a_folder_whose_value_is_null(tmp_path):
    for name in ("de", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"land={name}").mkdir()
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / f"land={name}" / "a.parquet")
    with pytest.raises(MrError, match="land is null"):
        Loader(document(str(tmp_path)))
    for source, wanted in (({"nulls": "fill"}, {b"", b"de"}), ({"where": ["not_null", "land"]}, {b"de"}),
                           ({"nulls": "fill", "where": ["is_null", "land"]}, {b""})):
        with Loader(document(str(tmp_path), **source)) as loader:
            assert {bytes(v) for b in loader for v in b["land"]} == wanted


def test_files_that_differ_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "b": [1.0, 2.0]}), tmp_path / "1.parquet")
    for other, word in (({"a": [1]}, "missing"), ({"a": [1], "b": ["x"]}, "another type")):
        pq.write_table(pa.table(other), tmp_path / "2.parquet")
        with pytest.raises(MrError) as error:
            Loader(document(str(tmp_path)))
        said = str(error.value)
        assert "column b" in said and word in said and "2.parquet" in said


def test_times_and_decimals_are_not_just_numbers(tmp_path):
    kinds = [pa.int64(), pa.timestamp("us"), pa.time64("us"), pa.timestamp("ms"), pa.float64(), pa.decimal128(9, 0)]
    for one in kinds:
        pq.write_table(pa.table({"a": pa.array([1, 2], one)}), tmp_path / "1.parquet")
        for other in kinds:
            pq.write_table(pa.table({"a": pa.array([3], other)}), tmp_path / "2.parquet")
            if one == other:
                with Loader(document(str(tmp_path))) as loader:
                    assert loader.n_samples == 3
            else:
                with pytest.raises(MrError, match="column a is of another type"):
                    Loader(document(str(tmp_path)))


def test_a_null_that_no_mask_could_tell(tmp_path):
    """Fields are those of the first file: where its column cannot be null there is no mask."""
    for name, nullable, values in (("1", False, [1, 2]), ("2", True, [3, None])):
        schema = pa.schema([pa.field("x", pa.int64(), nullable)])
        pq.write_table(pa.table({"x": values}, schema=schema), tmp_path / f"{name}.parquet")
    with pytest.raises(MrError, match=r'column "x": row 1 of the file is null') as error, \
            Loader(document(str(tmp_path), nulls="mask")) as loader:
        list(loader)
    assert "2.parquet" in str(error.value) and "mask" in str(error.value)
    with Loader(document(str(tmp_path), False, batch=4, nulls="fill", fill=7)) as loader:
        assert next(loader)["x"].tolist() == [1, 2, 3, 7]
    files = [str(tmp_path / "2.parquet"), str(tmp_path / "1.parquet")]
    with Loader(document(files, False, batch=4, nulls="mask")) as loader:
        batch = next(loader)
        assert batch["x"].tolist() == [3, 0, 1, 2] and batch["x.mask"].tolist() == [1, 0, 1, 1]


# ---- Images ------------------------------------------------------------------------------------
def test_images_as_hugging_face_keeps_them(tmp_path):
    image = pytest.importorskip("PIL.Image")
    kept = []
    for i in range(12):
        out = io.BytesIO()
        image.fromarray(np.full((8, 12, 3), i * 20, np.uint8)).save(out, "JPEG")
        kept.append({"bytes": out.getvalue(), "path": f"{i}.jpg"})
    path = str(tmp_path / "images.parquet")
    pq.write_table(pa.table({"image": kept, "label": list(range(12))}), path, row_group_size=5)
    doc = {**document(path, batch=4, columns=["image.bytes", "label"]),
           "ops": [{"decode_image": {}}], "fields": ["image", "label"]}
    with Loader(doc) as loader:
        batches = list(loader)
    assert sorted(i for b in batches for i in b["label"].tolist()) == list(range(12))
    for batch in batches:
        for pixels, label in zip(batch["image"], batch["label"]):
            theirs = np.asarray(image.open(io.BytesIO(kept[label]["bytes"])))
            assert pixels.shape == (8, 12, 3) and np.array_equal(pixels, theirs)


def test_an_image_without_a_path_or_without_an_image(tmp_path):
    """Whoever keeps images in memory has no paths; and some rows have no image."""
    path = str(tmp_path / "images.parquet")
    kept = [{"bytes": b"abc" * i, "path": None if i % 2 else f"{i}.jpg"} for i in range(9)] + [None]
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    pq.write_table(pa.table({"image": pa.array(kept, kind), "n": list(range(10))}), path)
    for where in (["<", "n", 9], ["not_null", "image"], ["not_null", "image.bytes"]):
        with Loader(document(path, False, columns=["image", "n"], where=where)) as loader:
            batch = next(loader)
        assert [bytes(v) for v in batch["image"]][:9] == [b"abc" * i for i in range(9)]
        assert [bytes(v) for v in batch["image.path"]][:9] == [b"" if i % 2 else b"%d.jpg" % i for i in range(9)]
    with pytest.raises(MrError, match='column "image.bytes": row 9 of the file is null'), \
            Loader(document(path, columns=["image"])) as loader:
        list(loader)


# ---- Damage ------------------------------------------------------------------------------------
def test_a_file_that_was_cut_off(file, tmp_path):
    path = tmp_path / "cut.parquet"
    whole = open(file, "rb").read()
    for size in (0, 3, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(MrError) as error, Loader(document(str(path))) as loader:
            list(loader)
        assert "cut.parquet" in str(error.value)


def test_pages_that_are_damaged(file, tmp_path):
    path = tmp_path / "damaged.parquet"
    whole = bytearray(open(file, "rb").read())
    chunk = pq.ParquetFile(file).metadata.row_group(2).column(2)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    whole[start:start + 24] = b"\xff" * 24
    path.write_bytes(whole)
    with pytest.raises(MrError) as error, Loader(document(str(path))) as loader:
        list(loader)
    said = str(error.value)
    assert "damaged.parquet" in said and "row group 2" in said and 'column "d"' in said


def test_a_file_that_is_rewritten_while_it_is_read(tmp_path):
    """Shorter, or with other pages: an error or the old rows, never others."""
    path = tmp_path / "rewritten.parquet"
    pq.write_table(pa.table({"x": np.arange(40_000)}), path, row_group_size=100,
                   use_dictionary=False, write_page_checksum=True)
    doc = document(str(path), False, batch=10, fields=["x", "index"])
    with pytest.raises(MrError) as error, \
            Loader(doc, read_ahead_bytes=4096, batches_ahead=1, threads=1) as loader:
        assert (next(loader)["x"] == np.arange(10)).all()
        other, groups = bytearray(path.read_bytes()), pq.ParquetFile(path).metadata
        for g in range(5, 400):
            chunk = groups.row_group(g).column(0)
            end = chunk.data_page_offset + chunk.total_compressed_size
            other[end - 8:end - 4] = b"\xaa" * 4
        with open(path, "r+b") as out:
            out.write(other)
        for batch in loader:
            assert (batch["x"] == batch["index"]).all()
    said = str(error.value)
    assert "rewritten.parquet" in said and "row group" in said and 'column "x"' in said


@pytest.mark.parametrize("on_error", ["fail", "skip"])
@pytest.mark.parametrize("how", ["in place", "by another"])
def test_a_sound_file_that_is_written_while_it_is_read(tmp_path, how, on_error):
    """Its pages are sound and as long as before, and without checksums: only the file tells. That is no
    bad sample, whose place others take."""
    path, other = tmp_path / "again.parquet", tmp_path / "other"
    for name, first in ((path, 0), (other, 1 << 20)):
        pq.write_table(pa.table({"x": np.arange(40_000) + first}), name, row_group_size=100,
                       use_dictionary=False, compression="none")
    os.utime(path, (1, 1))
    doc = {**document(str(path), False, batch=10, fields=["x", "index"]), "on_error": on_error}
    with pytest.raises(MrError, match=r'row group [0-9]+, column "x": the file was written') as error, \
            Loader(doc, read_ahead_bytes=4096, batches_ahead=1, threads=1) as loader:
        assert (next(loader)["x"] == np.arange(10)).all()
        if how == "in place":
            with open(path, "r+b") as out:
                out.write(other.read_bytes())
        else:
            other.replace(path)
        for batch in loader:
            assert (batch["x"] == batch["index"]).all()
    assert "again.parquet" in str(error.value)


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    path = tmp_path / "shorter.parquet"
    pq.write_table(pa.table({"x": np.arange(40_000)}), path, row_group_size=100)
    doc = document(str(path), False, batch=10, fields=["x"])
    with pytest.raises(MrError) as error, \
            Loader(doc, read_ahead_bytes=4096, batches_ahead=1, threads=1) as loader:
        next(loader)
        os.truncate(path, 20_000)
        list(loader)
    assert "shorter.parquet" in str(error.value)
