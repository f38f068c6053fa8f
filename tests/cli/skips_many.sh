# The first ten are listed, the rest counted.
. "$HERE/common.inc"
photos
echo nonsense >photos/cat/0.jpg
pipeline '"on_error": "skip", "epochs": 14'
says millrace run p.json --quiet 2>err | sed 's/^[0-9a-f]*$/DIGEST/'
grep -c 'skipped: photos/cat/0.jpg' err
tail -n 1 err
