. "$HERE/common.inc"
photos
echo 'this is not an image' >photos/dog/8.jpg
pipeline
says millrace run p.json --quiet --threads 1 | sed 's/^[0-9a-f]\{32\}$/DIGEST/'
