# Figures that cannot be written are known at the start, not after an hour.
. "$HERE/common.inc"
photos
pipeline
says millrace run p.json --quiet --metrics nowhere/m.prom
mkdir folder
says millrace run p.json --quiet --metrics folder
says millrace run p.json --quiet --metrics /dev/null
