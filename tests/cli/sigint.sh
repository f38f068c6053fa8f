# Ctrl-C ends a run in good order: report, state, exit code 130. SIGTERM likewise with 143.
. "$HERE/common.inc"
photos
pipeline '"epochs": 100000000'
for name in INT TERM; do
    rm -f s
    mkfifo digests
    # A background job of a script ignores SIGINT; millrace respects that, so undo it.
    env --default-signal=INT "$MILLRACE" run p.json --threads 2 --state-out s --digests digests \
        >out 2>err &
    pid=$!
    exec 3<digests
    read -r first <&3
    kill -$name $pid
    cat <&3 >rest
    wait $pid
    echo "exit code $?"
    exec 3<&-
    rm digests
    sed -E 's/^[0-9,]+ samples in [0-9,]+ batch(es)?( of [0-9]+ epochs)?/N samples/; s/digest .*/digest/' out
    cat err
    [ -s s ] && echo "state saved"
    # The state stands after the last batch delivered.
    echo "$first" | cat - rest >both
    steps=$(wc -l <both)
    millrace run p.json --quiet --digests again --steps $((steps + 1)) >/dev/null
    millrace run p.json --quiet --state-in s --digests next --steps 1 >/dev/null
    cat both next | cmp - again && echo "goes on exactly"
done
