# A cache in the document, placed by hand or by itself, and what cannot be kept.
. "$HERE/common.inc"
needs_store
pipeline '"cache": "auto"'
# Versions of libraries are in the key of what they decoded.
key=$(millrace check p.json --json | sed -nE 's/.*"cache_key": "([0-9a-f]{16})".*/\1/p' | tail -n 1)
says millrace check p.json | sed "s/$key/KEY/"
pipeline '"cache": {"size": "1GB", "tier": "memory"}'
millrace check p.json | grep -A 1 '^  cache'
pipeline '"cache": true'
says millrace check p.json
pipeline '"cache": {"size": "1KB"}'
says millrace check p.json
# Beside a cache of the ops: another one, if it is at another place.
pipeline '"cache": "auto"'
sed 's/"ops": \[/&"cache", /' p.json >two.json
millrace check two.json | sed -n "s/$key/KEY/; /^caches/,/^fields/p"
sed 's/{"decode_image": {}}/&, {"cache": {"size": "5GB"}}/' p.json >twice.json
says millrace check twice.json
pipeline '"cache": {"size": "200TB"}'
says millrace check p.json
pipeline '"cache": "auto"'
sed 's/{"random_flip": {}}/{"random_flip": {"p": 2}}/' p.json >bad.json
says millrace check bad.json
sed 's/{"random_flip": {}}/&, "cache"/' p.json | sed 's/, "cache": .*//' >late.json
says millrace check late.json
