. "$HERE/common.inc"
exec 2>&1
for number in 0 -1 1.5 2x ' 2' +2 0x10 '' 99999999999999999999 1025; do
    says millrace run p.json --threads "$number"
done
says millrace run p.json --seed=-1
says millrace run p.json --rank 0
says millrace run p.json --world 2
says millrace run p.json --world 2 --rank 2
