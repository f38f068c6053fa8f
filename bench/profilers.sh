#!/bin/sh
# profilers.sh BINARY [FOLDER]: what it costs to be watched, by us and by others; see profilers.py.
set -eu
shift
scripts/python build >/dev/null
exec build/venv/bin/python bench/profilers.py "$@"
