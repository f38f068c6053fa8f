. "$HERE/common.inc"
photos
head -c 800 "$HERE/data/photos/dog/8.jpg" >photos/dog/8.jpg
pipeline '"shuffle": false'
says millrace run p.json --quiet --threads 2 >out
sed 's/^[0-9a-f]\{32\}$/DIGEST/' out
