# A second run does not ruin the trace that a first one is writing; afterwards the file is free.
. "$HERE/common.inc"
photos
pipeline '"epochs": 4'
mkfifo steps
millrace run p.json --quiet --trace t.trace --digests steps >first &
until [ -s t.trace ]; do sleep 0.02; done
says millrace run p.json --quiet --trace t.trace
cat steps >/dev/null # until somebody reads it, the first run waits
wait $!
echo "exit code $?"
millrace report t.trace --json | grep -oE '"n_batches":12|"damaged":0|"dropped":0'
millrace run p.json --quiet --trace t.trace | cmp - first && echo "same digest"
echo "not a trace" >other
says millrace run p.json --quiet --trace other
