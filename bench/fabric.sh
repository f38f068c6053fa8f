#!/bin/sh
# fabric.sh MILLRACE [--no-namespaces]: ranks that send each other what they keep; writes docs/benchmarks_fabric.md.
set -eu
build=$(dirname "$1")
shift
exec python3 "$(dirname "$0")/fabric.py" "$build" "$@"
