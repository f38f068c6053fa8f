#!/bin/sh
# sources.sh BINARY: shards, arrays, tokens and HDF5 against webdataset, tf.data, DALI, h5py and numpy; see
# sources.py.
set -eu
scripts/python build >/dev/null
scripts/photos build/demo/photos 240
exec build/venv/bin/python bench/sources.py --into docs/benchmarks_sources.md
