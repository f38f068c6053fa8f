# Damage is found, deleted and made again; it never reaches a batch.
. "$HERE/common.inc"
needs_store
mkdir texts
for i in 1 2 3 4 5 6; do
    echo "needle-$i and its thread" >texts/$i.txt
done
settled
cat >c.json <<END
{"source": {"files": {"path": "texts", "extensions": [".txt"]}}, "batch": 3, "seed": 1,
 "ops": [{"cache": {"size": "8MB", "path": "store"}}]}
END
sed 's/"ops": .*/"ops": []}/' c.json >p.json
millrace run p.json --quiet >off
says millrace cache warm c.json --threads 1
says millrace cache verify c.json
damage() {
    LC_ALL=C sed -i "s/needle-$1 and/noodle-$1 and/" store/*.seg
}
damage 3
damage 5
says millrace cache verify --path store
says millrace cache verify --path store
says millrace run c.json --threads 1 | grep -v digest
damage 1
says millrace run c.json --threads 1 | grep -v digest
damage 2
millrace run c.json --quiet 2>/dev/null | cmp - off && echo "same digest"
says millrace cache verify --path store --json
# What is missing is told too: the index is made again from the values.
: >store/index.mdb
says millrace cache verify --path store 2>&1
says millrace cache verify --path store
rm store/*.seg
says millrace cache verify --path store
