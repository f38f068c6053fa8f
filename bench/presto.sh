#!/bin/sh
# presto.sh BINARY [FOLDER]: PRESTO's seven pipelines at every cut, beside the paper's figures; see presto.py.
set -eu
binary=$1
shift
exec build/venv/bin/python bench/presto.py "$binary" "$@"
