. "$HERE/common.inc"
photos
pipeline
says millrace run p.json --quiet --state-out nowhere/state.json
mkdir folder
says millrace run p.json --quiet --state-out folder
