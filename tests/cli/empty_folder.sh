. "$HERE/common.inc"
mkdir photos
pipeline
says millrace run p.json
