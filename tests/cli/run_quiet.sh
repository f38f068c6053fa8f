. "$HERE/common.inc"
photos
pipeline
millrace run p.json --quiet >out
grep -cE '^[0-9a-f]{32}$' out
wc -l <out
