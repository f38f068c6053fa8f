#!/bin/sh
# Golden tests of the millrace command. Each NAME.sh beside this file is a case; NAME.out, NAME.err
# and NAME.exit are what it must print and return. A case runs in an empty folder of its own.
#
#   tests/cli/run.sh BINARY [NAME...]            runs all cases, or some
#   tests/cli/run.sh --update BINARY [NAME...]   writes what they print as what they must print
#
# Figures that differ from run to run (times, rates, memory) are replaced before comparing.
set -u

update=no
if [ "${1:-}" = --update ]; then
    update=yes
    shift
fi
if [ $# -lt 1 ]; then
    echo "usage: tests/cli/run.sh [--update] BINARY [NAME...]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
MILLRACE=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
export MILLRACE HERE="$here" LC_ALL=C.UTF-8 TERM=dumb
unset NO_COLOR

scratch=$(mktemp -d)
trap 'chmod -R u+rwx "$scratch"; rm -rf "$scratch"' EXIT

filter() {
    sed -E \
        -e 's/throughput   .*/throughput   RATE/' \
        -e 's/first batch  [0-9.]+ s/first batch  TIME/' \
        -e 's/peak memory  .*/peak memory  MEMORY/' \
        -e 's/"(seconds|samples_per_second|first_batch_seconds|wait_seconds)": [0-9.e+-]+/"\1": TIME/g' \
        -e 's/"(peak_rss_bytes|memory_bound|bytes_read)": [0-9]+/"\1": BYTES/g' \
        -e 's/"cpu": "[a-z0-9,]+"/"cpu": "CPU"/'
}

run_case() {
    name=$1
    mkdir "$scratch/$name" "$scratch/$name/work"
    got=$scratch/$name
    (cd "$got/work" && exec sh -u "$here/$name.sh") >"$got/raw.out" 2>"$got/raw.err" </dev/null
    echo $? >"$got/exit"
    filter <"$got/raw.out" >"$got/out"
    filter <"$got/raw.err" >"$got/err"
}

check_case() {
    same=yes
    for part in out err exit; do
        if [ $update = yes ]; then
            cp "$got/$part" "$here/$name.$part"
        elif ! diff -u "$here/$name.$part" "$got/$part"; then
            same=no
        fi
    done
    [ $same = yes ]
}

if [ $# -eq 0 ]; then
    for file in "$here"/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = run ] || set -- "$@" "$name"
    done
fi
passed=0 failed=0
for name; do
    run_case "$name"
    if check_case; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
