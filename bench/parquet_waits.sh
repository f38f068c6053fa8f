#!/bin/sh
# parquet_waits.sh BINARY: how long a training step waits for Parquet files, with Petastorm and with
# millrace; see parquet_waits.py.
set -eu
scripts/python build >/dev/null
exec build/venv/bin/python bench/parquet_waits.py --into docs/benchmarks_parquet_waits.md
