#!/bin/sh
# many_files.sh BINARY: a folder of FILES names (200,000; for the figures of docs/python.md 10,000,000), in a temporary folder; see
# many_files.py.
set -eu
exec build/venv/bin/python bench/many_files.py "$1" "${FILES:-200000}"
