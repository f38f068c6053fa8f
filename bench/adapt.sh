#!/bin/sh
# adapt.sh BINARY [FOLDER [CASE...]]: --threads auto beside fixed numbers of threads and reads; see adapt.py.
set -eu
binary=$1
folder=${2:-../shared/data/photos}
[ -d "$folder" ] || { scripts/photos build/demo/photos 240 && folder=build/demo/photos; }
[ $# -lt 2 ] || shift
shift
exec build/venv/bin/python bench/adapt.py "$binary" "$folder" "$@"
