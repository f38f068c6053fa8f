# Figures that can no longer be written are reported once; the run goes on and saves its state.
. "$HERE/common.inc"
photos
pipeline '"epochs": 3'
millrace run p.json --quiet >plain
(trap '' XFSZ && ulimit -f 2 && millrace run p.json --metrics m.prom --state-out full.json >full)
echo "exit code $?"
grep -cf plain full
ls m.prom 2>/dev/null
ls full.json
mkdir gone
millrace run p.json --metrics gone/m.prom --state-out gone.json --consume 250ms >lost 2>lost.err &
until [ -e gone/m.prom ]; do sleep 0.02; done
rm -r gone
wait $!
echo "exit code $?"
cat lost.err
grep -cf plain lost
ls gone.json
millrace run p.json --quiet --trace t.trace --metrics m.prom >traced
cmp plain traced && ls m.prom
