# A FIFO in the place of a store's file is not waited for.
. "$HERE/common.inc"
needs_store
photos
mkdir -m 700 store
mkfifo store/store.json
says millrace cache stat --path store
says millrace cache verify --path store
printf '{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {}}, {"cache": {"path": "store"}}], "batch": 1}' >p.json
says millrace run p.json --quiet
