# What the data looks like: blocks that are shuffled together, what is alive at once; data that is not there.
. "$HERE/common.inc"
i=0
while [ $i -lt 12 ]; do
    seq -f "%g,$i" $((i * 50)) $((i * 50 + 49)) | sed '1i a,b' >part$i.csv
    i=$((i + 1))
done
echo '{"source": {"lines": {"path": "*.csv", "block_bytes": 4096}}, "batch": 64, "shuffle": {"window": 4, "lanes": 2}}' >p.json
says millrace check p.json
millrace check p.json --json | sed 's/.*\("data": {[^}]*}\).*/\1/'
says millrace run p.json
rm part*.csv
echo '{"source": {"files": {"path": "nowhere"}}, "ops": ["decode_image", {"resize": {"size": 8}}], "batch": 4}' >p.json
says millrace check p.json
millrace check p.json --json | sed 's/.*\("data": {.*}\), "warnings".*/\1/'
