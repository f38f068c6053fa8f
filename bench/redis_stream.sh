#!/bin/sh
# redis_stream.sh [MILLRACE]: entries of 4 KB from a Redis server of this machine, one rank, against
# redis-benchmark that asks for as many at a time: the first 250 again and again (which stay in the CPU's
# cache), and 250 from anywhere, as a run has them. Rounds are interleaved; the best of each counts. CPU
# time is that of millrace and of redis-benchmark alone, the server's beside it.
# A second of entries or more, so that starting counts for little. ENTRIES and ROUNDS are taken from the environment. Wants redis-server and redis-tools.
set -eu
cd "$(dirname "$0")/.."
millrace=${1:-build/release/millrace} entries=${ENTRIES:-200000} rounds=${ROUNDS:-5}
folder=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >/dev/null &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -r "$folder"' EXIT
until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done

python3 - "$entries" <<'PY' | redis-cli -p "$port" --pipe >/dev/null
import sys
value = bytes(range(256)) * 16
for i in range(int(sys.argv[1])):
    words = [b"XADD", b"s", b"0-%d" % (i + 1), b"label", b"1", b"value", value]
    sys.stdout.buffer.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
PY

printf '{"source": {"redis_stream": {"url": "redis://127.0.0.1:%s", "keys": ["s"], "until": %s}}, "batch": 250}\n' \
    "$port" "$entries" >"$folder/pipeline.json"

server_cpu() { # seconds
    awk -v ticks="$(getconf CLK_TCK)" '{ print ($14 + $15) / ticks }' "/proc/$server/stat"
}

measured() { # NAME COMMAND...: prints NAME, wall, CPU of the command, CPU of the server; all in seconds
    name=$1
    shift
    before=$(server_cpu)
    python3 - "$name" "$before" "$@" <<'PY'
import os, resource, subprocess, sys, time
begun = time.monotonic()
subprocess.run(sys.argv[3:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
wall, used = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
print(sys.argv[1], sys.argv[2], wall, used.ru_utime + used.ru_stime, end=" ")
PY
    server_cpu
}

round=0
while [ "$round" -lt "$rounds" ]; do
    measured millrace "$millrace" run "$folder/pipeline.json" --no-digest
    measured benchmark-same redis-benchmark -p "$port" -c 1 -n $((entries / 250)) -q XREAD COUNT 250 STREAMS s 0
    measured benchmark redis-benchmark -p "$port" -c 1 -n $((entries / 250)) -r $((entries - 250)) -q \
        XREAD COUNT 250 STREAMS s 0-__rand_int__
    round=$((round + 1))
done | awk -v entries="$entries" '
    function less(a, b) { return b == "" || a < b ? a : b }
    { wall[$1] = less($3, wall[$1]); cpu[$1] = less($4, cpu[$1]); served[$1] = less($5 - $2, served[$1]) }
    END {
        for (name in wall)
            printf "%-16s %6.0f entries/s, %5.0f MB/s; %.2f us of CPU an entry, the server %.2f us\n", name,
                entries / wall[name], entries / wall[name] * 4096 / 1e6, cpu[name] / entries * 1e6, served[name] / entries * 1e6
        printf "ratio            %.2f of the same batches, %.2f of one batch again and again\n", wall["benchmark"] / wall["millrace"],
            wall["benchmark-same"] / wall["millrace"]
    }'
