# SPDX-License-Identifier: Apache-2.0
"""A Parquet file with numbers of every type, lists of one length and lists that vary."""
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 50
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "uint8")


def values():
    """By column, row by row, as numpy has them."""
    rng = np.random.default_rng(5)
    out = {name: rng.integers(0, 2 if name == "bool" else 100, ROWS).astype(name) for name in NUMBERS}
    out["dense"] = rng.standard_normal((ROWS, 3)).astype(np.float32)
    out["ragged"] = [np.arange(i % 5, dtype=np.float32) + i for i in range(ROWS)]
    out["text"] = [np.frombuffer(f"row {i}".encode() * (1 + i % 3), np.uint8) for i in range(ROWS)]
    return out


def write(path):
    columns = values()
    table = {name: pa.array(columns[name]) for name in NUMBERS}
    for name in ("dense", "ragged"):
        table[name] = pa.array([row.tolist() for row in columns[name]], pa.list_(pa.float32()))
    table["text"] = [row.tobytes().decode() for row in columns["text"]]
    pq.write_table(pa.table(table), path, row_group_size=13)
    return columns
