# What is no trace is refused; what was cut off is read as far as it goes; a full disk ends the trace alone.
. "$HERE/common.inc"
photos
pipeline
says millrace report p.json
says millrace report missing.trace
millrace run p.json --quiet --trace t.trace >plain
: >empty.trace
says millrace report empty.trace
head -c 10 t.trace >short.trace
says millrace explain short.trace
head -c 3000 t.trace >cut.trace
millrace report cut.trace --json 2>&1 >/dev/null | sed 's/first [0-9]* spans/first N spans/'
# The tag of the first chunk, which comes after the header.
size=$(od -An -tu4 -j12 -N4 t.trace | tr -d ' ')
cp t.trace damaged.trace
printf 'X' | dd of=damaged.trace bs=1 seek=$((16 + size)) conv=notrunc 2>/dev/null
millrace report damaged.trace 2>&1 >/dev/null | sed "s/byte $((16 + size)) of $(wc -c <t.trace):/byte N of M:/"
says millrace run p.json --quiet --trace /dev/full >full
sed 1d full | head -n 1 | cmp plain - && echo "same digest"
millrace run p.json --trace /dev/full 2>&1 >/dev/null
says millrace run p.json --trace /nonexistent/t.trace
for time in 12m -5ms abc; do says millrace run p.json --consume=$time; done
# A page that does not fit leaves nothing behind.
mkdir pages
(trap '' XFSZ && ulimit -f 1 && says millrace report t.trace -o pages/page.html) 2>&1 | cat
ls pages
