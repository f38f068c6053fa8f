#!/bin/sh
# rivals.sh BINARY [FOLDER]: millrace against other loaders; see rivals.py.
set -eu
binary=$1
shift
scripts/python build >/dev/null
exec build/venv/bin/python bench/rivals.py --millrace "$binary" "$@"
