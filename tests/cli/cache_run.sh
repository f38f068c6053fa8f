# The same digest without a store, cold, warm, half warm; the report tells of hits.
. "$HERE/common.inc"
needs_store
photos
settled
pipeline
cached
millrace run p.json --quiet >off
says millrace run c.json --threads 1 | grep -v digest
says millrace run c.json --threads 1 | grep -v digest
cp photos/cat/1.jpg new && cat new >photos/cat/1.jpg
settled
says millrace run c.json --threads 1 | grep -v digest
millrace run c.json --threads 1 | grep -o 'waiting to be stored.*'
# Each store has a queue; one that could not be opened has none.
sed "s|\"ops\": \[|&{\"cache\": {\"path\": \"$PWD/second\", \"size\": \"64MB\"}}, |" c.json >two.json
millrace run two.json --threads 1 | grep -o 'waiting to be stored.*'
sed 's|{"cache": {|&"path": "/proc/none", |' c.json >none.json
millrace run none.json --threads 1 2>/dev/null | grep -E 'waiting to be stored|no store'
millrace run c.json --threads 1 --json | grep -o '"caches": .*}\]'
for file in p.json c.json; do
    millrace run $file --quiet | cmp - off && echo "same digest"
done
# Two caches in one store: what was stored is told once. Without the later cache's entries the
# earlier one's are used.
sed 's/"ops": \[/&{"cache": {"size": "64MB"}}, /' c.json >c2.json
millrace cache clear
says millrace run c2.json --threads 1 --epochs 2 | grep -v digest
millrace cache clear c.json
says millrace run c2.json --threads 1 | grep -v digest
