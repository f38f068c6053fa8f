# A run that fails saves what it delivered, so that it can go on once the file is repaired.
. "$HERE/common.inc"
photos
pipeline '"shuffle": false'
millrace run p.json --quiet --digests whole >/dev/null || exit
cp photos/dog/8.jpg good
echo broken >photos/dog/8.jpg
says millrace run p.json --quiet --state-out s --digests a >/dev/null 2>&1
cp good photos/dog/8.jpg
millrace run p.json --quiet --state-in s --digests b >/dev/null || exit
cat a b | cmp - whole && wc -l <a && echo "same"
