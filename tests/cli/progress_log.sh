# Where lines cannot be drawn over, a line is written every ten seconds: this run lets twelve pass.
. "$HERE/common.inc"
photos
pipeline '"epochs": 6'
line='^epoch [1-6]  +[0-9]+%  [0-9,.]+ samples/s  [0-9:]+ left$'
millrace run p.json --consume 700ms --quiet 2>quiet >digest &
millrace run p.json --consume 700ms 2>log >report
wait
grep -qE "$line" log && echo "a line"
grep -vE "$line" log
grep -c 'samples in 18 batches' report
grep -cE '^[0-9a-f]{32}$' digest
cat quiet
