# Stopped after any step and continued, the batches are those of the run that was not stopped.
. "$HERE/common.inc"
photos
pipeline '"epochs": 2'
millrace run p.json --quiet --digests whole >/dev/null || exit
n=$(wc -l <whole)
echo "$n steps"
for stop in 1 2 3 4 5; do
    millrace run p.json --quiet --steps $stop --state-out s --digests a >/dev/null || exit
    millrace run p.json --quiet --state-in s --digests b --threads 2 >/dev/null || exit
    cat a b | cmp - whole && echo "same: $stop"
    millrace digest --common whole b
done
millrace run p.json --quiet --state-out s >/dev/null
says millrace run p.json --quiet --state-in s --digests b | sed 's/^[0-9a-f]\{32\}$/DIGEST/'
wc -l <b
