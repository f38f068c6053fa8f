#!/bin/sh
# npy_before.sh BINARY: rows of .npy against an earlier commit of this repository, BEFORE=b7d0533 for one, which is built in
# build/before; see npy_before.py. It needs the repository's history, and without BEFORE does nothing.
set -eu
millrace=$PWD/$1 tree=$PWD/build/before
[ -n "${BEFORE:-}" ] || { echo "BEFORE=COMMIT says against which"; exit 0; }
commit=$(git rev-parse --verify "$BEFORE^{commit}")
[ "$(cat "$tree/commit" 2>/dev/null)" = "$commit" ] || {
    rm -rf "$tree"
    mkdir -p "$tree"
    git archive "$commit" | tar -x -C "$tree"
    (cd "$tree" && scripts/build release millrace_command >build.log 2>&1) || { tail -n 30 "$tree/build.log"; exit 1; }
    echo "$commit" >"$tree/commit"
}
build/venv/bin/python bench/npy_before.py "$millrace" "$tree/build/release/millrace" "${ROUNDS:-12}"
