# The live table on a terminal: drawn over in place, cut where a narrow or low terminal ends.
. "$HERE/common.inc"
if ! script -qec true /dev/null >/dev/null </dev/null 2>&1; then
    echo "no pseudo-terminal can be opened" >&2
    exit 77
fi
photos
pipeline
export TERM=xterm
esc=$(printf '\033')
on_terminal() { # ROWS COLUMNS: the table's lines with their lengths cut to what they must not exceed
    script -qec "stty rows $1 cols $2; '$MILLRACE' run p.json --quiet --no-digest --top --steps 5 --consume 300ms" typescript \
        </dev/null >/dev/null
    sed -e 1d -e '$d' typescript | tr -d '\r'
}
on_terminal 40 100 >wide
grep -c "$esc\[[0-9]*A$esc\[J" wide | sed 's/^[1-9].*/drawn over/'
awk '/decode_image/ { print "wide", length($0) <= 72 }' wide | sort -u
on_terminal 40 30 >narrow
sed "s/$esc\[[0-9]*[AJ]//g" narrow | awk '{ if (length($0) > 29) print "too long: " $0; n++ } END { print "narrow", (n > 10) }'
# Three lines at a time, and all of them at the end.
on_terminal 4 100 >low
grep -oE "$esc\[[0-9]+A" low | sort -u | sed "s/$esc/ESC/"
grep -c 'wait_batch' low
