# io_uring gives the same digests as pread, or says why it cannot be used.
. "$HERE/common.inc"
photos
pipeline
millrace run p.json --quiet --io pread >a || exit
if millrace run p.json --quiet --io uring >b 2>err; then
    cmp a b
else
    grep -q uring err || cat err
fi
echo finished
