# On a terminal a bar is drawn and taken away again; errors have colour unless NO_COLOR is set.
. "$HERE/common.inc"
if ! script -qec true /dev/null >/dev/null </dev/null 2>&1; then
    echo "no pseudo-terminal can be opened" >&2
    exit 77
fi
photos
pipeline
export TERM=xterm
on_terminal() {
    script -qec "$*" typescript </dev/null >/dev/null
    sed -e 1d -e '$d' typescript | tr -d '\r'
}
esc=$(printf '\033')
bar='epoch [0-9]+/[0-9]+ \[[^]]*\] +[0-9]+%  [0-9,.]+ samples/s  [0-9:]+ left'
# A fast machine may be done before the first bar is due: then more epochs.
for epochs in 500 5000 50000; do
    on_terminal "'$MILLRACE' run p.json --threads 1 --epochs $epochs" >log
    grep -qE "$bar" log && break
done
grep -qE "$bar" log && echo "bar drawn"
# After the last bar the line is erased, then comes the report.
grep -oE "left$esc\[K[0-9,]+ samples in [0-9,]+ batches of" log | sed "s/$esc/ESC/; s/[0-9,]* samples in.*/REPORT/"
on_terminal "'$MILLRACE' run p.json --threads 1 --epochs $epochs --quiet" | grep -cE '^[0-9a-f]{32}$'
on_terminal "'$MILLRACE' frobnicate" | sed "s/$esc/ESC/g"
on_terminal "NO_COLOR=1 '$MILLRACE' frobnicate" | sed "s/$esc/ESC/g"
