# A pipeline follows a stream; its journal is replayed.
. "$HERE/common.inc"
seq 1 100 | says millrace append clicks --lines
cat >p.json <<END
{"source": {"segments": {"path": "clicks", "follow": true, "until": 100}},
 "rehearse": {"size": 20, "share": 0.5, "policy": "class_balanced"}, "batch": 16}
END
says millrace run --quiet p.json --journal journal --state-out state.json
says millrace replay journal
bound() { # reads JSON
    grep -o '"memory_bound": [0-9]*'
}
millrace check --json p.json | bound >foreseen
millrace run --json p.json --journal again | bound | cmp - foreseen && echo "check and run tell the same memory"
says millrace run --quiet p.json --state-in state.json
says millrace run --quiet p.json --journal journal --seed 5
millrace run --quiet p.json --top --trace trace --metrics metrics 2>&1 >/dev/null | sed -n 's/^\(stream\(, in\)\{0,1\}\) .*/\1/p'
millrace report trace | grep -o 'the stream: 100 entries read'
echo "counts, which are what the run delivered (100 entries, 192 bytes, 188 samples in 13 steps):"
grep '^millrace_stream' metrics | grep -v '_seconds'
grep -c '^millrace_stream.*_seconds' metrics
says millrace replay clicks
says millrace run --quiet p.json --journal clicks
sed 's/"rehearse"/"pace": {"early": "thin"}, "rehearse"/' p.json >q.json
says millrace run --quiet q.json
sed 's/"batch"/"shuffle": true, "batch"/' p.json >q.json
says millrace run --quiet q.json
sed 's/, "follow": true, "until": 100//' p.json >q.json
says millrace run --quiet q.json
echo "what is left out and what is delivered are what was read:"
sed 's/"rehearse"/"pace": {"early": "drop_oldest", "most_waiting": 30}, "rehearse"/' p.json >q.json
for turn in first second; do
    millrace run q.json --journal dropped --metrics $turn >$turn.text || exit
    awk '{ value[$1] = $2 }
        END { new = value["millrace_samples_total"] - value["millrace_stream_replayed_total"]
              print new + value["millrace_stream_left_out_total"], "of", value["millrace_stream_entries_total"] ", behind by",
                    value["millrace_stream_behind"] }' $turn
    left=$(awk '$1 == "millrace_stream_left_out_total" { print $2 }' $turn)
    again=$(awk '$1 == "millrace_stream_replayed_total" { print $2 }' $turn)
    grep -q "$again shown again" $turn.text || echo "metrics say $again shown again"
    [ "$left" = 0 ] || grep -q "$left left out" $turn.text || echo "metrics say $left left out"
done
for name in left_out replayed; do
    grep "^millrace_stream_${name}_total" first >one
    grep "^millrace_stream_${name}_total" second | cmp - one && echo "$name: as the journal has it"
done
