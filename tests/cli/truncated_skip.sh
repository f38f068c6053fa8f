. "$HERE/common.inc"
photos
head -c 800 "$HERE/data/photos/dog/8.jpg" >photos/dog/8.jpg
pipeline '"shuffle": false, "on_error": "skip"'
says millrace run p.json --threads 1 | sed 's/digest .*/digest/'
millrace run p.json --threads 1 --quiet >a 2>/dev/null
millrace run p.json --threads 3 --quiet >b 2>/dev/null
cmp a b
