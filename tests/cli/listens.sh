# A run listens on nothing: its metrics are a file, and a fabric of Redis is called and calls nobody.
. "$HERE/common.inc"
photos
pipeline '"epochs": 100000'

# listening PID: those of its sockets that others may call: TCP that listens, UDP that has no partner.
listening() {
    ls -l "/proc/$1/fd" | sed -n 's/.*socket:\[\([0-9]*\)\]$/\1/p' | sort >own
    for kind in tcp tcp6 udp udp6; do
        cat "/proc/$1/net/$kind" 2>/dev/null
    done | awk '$4 == "0A" || $4 == "07" { print $10 }' | sort | comm -12 own -
}

# looked_at ARGUMENT...: a run, looked at when it has delivered batches.
looked_at() {
    rm -f d
    "$MILLRACE" run p.json --quiet --consume 20ms --metrics m.prom --digests d "$@" >/dev/null 2>&1 &
    run=$!
    while kill -0 $run && { [ ! -e d ] || [ "$(wc -l <d)" -lt 3 ]; }; do sleep 0.05; done
    listening $run >found
    kill -9 $run && echo "ran and listened on $(wc -l <found) sockets"
    wait $run 2>/dev/null
}
looked_at
looked_at --fabric redis://127.0.0.1:1
