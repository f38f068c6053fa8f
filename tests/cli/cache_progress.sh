# On a terminal the bar tells how many samples came from a store.
. "$HERE/common.inc"
needs_store
if ! script -qec true /dev/null >/dev/null </dev/null 2>&1; then
    echo "no pseudo-terminal can be opened" >&2
    exit 77
fi
photos
settled
cached
millrace cache warm c.json --threads 1
export TERM=xterm
bar='epoch [0-9]+/[0-9]+ \[[^]]*\] +[0-9]+%  [0-9,.]+ samples/s  [0-9:]+ left  100% hits'
# A fast machine may be done before the first bar is due: then more epochs.
for epochs in 500 5000 50000; do
    script -qec "'$MILLRACE' run c.json --threads 1 --epochs $epochs" typescript </dev/null >/dev/null
    grep -qE "$bar" typescript && break
done
grep -qE "$bar" typescript && echo "bar drawn"
