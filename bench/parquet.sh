#!/bin/sh
# parquet.sh BINARY: Parquet files to batches, against pyarrow, polars and DuckDB; see parquet.py.
set -eu
scripts/python build >/dev/null
exec build/venv/bin/python bench/parquet.py --into docs/benchmarks_parquet.md
