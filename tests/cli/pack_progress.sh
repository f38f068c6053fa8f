# On a terminal pack draws a bar with the time that is left, and takes it away before its report.
. "$HERE/common.inc"
if ! script -qec true /dev/null >/dev/null </dev/null 2>&1; then
    echo "no pseudo-terminal can be opened" >&2
    exit 77
fi
export TERM=xterm
echo '{"source": {"lines": {"path": "lines.txt"}}, "batch": 4}' >p.json
bar='\[[^]]*\] +[0-9]+%  [0-9,.]+ samples/s  [0-9:]+ left'
# A fast machine may be done before the first bar is due: then more lines.
for n in 3000 30000 300000; do
    seq $n >lines.txt
    script -qec "'$MILLRACE' pack p.json -o pack$n --upto source --shard 10000" typescript </dev/null >/dev/null
    tr -d '\r' <typescript >log
    grep -qE "$bar" log && break
done
grep -qE "$bar" log && echo "bar drawn"
esc=$(printf '\033')
grep -oE "left$esc\[K[0-9,]+ samples in [0-9,]+ shards?" log | sed "s/$esc/ESC/; s/[0-9,]* samples in.*/REPORT/"
script -qec "'$MILLRACE' pack p.json -o quiet --upto source --quiet --json" typescript </dev/null >/dev/null
grep -qE "$bar" typescript || echo "no bar"
