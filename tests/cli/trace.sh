# A trace is written, read and turned into text, JSON, events and a page; the run is not changed.
. "$HERE/common.inc"
photos
pipeline '"epochs": 6'
millrace run p.json --quiet >plain
millrace run p.json --quiet --trace t.trace --consume 2ms --ahead 4 >traced
cmp plain traced && echo "same digest"
millrace report t.trace | grep -oE '60 samples, 18 batches|^  (decode_image|random_flip|read|consume) +(60|18|17)'
millrace report t.trace | grep -oE 'bytes by origin: files [0-9.]+ kB \(60 of 60 blocks\)' | sed 's/[0-9.]* kB/N kB/'
millrace report t.trace --json | grep -oE '"n_batches":18|"damaged":0|"dropped":0'
millrace report t.trace -o page.html --chrome t.json --csv t.csv
grep -c '^<!doctype html>' page.html
grep -c '"ph":"b"' t.json
grep -c ',sample,' t.csv
millrace explain t.trace | grep -oE '^(highest rate|predicted with)'
says millrace report t.trace t.trace -o /dev/full
millrace report t.trace t.trace | sed -n '/beside each other/,$p' | sed -E 's/ +[0-9.]+( %)?/ N/g'
