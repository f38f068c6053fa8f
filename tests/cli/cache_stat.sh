# What a store holds, by pipeline.
. "$HERE/common.inc"
needs_store
photos
settled
cached
ages() {
    sed -E 's/ [0-9]+ (s|min) ago/ T ago/g; s/_used": [0-9]+/_used": T/g; s/[0-9.]+ [kM]B on disk/N on disk/; s/"disk_bytes": [0-9]+/"disk_bytes": N/; s/"key": "[0-9a-f]{16}"/"key": K/g'
}
says millrace cache stat
millrace run c.json --quiet --threads 1 >/dev/null
millrace run c.json --quiet --threads 1 >/dev/null
says millrace cache stat | ages
# Another pipeline that begins alike shares the entries; one that does not has its own.
sed 's/random_flip/grayscale/' c.json >same.json
sed 's/{"decode_image": {}}/&, {"resize": {"size": [24, 20]}}/' c.json >other.json
millrace run same.json --threads 1 | grep hits
millrace run other.json --threads 1 | grep hits
says millrace cache stat c.json | ages | sort
millrace cache stat --json | ages | tr '{' '\n' | sed 's|}[], }]*$|}|' | sort # in any order
says millrace cache stat --path nowhere
says millrace cache stat --path photos
says millrace cache stat --path c.json
# A killed run takes no notes of itself.
cat >k.json <<END
{"source": {"synthetic": {"samples": 4, "shape": [100]}}, "ops": [{"cast": {"dtype": "uint8"}}],
 "epochs": 100000000, "cache": {"size": "8MB", "path": "killed"}}
END
mkfifo digests
"$MILLRACE" run k.json --digests digests >/dev/null &
pid=$!
exec 3<digests
read -r _ <&3
sleep 0.2
says millrace cache stat k.json | grep -o '(.*)'
{ kill -9 $pid && wait $pid; } 2>/dev/null
exec 3<&-
says millrace cache stat k.json | grep -o '(.*)'
says millrace cache stat c.json --path nowhere
says millrace cache stats
