# Rows that are made many at a time are made so while a trace is written, too: same bytes, few spans, every row counted.
. "$HERE/common.inc"
i=0
while [ $i -lt 900 ]; do
    printf '{"number": %d.5, "text": "%s"}\n' $i "$(printf '%*s' $((i % 7)) '')"
    i=$((i + 1))
done >rows.jsonl
cat >rows.json <<END
{"source": {"lines": {"path": "rows.jsonl"}}, "ops": [{"clip": {"low": 5, "high": 800, "field": "number"}}], "batch": 300}
END
cat >people.json <<END
{"source": {"parquet": {"path": "$HERE/data/people.parquet", "nulls": "fill"}}, "batch": 2, "epochs": 3}
END
for name in rows people; do
    millrace run $name.json --quiet >plain
    for threads in 1 2; do
        millrace run $name.json --quiet --threads $threads --trace t.trace | cmp - plain && [ -s plain ] && echo "$name: same digest"
    done
    millrace report t.trace --json | grep -oE '"damaged":0|"dropped":0'
    millrace report t.trace --csv t.csv
    awk -F, 'NR > 1 && ($2 == "fill" || $2 == "op" || $2 == "sample") { rows[$2] += $10; if ($10 > 1) shared[$2] = 1 }
        END { for (kind in rows) print kind, rows[kind], shared[kind] ? "shared" : "one by one" }' t.csv | sort
done
millrace report t.trace | grep 'slowest samples' || echo "no row was timed by itself"
