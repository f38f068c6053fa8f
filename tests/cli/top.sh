# Live figures: a table at the end where there is no terminal, and a file for Prometheus.
. "$HERE/common.inc"
photos
pipeline
printf '1ms\n0.5ms\n' >steps
millrace run p.json --quiet --top --metrics m.prom --consume steps 2>&1 | awk '{ print $1, $2 }' | grep -v wait_
grep -E '^millrace_(samples|batches)_total|count.*decode' m.prom
