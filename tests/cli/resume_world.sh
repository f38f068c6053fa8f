# A run of one rank continues on two, which take the same steps.
. "$HERE/common.inc"
photos
pipeline '"epochs": 2, "remainder": "drop"'
millrace run p.json --quiet --steps 1 --state-out s >/dev/null || exit
millrace run p.json --state-in s --quiet --world 2 --rank 0 --digests a >/dev/null || exit
millrace run p.json --state-in s --quiet --world 2 --rank 1 --digests b >/dev/null || exit
cut -d' ' -f1-3 a
[ "$(cut -d' ' -f1-3 a)" = "$(cut -d' ' -f1-3 b)" ] && echo "same steps"
