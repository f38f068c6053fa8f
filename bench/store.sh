#!/bin/sh
# store.sh BINARY [FOLDER]: the store against other ways to keep samples; see store.py.
set -eu
shift
exec build/venv/bin/python bench/store.py "$@"
