. "$HERE/common.inc"
exec 2>&1
try() {
    echo "$1" >p.json
    says millrace check p.json
}
try '{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {}}, {"random_flop": {}}]}'
try '{"source": {"files": {"path": "photos"}}, "ops": [{"decode_image": {"max_pixel": 9}}]}'
try '{"source": {"file": {"path": "photos"}}}'
try '{"source": {"files": {"path": "photos"}}, "bacth": 4}'
try '{"source": {"files": {"path": "photos"}}, "batch": 0}'
try '{"source": {"files": {"path": "photos"}}, "remainder": "dorp"}'
try '{"source": {"files": {}}}'
try '{"ops": []}'
try '[]'
