# Output that cannot be written is an error, not success.
. "$HERE/common.inc"
photos
pipeline
millrace docs >/dev/full
echo "exit code $?"
millrace docs >&-
echo "exit code $?"
millrace run p.json --quiet --digests /dev/full >out
echo "exit code $?"
