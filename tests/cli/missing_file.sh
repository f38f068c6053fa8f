. "$HERE/common.inc"
says millrace run nothing.json
says millrace check nothing.json
mkdir folder
says millrace check folder
pipeline
says millrace run p.json
says millrace run p.json --json
