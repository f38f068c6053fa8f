# Every combination is measured in a process of its own; table, CSV, page and JSON; nothing is left behind.
. "$HERE/common.inc"
photos
pipeline
mkdir scratch
millrace sweep p.json --threads 1,2 --batch 2,5 --samples 10 --rounds 2 --scratch scratch \
    -o page.html --csv s.csv >table 2>steps
ls -A scratch
head -n 1 table | sed -E 's/ +/ /g'
grep -cE '^ +[12] +[25] +[0-9.]+ +[0-9.]+ % ' table
grep -oE '^(Fastest: threads [12], batch [25]|  decode_image|  random_flip)' table | sed -E 's/[0-9]/N/g'
wc -l <s.csv
cut -d, -f1-3,6 s.csv | sort
grep -c '<svg' page.html
sort steps | uniq -c | sed -E 's/^ +//'
millrace sweep p.json --threads 2,1 --json | grep -oE '"(what|title|ops)":|"samples":10' | sort | uniq -c | sed -E 's/^ +//'
says millrace sweep p.json
says millrace sweep p.json --threads 1,x
says millrace sweep p.json --threads 1 -o p.json
says millrace sweep p.json --threads 1 --scratch /nowhere
echo bad >photos/cat/zz.jpg
says millrace sweep p.json --threads 1,2 -q
