# A store that cannot be used is reported once, and the run goes on without.
. "$HERE/common.inc"
needs_store
photos
settled
pipeline
millrace run p.json --quiet >off
store() { # PATH
    cached
    sed -i "s#\"size\": \"64MB\"#\"size\": \"64MB\", \"path\": \"$1\"#" c.json
}
echo file >file
store file
says millrace run c.json --threads 1 | grep -v digest
millrace run c.json --quiet | cmp - off && echo "same digest"
says millrace cache warm c.json
says millrace cache stat c.json
mkdir other && echo >other/thing
store other
says millrace run c.json --threads 1 | grep -v digest
store newer
says millrace cache warm c.json --threads 1
sed -i 's/"millrace_store": 2/"millrace_store": 3/' newer/store.json
says millrace run c.json --threads 1 | grep -v digest
says millrace cache stat c.json
says millrace cache clear --path newer
says millrace cache warm c.json --threads 1
