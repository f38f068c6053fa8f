#!/bin/sh
# presto.sh BINARY [FOLDER]: PRESTO's seven pipelines at every cut, beside the paper's figures; see presto.py. Writes
# docs/benchmarks_presto.md.
set -eu
binary=$1
shift
build/venv/bin/python bench/presto.py "$binary" "$@" >build/benchmarks_presto.md
cat bench/notes_presto.md >>build/benchmarks_presto.md
mv build/benchmarks_presto.md docs/benchmarks_presto.md
cat docs/benchmarks_presto.md
