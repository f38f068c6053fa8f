# Output that cannot be written is an error, not success. Less than a buffer of it: of more, the last
# write may succeed at nothing, and the reason of the failed one is gone.
. "$HERE/common.inc"
photos
pipeline
millrace version >/dev/full
echo "exit code $?"
millrace version >&-
echo "exit code $?"
millrace run p.json --quiet --digests /dev/full >out
echo "exit code $?"
