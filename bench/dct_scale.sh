#!/bin/sh
# dct_scale.sh BINARY [FOLDER]: what decode_image's dct_scale gains, and how much pixels differ.
set -eu
binary=$1
shift
MILLRACE_LIB=$(dirname "$binary")/libmillrace.so exec build/venv/bin/python bench/dct_scale.py "$binary" "$@"
