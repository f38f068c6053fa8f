#!/bin/sh
# stream_rivals.sh: a loader that rehearses against Avalanche's ReservoirSamplingBuffer (updates of 1,000 and of 100, samples of
# 64 bytes, those it takes in) and against Reverb's dataset (samples of 4 KB, those it delivers). Rounds are interleaved; the
# best of each counts. PYTHON has millrace; AVALANCHE and REVERB are Pythons that have avalanche-lib 0.6 and
# dm-reverb 0.14 with its tensorflow: made by hand, since they want other versions of what the rest wants.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-build/venv/bin/python} rounds=${ROUNDS:-3}
avalanche=${AVALANCHE:-build/bench-venvs/avalanche/bin/python} reverb=${REVERB:-build/bench-venvs/reverb/bin/python}
here=bench/rivals
millrace() {
    MILLRACE_LIB=$PWD/build/python/libmillrace.so PYTHONPATH=$PWD/build/python/python "$python" $here/stream_millrace.py "$@"
}

round=0
while [ "$round" -lt "$rounds" ]; do
    for update in 1000 100; do
        echo "taken/$update millrace $(millrace 20000 $update 64 400000 | cut -d ' ' -f 1)"
        [ ! -x "$avalanche" ] || echo "taken/$update avalanche $("$avalanche" $here/stream_avalanche.py 20000 $update 2 2>/dev/null)"
    done
    echo "delivered millrace $(millrace 20000 128 4096 150000 | cut -d ' ' -f 2)"
    [ ! -x "$reverb" ] || {
        echo "delivered reverb $("$reverb" $here/stream_reverb.py 20000 3 2>/dev/null | cut -d ' ' -f 1)"
        echo "delivered reverb-inserting $("$reverb" $here/stream_reverb.py 20000 3 insert 2>/dev/null | cut -d ' ' -f 1)"
    }
    round=$((round + 1))
done | awk '
    $3 > best[$1 " " $2] { best[$1 " " $2] = $3 }
    END {
        for (name in best) {
            split(name, part, " ")
            printf "%-12s %-18s %8d samples/s", part[1], part[2], best[name]
            if (part[2] != "millrace") printf "   millrace %.1f x", best[part[1] " millrace"] / best[name]
            print ""
        }
    }' | sort
