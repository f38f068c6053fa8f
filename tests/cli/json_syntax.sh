. "$HERE/common.inc"
exec 2>&1
printf '{\n  "source": {"files": {"path": "photos"}},\n  "ops": [{"decode_image": {}},]\n}\n' >p.json
says millrace check p.json
printf '{"source": {"files": {"path": "phötos"}}, "batch": 08}' >p.json
says millrace run p.json
printf '{"a": 1, "a": 2}' >p.json
says millrace check p.json
printf '{"source": "fi' >p.json
says millrace check p.json
: >p.json
says millrace check p.json
printf '{"source": "\377"}' >p.json
says millrace check p.json
