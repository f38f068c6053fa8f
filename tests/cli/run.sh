#!/bin/sh
# Golden tests of the millrace command. Each NAME.sh beside this file is a case; NAME.out, NAME.err
# and NAME.exit are what it must print and return (no file: nothing, or 0). A case runs in an empty folder of its own.
#
#   tests/cli/run.sh BINARY [NAME...]            runs all cases, or some
#   tests/cli/run.sh --update BINARY [NAME...]   writes what they print as what they must print
#
# A case that cannot run here says why on stderr and exits with 77; that is said aloud.
# The user's own store of prepared samples is WORK/xdg/millrace/store, WORK being that folder.
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
if [ ! -x "$MILLRACE" ]; then
    echo "tests/cli/run.sh: there is no program $MILLRACE" >&2
    exit 2
fi
export MILLRACE HERE="$here" LC_ALL=C.UTF-8 TERM=dumb
unset NO_COLOR

scratch=$(mktemp -d)
trap 'chmod -R u+rwx "$scratch"; rm -rf "$scratch"' EXIT

filter() {
    sed -E \
        -e "s#$scratch/$name/work#WORK#g" \
        -e 's/throughput   .*/throughput   RATE/' \
        -e 's/first batch  [0-9.]+ s after the start \([0-9.]+ s after/first batch  TIME after the start (TIME after/' \
        -e 's/peak memory  .*/peak memory  MEMORY/' \
        -e 's/"(seconds|samples_per_second|first_batch_seconds|wait_seconds)": [0-9.e+-]+/"\1": TIME/g' \
        -e 's/"(peak_rss_bytes|memory_bound|bytes_read)": [0-9]+/"\1": BYTES/g' \
        -e 's/of a run at most .*/of a run at most MEMORY/' \
        -e 's/at most [0-9,]+ alive at once(, of [0-9,]+ allowed)?/at most N alive at once/' \
        -e 's/"(blocks_bound|blocks_most)": [1-9][0-9]*/"\1": N/g' \
        -e 's/"cpu": "[a-z0-9,]+"/"cpu": "CPU"/'
}

run_case() {
    name=$1
    mkdir "$scratch/$name" "$scratch/$name/work"
    got=$scratch/$name
    (cd "$got/work" && export XDG_CACHE_HOME="$got/work/xdg" && exec timeout -k 5 60 sh -u "$here/$name.sh") >"$got/raw.out" 2>"$got/raw.err" </dev/null
    echo $? >"$got/exit"
    filter <"$got/raw.out" >"$got/out"
    filter <"$got/raw.err" >"$got/err"
}

# What part PART of the case must be.
expected() {
    if [ -e "$here/$name.$1" ]; then
        cat "$here/$name.$1"
    elif [ "$1" = exit ]; then
        echo 0
    fi
}

update_part() {
    rm -f "$here/$name.$1"
    expected "$1" | cmp -s - "$got/$1" || cp "$got/$1" "$here/$name.$1"
}

check_case() {
    same=yes
    for part in out err exit; do
        if [ $update = yes ]; then
            update_part $part
        elif ! expected $part | diff -u --label "$name.$part expected" --label "$name.$part" - "$got/$part"; then
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
passed=0 failed=0 skipped=0
for name; do
    run_case "$name"
    if [ "$(cat "$got/exit")" = 77 ]; then
        echo "skipped: $name: $(cat "$got/err")"
        skipped=$((skipped + 1))
    elif check_case; then
        echo "ok $name"
        passed=$((passed + 1))
    else
        echo "FAILED $name"
        failed=$((failed + 1))
    fi
done
[ $skipped -eq 0 ] || skipped_text=", $skipped skipped"
echo "$passed passed, $failed failed${skipped_text:-}"
[ $failed -eq 0 ]
