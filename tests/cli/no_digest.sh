# No digest is made: none is printed, and a list of them cannot be asked for.
. "$HERE/common.inc"
photos
pipeline
says millrace run p.json --no-digest --threads 1
says millrace run p.json --no-digest --quiet
millrace run p.json --no-digest --json | grep -o '"digest": null'
says millrace run p.json --no-digest --digests list.txt 2>&1
