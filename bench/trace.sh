#!/bin/sh
# trace.sh BINARY [FOLDER]: what a trace costs, and how near its predictions come; see trace.py.
set -eu
exec build/venv/bin/python bench/trace.py --millrace "$@"
