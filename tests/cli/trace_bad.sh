# What is no trace is refused; what was cut off is read as far as it goes; a full disk ends the trace alone.
. "$HERE/common.inc"
photos
pipeline
says millrace report p.json
says millrace report missing.trace
millrace run p.json --quiet --trace t.trace >plain
head -c 3000 t.trace >cut.trace
millrace report cut.trace --json 2>&1 >/dev/null | sed 's/first [0-9]* spans/first N spans/'
says millrace run p.json --quiet --trace /dev/full >full
sed 1d full | head -n 1 | cmp plain - && echo "same digest"
millrace run p.json --trace /dev/full 2>&1 >/dev/null
says millrace run p.json --trace /nonexistent/t.trace
says millrace run p.json --consume 12m
