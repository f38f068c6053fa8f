# A pipeline's entries, or the whole store unless somebody uses it.
. "$HERE/common.inc"
needs_store
photos
settled
cached
sed 's/{"decode_image": {}}/&, {"resize": {"size": 24}}/' c.json >other.json
millrace cache warm c.json --threads 1
millrace cache warm other.json --threads 1
says millrace cache clear c.json
says millrace cache clear c.json --json
millrace cache stat --json | grep -o '"entries": [0-9]*'
mkfifo digests
"$MILLRACE" run other.json --epochs 100000000 --digests digests >/dev/null &
pid=$!
exec 3<digests
read -r _ <&3
says millrace cache clear
kill $pid
cat <&3 >/dev/null
wait $pid
says millrace cache clear
ls xdg/millrace
says millrace cache clear
says millrace cache clear --path photos
ls photos
says millrace cache clear --path nowhere
