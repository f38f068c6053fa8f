. "$HERE/common.inc"
exec 2>&1
photos
pipeline
millrace run p.json --quiet --steps 1 --state-out s >/dev/null || exit
says millrace run p.json --quiet --state-in s --seed 2
sed 's/"epoch": *0/"epoch":1/' s >damaged
says millrace run p.json --quiet --state-in damaged
echo 'not a state' >s2
says millrace run p.json --quiet --state-in s2
says millrace run p.json --quiet --state-in nothing
rm photos/cat/1.jpg
says millrace run p.json --quiet --state-in s
