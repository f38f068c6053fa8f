# What is far too large is refused by its first bytes, in little memory.
. "$HERE/common.inc"
photos
pipeline
truncate -s 5G zeros
millrace run p.json --quiet --trace t.trace >/dev/null
cp t.trace long.trace
truncate -s 5G long.trace
if (ulimit -v 1500000 && millrace version) >/dev/null 2>&1; then # sanitizers want more than any
    ulimit -v 1500000
fi
says millrace report zeros
millrace report long.trace --json | grep -o '"samples":10'
says millrace run p.json --state-in zeros
says millrace run p.json --ahead 1025
