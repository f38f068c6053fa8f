# What is wrong with an array is said of the array's file, not of the document.
. "$HERE/common.inc"

# npy DESCR SHAPE BYTES: a .npy file.
npy() {
    header="{'descr': '$1', 'fortran_order': False, 'shape': $2}"
    printf '\223NUMPY\001\000'
    printf "\\$(printf %03o ${#header})\\000"
    printf '%s' "$header"
    head -c "$3" /dev/zero
}

# array KEYS: p.json over data.npy.
array() {
    echo '{"source": {"array": {"path": "data.npy"'"$1"'}}, "batch": 2}' >p.json
}

array ''
: >data.npy
says millrace run p.json --quiet
npy '<f4' '(0, 3)' 0 >data.npy
says millrace run p.json --quiet
npy '<f4' '(4, 3)' 40 >data.npy
says millrace run p.json --quiet
npy '<f4' '(4, 3)' 50 >data.npy
says millrace run p.json --quiet
npy '<f4' '(4, 3)' 48 >data.npy
array ', "labels": "labels.npy"'
: >labels.npy
says millrace run p.json --quiet
npy '<i8' '(4, 1)' 32 >labels.npy
says millrace run p.json --quiet
npy '<f4' '(4,)' 16 >labels.npy
says millrace check p.json
npy '<i8' '(3,)' 24 >labels.npy
says millrace run p.json --quiet
