. "$HERE/common.inc"
photos
pipeline '"epochs": 2'
says millrace run p.json --threads 1 | sed 's/digest .*/digest/'
