# A pipeline follows a stream; its journal is replayed.
. "$HERE/common.inc"
seq 1 100 | says millrace append clicks --lines
cat >p.json <<END
{"source": {"segments": {"path": "clicks", "follow": true, "until": 100}},
 "rehearse": {"size": 20, "share": 0.5, "policy": "class_balanced"}, "batch": 16}
END
says millrace run --quiet p.json --journal journal --state-out state.json
says millrace replay journal
says millrace run --quiet p.json --state-in state.json
says millrace run --quiet p.json --journal journal --seed 5
millrace run --quiet p.json --top --trace trace --metrics metrics 2>&1 >/dev/null | sed -n 's/^\(stream\(, in\)\{0,1\}\) .*/\1/p'
millrace report trace | grep -o 'the stream: 100 entries read'
grep -c '^millrace_stream' metrics
says millrace replay clicks
sed 's/"rehearse"/"pace": {"early": "thin"}, "rehearse"/' p.json >q.json
says millrace run --quiet q.json
sed 's/"batch"/"shuffle": true, "batch"/' p.json >q.json
says millrace run --quiet q.json
sed 's/, "follow": true, "until": 100//' p.json >q.json
says millrace run --quiet q.json
