# No file is written over one that the command reads, nor over another that it writes.
. "$HERE/common.inc"
photos
pipeline
millrace run p.json --quiet --trace t.trace >/dev/null
cp t.trace u.trace
ln t.trace hard.trace
ln -s t.trace soft.trace
cp t.trace before
cp p.json p.before
says millrace report t.trace -o t.trace
says millrace report t.trace --csv ./t.trace
says millrace report t.trace --chrome hard.trace
says millrace report t.trace -o soft.trace
says millrace report t.trace u.trace -o u.trace
says millrace report t.trace u.trace --csv u.trace
says millrace report t.trace --csv new --chrome ./new
says millrace report t.trace -o -
cmp t.trace before && cmp u.trace before && echo "traces are whole"
says millrace run p.json --trace f --state-out f
says millrace run p.json --digests f --metrics ./f
says millrace run p.json --trace t.trace --digests hard.trace
says millrace run p.json --state-out p.json
says millrace run p.json --digests -
cmp p.json p.before && cmp t.trace before && ls
echo "two names, one device"
millrace report t.trace -o /dev/null --csv /dev/null && millrace run p.json --quiet --trace /dev/null --digests /dev/null
millrace run p.json --quiet --steps 1 --state-out s >/dev/null && millrace run p.json --quiet --state-in s --state-out s
