# The law: threads, ways of reading, CPU features and old memory change nothing.
. "$HERE/common.inc"
photos
pipeline '"epochs": 3'
millrace run p.json --quiet --threads 1 --io pread --digests d0 >a0 || exit
try() {
    millrace run p.json --quiet --digests d "$@" >a && cmp a a0 && cmp d d0 && echo "same: $*"
}
try --threads 1
try --threads 2
try --threads 3
try --threads 2 --io pread
try --threads 2 --io auto
try --threads 2 --reads 1 --ahead 1
try --threads 2 --disable-cpu avx512
try --threads 2 --disable-cpu avx2
try --threads 2 --poison
wc -l <d0
# And what should change it, does.
millrace run p.json --quiet --seed 2 >b && cmp -s a0 b || echo "another seed differs"
millrace run p.json --quiet --epochs 2 >b && cmp -s a0 b || echo "fewer epochs differ"
