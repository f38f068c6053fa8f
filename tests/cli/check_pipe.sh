# A document from a pipe; and a state that is read is not written over by anything but a state.
. "$HERE/common.inc"
photos
pipeline
millrace check p.json >a
millrace check - <p.json >b
cmp a b && echo "the same from a pipe"
printf '{' >half
says millrace check - <half
millrace run p.json --quiet --state-out s >/dev/null
cp s before
says millrace run p.json --quiet --state-in s --digests ./s
says millrace run p.json --quiet --state-in s --metrics s
cmp s before && echo "the state is whole"
millrace run p.json --quiet --json | sed 's/.*\("digest": "[^"]*"\).*/\1/' >a
millrace run - --quiet --json <p.json | sed 's/.*\("digest": "[^"]*"\).*/\1/' >b
cmp a b && echo "run does the same from a pipe"
says millrace run - --quiet <half
millrace show - -o sheet.png <p.json >/dev/null && test -s sheet.png && echo "show too"
