. "$HERE/common.inc"
pipeline
says millrace check p.json --json
