#!/bin/sh
# parquet_start.sh BINARY: how long Parquet sets of many files and many rows take to start; see parquet_start.py.
set -eu
exec build/venv/bin/python bench/parquet_start.py --millrace "$1"
