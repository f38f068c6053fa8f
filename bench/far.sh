#!/bin/sh
# far.sh MILLRACE [FOLDER]: objects on servers; see far.py. Photos of the folder, or made-up ones.
set -eu
millrace=$1
photos=${2:-build/demo/photos}
[ -e "$photos" ] || scripts/photos "$photos" 240
build/venv/bin/python bench/far.py "$millrace" "$photos"
