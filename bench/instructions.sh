#!/bin/sh
# instructions.sh BINARY [FOLDER]: what a trace costs, in instructions; see instructions.py.
set -eu
shift
command -v valgrind >/dev/null || { echo "needs valgrind"; exit 0; }
exec build/venv/bin/python bench/instructions.py "$@"
