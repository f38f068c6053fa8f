#!/bin/sh
# jpeg.sh BINARY [FOLDER]: our JPEG decoders against libjpeg-turbo, on one thread; see decode_jpeg.c.
set -eu
binary=$1
folder=${2:-../shared/data/photos}
[ -d "$folder" ] || { scripts/photos build/demo/photos 240 && folder=build/demo/photos; }
list=$(mktemp)
trap 'rm -f "$list"' EXIT
find "$folder" -type f >"$list"
"$(dirname "$binary")/decode_jpeg" "$list" 5
