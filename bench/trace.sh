#!/bin/sh
# trace.sh BINARY [FOLDER]: what tracing costs on the training pipeline (runs take turns), and how near the
# model comes: the rate predicted from one traced run against the rate measured, with 1, 2 and 4 threads.
set -eu
binary=$1
folder=${2:-../shared/data/photos}
[ -d "$folder" ] || { scripts/photos build/demo/photos 240 && folder=build/demo/photos; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/train.json" <<JSON
{"source": {"files": {"path": "$folder"}}, "batch": 128,
 "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_flip": {}},
         {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}]}
JSON

rate() { # OPTION...
    "$binary" run "$work/train.json" --quiet --no-digest --json "$@" | tail -n 1 |
        sed -n 's/.*"samples_per_second": \([0-9.e+-]*\).*/\1/p'
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

rate --threads 2 --epochs 2 >/dev/null # files into memory
for _ in 1 2 3 4 5 6 7; do
    rate --threads 2 --epochs 12 >>"$work/off"
    rate --threads 2 --epochs 12 --trace "$work/on.trace" >>"$work/on"
done
awk -v off="$(median "$work/off")" -v on="$(median "$work/on")" 'BEGIN {
    printf "training, 2 threads, not traced  %8.1f images/s\n", off
    printf "training, 2 threads, traced      %8.1f images/s, %+.1f %%\n", on, 100 * (on / off - 1) }'

predicted() { # TRACE THREADS
    "$binary" explain "$1" | awk -v n="$2" '/^predicted with/ { on = 1 } on && $1 == n { print $2 }'
}

# Steady rates: from the first batch to the last, as the model means it.
measured() { # THREADS
    "$binary" run "$work/train.json" --quiet --no-digest --threads "$1" --epochs 12 --trace "$work/$1.trace"
    "$binary" explain "$work/$1.trace" | sed -n 's/.*after the first batch: \([0-9]*\) samples.*/\1/p'
}

for threads in 1 2 4; do measured $threads >"$work/rate-$threads"; done
for from in 1 2; do
    for threads in 1 2 4; do
        awk -v from=$from -v n=$threads -v p="$(predicted "$work/$from.trace" $threads)" -v m="$(cat "$work/rate-$threads")" 'BEGIN {
            printf "from a run with %d: %d threads predicted %6.0f, measured %6.0f images/s, %+.1f %%\n", from, n, p, m, 100 * (p / m - 1) }'
    done
done
