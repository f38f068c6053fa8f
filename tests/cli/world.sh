# Two ranks take half of each batch; the halves differ.
. "$HERE/common.inc"
photos
pipeline '"remainder": "pad"'
millrace run p.json --quiet --world 2 --rank 0 --digests a >/dev/null || exit
millrace run p.json --quiet --world 2 --rank 1 --digests b >/dev/null || exit
cut -d' ' -f1-3 a
cut -d' ' -f1-3 b
cut -d' ' -f4 a >a4
cut -d' ' -f4 b >b4
cmp -s a4 b4 || echo "halves differ"
says millrace run p.json --quiet --world 3 --rank 0
