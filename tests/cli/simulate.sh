# The published curve of Lassen; a cold epoch; what the CSV has; and documents that are none.
"$MILLRACE" simulate "$HERE/../../examples/lassen_loading.json" | awk 'NR <= 2 || $1 == 1 || $1 == 8 || $1 == 256'
"$MILLRACE" simulate "$HERE/../../examples/lassen_training.json" | awk '$1 >= 16 && $4 != "strict"'
simulation() {
    echo "{\"samples\": 5000, \"sample_bytes\": \"1KB\", \"nodes\": [4], \"ranks_per_node\": 2, \"local_batch\": 16, \"memory\": \"${1:-1MB}\",
        \"storage\": \"1MB\", \"network\": \"1MB\", \"prepare\": 1000${2:+, $2}}" >s.json
}
simulation 2MB '"epoch": 0, "steps": 2'
"$MILLRACE" simulate s.json --csv s.csv
cat s.csv
# A quarter of a node's share is kept: most slots are nobody's, and nothing need move.
simulation 312KB '"steps": 1000'
"$MILLRACE" simulate s.json --csv s.csv | tail -1
awk -F, '$4 == "local" { n += $7; bytes += $8 + $9 + $10; if ($12 > 3) print "messages", $12 }
    END { print n, "samples", bytes, "bytes" }' s.csv
simulation 1MB '"trian": 3'
"$MILLRACE" simulate s.json || echo "exit $?"
simulation 1MB '"steps": 0'
"$MILLRACE" simulate s.json || echo "exit $?"
echo '{' >s.json
"$MILLRACE" simulate s.json || echo "exit $?"
echo '[1]' >s.json
"$MILLRACE" simulate s.json || echo "exit $?"
"$MILLRACE" simulate absent.json || echo "exit $?"
simulation
"$MILLRACE" simulate s.json --csv absent/s.csv || echo "exit $?"
# A page for a browser: every curve, in the order of the nodes, and names that are text alone.
simulation 312KB '"steps": 2'
sed -i 's/\[4\]/[4, 1, 2]/; s/"local_batch": 16/"local_batch": [16, 8]/' s.json
cp s.json 'a<b>.json'
"$MILLRACE" simulate 'a<b>.json' -o s.html >s.out
grep -oE '<figcaption>[^<]*' s.html | sort | uniq -c | sed -E 's/^ +//'
grep -c 'a&lt;b&gt;.json' s.html
grep -oE '<tr><td>[0-9]+</td><td>[0-9]+</td><td>[0-9]+</td><td>(storage|local)' s.html | sed -E 's/<[^>]*>/ /g'
grep -ciE 'http|<script|nan|inf"' s.html
"$MILLRACE" simulate s.json -o s.json || echo "exit $?"
"$MILLRACE" simulate s.json -o absent/s.html >s.out || echo "exit $?"
# Rates that a run has measured; what the document says counts first.
. "$HERE/common.inc"
photos
pipeline '"epochs": 200'
millrace run p.json --quiet --trace t --consume 1ms >/dev/null || exit
echo '{"samples": 1000, "nodes": [1, 4], "local_batch": 8, "memory": "1MB", "network": "1GB", "storage": "1MB", "ranks_per_node": 2}' >s.json
says millrace simulate s.json
millrace simulate s.json --trace t -o s.html >s.out || exit
sed -n '/<pre>/,/<.pre>/p' s.html | grep -oE '(storage|sample_bytes|prepare|train)&quot;: [1-9]' | sed -E 's/[0-9]$/N/' | sort
grep -c 'storage&quot;: &quot;1MB&quot;' s.html
grep -c . s.out
says millrace simulate s.json --trace absent
says millrace simulate s.json --trace s.json
echo '[2]' >s.json
says millrace simulate s.json --trace t
