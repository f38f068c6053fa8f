#!/bin/sh
# fabric.sh MILLRACE: ranks that send each other what they keep; writes docs/benchmarks_fabric.md.
set -eu
exec python3 "$(dirname "$0")/fabric.py" "$(dirname "$1")"
