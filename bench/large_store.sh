#!/bin/sh
# large_store.sh BINARY [FOLDER]: a store larger than memory; see large_store.py.
set -eu
shift
[ "$(id -u)" = 0 ] || { echo "needs root, for a control group"; exit 0; }
exec build/venv/bin/python bench/large_store.py "$@"
