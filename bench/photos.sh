#!/bin/sh
# photos.sh BINARY [FOLDER]: what two threads gain on decoding whole photos, how soon the first batch
# of a training pipeline comes, and whether memory stays where it is over a hundred epochs. Runs take
# turns; medians of five.
set -eu
binary=$1
folder=${2:-../shared/data/photos}
[ -d "$folder" ] || { scripts/photos build/demo/photos 240 && folder=build/demo/photos; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/decode.json" <<JSON
{"source": {"files": {"path": "$folder"}}, "batch": 64, "fuse": false,
 "ops": [{"decode_image": {}}, {"center_crop": {"size": 64}}]}
JSON
cat >"$work/train.json" <<JSON
{"source": {"files": {"path": "$folder"}}, "batch": 128,
 "ops": [{"decode_image": {}}, {"random_resized_crop": {"size": 224}}, {"random_flip": {}},
         {"normalize": {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}}]}
JSON

figure() { # NAME, of the JSON object on standard input
    sed -n "s/.*\"$1\": \([0-9.e+-]*\).*/\1/p"
}

run() { # PIPELINE FIGURE OPTION...
    pipeline=$1 name=$2
    shift 2
    "$binary" run "$work/$pipeline.json" --quiet --no-digest --json "$@" | tail -n 1 | figure "$name"
}

median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

for _ in 1 2 3 4 5; do
    for threads in 1 2; do
        run decode samples_per_second --threads $threads --epochs 12 >>"$work/decode-$threads"
    done
    run train first_batch_seconds --threads 2 --steps 1 >>"$work/first"
    run train samples_per_second --threads 2 --epochs 6 >>"$work/rate"
done
run train peak_rss_bytes --threads 2 --epochs 10 >"$work/rss-10"
run train peak_rss_bytes --threads 2 --epochs 100 >"$work/rss-100"

awk -v one="$(median "$work/decode-1")" -v two="$(median "$work/decode-2")" \
    -v first="$(median "$work/first")" -v rate="$(median "$work/rate")" \
    -v rss10="$(cat "$work/rss-10")" -v rss100="$(cat "$work/rss-100")" 'BEGIN {
    printf "decode_image, 1 thread        %8.1f images/s\n", one
    printf "decode_image, 2 threads       %8.1f images/s, %.2f times as many\n", two, two / one
    printf "training, 2 threads           %8.1f images/s\n", rate
    printf "first batch of 128            %8.3f s after the process started, of which %.3f s are its work at that rate\n", first, 128 / rate
    printf "peak memory after 10 epochs   %8.1f MB\n", rss10 / 1e6
    printf "peak memory after 100 epochs  %8.1f MB\n", rss100 / 1e6
}'
