. "$HERE/common.inc"
exec 2>&1
says millrace run --thread 2 p.json
says millrace run -x p.json
says millrace run --frobnicate p.json
says millrace run p.json --json=yes
says millrace run p.json --seed
says millrace run p.json q.json
says millrace run
says millrace run --io urin p.json
