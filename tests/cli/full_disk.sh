. "$HERE/common.inc"
photos
pipeline
says millrace docs >/dev/full
millrace docs >/dev/full
echo "exit code $?"
millrace docs >&-
echo "exit code $?"
millrace run p.json --quiet --digests /dev/full >out
echo "exit code $?"
