#!/bin/sh
# profilers.sh BINARY [FOLDER]: what it costs to be watched: one Python job over the training pipeline, alone, with
# millrace's own trace, and under other profilers, in turns. Tools that are not installed are left out and named:
# perf (Debian's linux-perf), py-spy (pip install py-spy).
set -eu
folder=${2:-../shared/data/photos}
[ -d "$folder" ] || { scripts/photos build/demo/photos 240 && folder=build/demo/photos; }
[ -e build/python/python/millrace ] || scripts/python build >/dev/null
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PYTHONPATH=$PWD/build/python/python
export PYTHONPATH
python=$PWD/build/venv/bin/python

cat >"$work/job.py" <<'PYTHON'
import sys, time
import millrace as mr
pipeline = (mr.files(sys.argv[1]).decode_image().random_resized_crop(224).random_flip()
            .normalize(mean=mr.IMAGENET_MEAN, std=mr.IMAGENET_STD).batch(128))
with pipeline.loader(threads=2, epochs=12, seed=1, trace=sys.argv[2] or None) as loader:
    first = None
    for batch in loader:
        if first is None:
            first, samples = time.perf_counter(), 0
        else:
            samples += batch.size
    print(samples / (time.perf_counter() - first))
PYTHON

has() {
    command -v "$1" >/dev/null || [ -x "build/venv/bin/$1" ]
}

watched() { # NAME: the job's rate
    case $1 in
    alone) "$python" "$work/job.py" "$folder" "" ;;
    millrace) "$python" "$work/job.py" "$folder" "$work/millrace.out" ;;
    cProfile) "$python" -m cProfile -o "$work/cProfile.out" "$work/job.py" "$folder" "" ;;
    perf) perf record -q -F 999 -g -e cpu-clock -o "$work/perf.out" "$python" "$work/job.py" "$folder" "" 2>/dev/null ;;
    py-spy) PATH=build/venv/bin:$PATH py-spy record -q -r 100 --native -f raw -o "$work/py-spy.out" -- \
        "$python" "$work/job.py" "$folder" "" ;;
    esac | grep -E '^[0-9.]+$' | tail -n 1
}

names="alone millrace cProfile"
for tool in perf py-spy; do
    if has $tool; then names="$names $tool"; else echo "$tool is not installed: left out"; fi
done
for _ in 1 2 3 4 5; do
    for name in $names; do watched "$name" >>"$work/$name.rates"; done
done
median() {
    sort -g "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}
for name in $names; do
    bytes=$(wc -c <"$work/$name.out" 2>/dev/null || echo 0)
    awk -v name="$name" -v alone="$(median "$work/alone.rates")" -v rate="$(median "$work/$name.rates")" -v bytes="$bytes" 'BEGIN {
        printf "%-10s %8.1f images/s %+6.1f %%  %8.2f MB written\n", name, rate, 100 * (rate / alone - 1), bytes / 1e6 }'
done
