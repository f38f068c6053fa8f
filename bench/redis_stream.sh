#!/bin/sh
# redis_stream.sh: entries of 4 KB from a Redis server of this machine, one rank, against
# redis-benchmark that asks for as many at a time. Rounds are interleaved; the best of each counts.
# Wants build/release/millrace (MILLRACE=... for another), redis-server and redis-tools.
set -eu
cd "$(dirname "$0")/.."
millrace=${MILLRACE:-build/release/millrace} entries=${1:-50000} rounds=${2:-5}
folder=$(mktemp -d)
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' --dir "$folder" >/dev/null &
server=$!
trap 'kill $server; wait $server 2>/dev/null || true; rm -r "$folder"' EXIT
until redis-cli -p "$port" ping >/dev/null 2>&1; do sleep 0.1; done

python3 - "$entries" <<'PY' | redis-cli -p "$port" --pipe >/dev/null
import sys
value = bytes(range(256)) * 16
words = [b"XADD", b"s", b"*", b"label", b"1", b"value", value]
command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
for _ in range(int(sys.argv[1])):
    sys.stdout.buffer.write(command)
PY

printf '{"source": {"redis_stream": {"url": "redis://127.0.0.1:%s", "keys": ["s"], "until": %s}}, "batch": 250}\n' \
    "$port" "$entries" >"$folder/pipeline.json"
round=0
while [ "$round" -lt "$rounds" ]; do
    "$millrace" run "$folder/pipeline.json" --no-digest --json 2>/dev/null |
        python3 -c 'import json, sys; r = json.load(sys.stdin); print("millrace", r["samples"] / r["seconds"])'
    redis-benchmark -p "$port" -c 1 -n $((entries / 250)) -q --csv XREAD COUNT 250 STREAMS s 0 |
        tail -n 1 | python3 -c 'import sys; print("redis-benchmark", 250 * float(sys.stdin.read().split(",")[1].strip("\"")))'
    round=$((round + 1))
done | awk '
    { if ($2 > best[$1]) best[$1] = $2 }
    END {
        for (name in best) printf "%-16s %.0f entries/s, %.0f MB/s\n", name, best[name], best[name] * 4096 / 1e6
        printf "ratio            %.2f\n", best["millrace"] / best["redis-benchmark"]
    }'
