# Ranks under mpirun follow a stream together: each reads its own partitions, the batches are those of one rank, and one of them is killed.
. "$HERE/common.inc"
if ! mpirun --version 2>/dev/null | grep -q "Open MPI" || [ ! -e "$(dirname "$MILLRACE")/millrace_mpi_openmpi.so" ]; then
    echo "no Open MPI here" >&2
    exit 77
fi
export OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_oob_tcp_if_include=lo
export ASAN_OPTIONS=detect_leaks=0 # MPI leaves memory behind
ranks() {
    mpirun --allow-run-as-root --oversubscribe "$@"
}
for p in 0 1 2 3; do
    seq -f "entry %g of partition $p" 1 600 | millrace append s --lines --partition $p >/dev/null
done
cat >p.json <<'END'
{"source": {"segments": {"path": "s", "follow": true, "until": 600}},
 "rehearse": {"size": 300, "share": 0.5, "lag": 2}, "batch": 24, "seed": 5}
END
millrace run p.json --quiet --set-digests one >/dev/null || exit
for n in 2 3 4; do
    ranks -n $n "$MILLRACE" run p.json --fabric mpi --set-digests "r$n.{rank}" >said.$n || exit
done
echo "2 ranks: $(millrace digest --set one r2.0,r2.1)"
echo "3 ranks: $(millrace digest --set one r3.0,r3.1,r3.2)"
echo "4 ranks: $(millrace digest --set one r4.0,r4.1,r4.2,r4.3)"
grep -o 'stream *[0-9,]* entries read' said.4

# What goes between ranks is in their traces: bytes on their way, bytes that came, and what a worker waited for.
ranks -n 2 "$MILLRACE" run p.json --quiet --fabric mpi --trace 't.{rank}' >/dev/null || exit
millrace report t.0 | grep -oE "^  (receive|send|wait_peer)\b" | sort

# One rank is killed. The others say which and save their states; two go on where three were.
cat >rank.sh <<'END'
r=$OMPI_COMM_WORLD_RANK
"$MILLRACE" run p.json --quiet --fabric mpi --consume 20ms --digests d.$r --state-out state.$r >/dev/null 2>said.$r &
own=$!
if [ "$r" = 1 ]; then
    while [ ! -e d.1 ] || [ "$(wc -l <d.1)" -lt 5 ]; do sleep 0.05; done
    kill -9 $own
fi
wait $own 2>/dev/null
exit 0
END
ranks --enable-recovery -n 3 sh rank.sh >/dev/null 2>&1
sed -E 's/process [0-9]+ on [^)]*/PROCESS/; s/is gone: .*/is gone/' said.0 said.2
ls state.0 state.2
ranks -n 2 "$MILLRACE" run p.json --quiet --fabric mpi --state-in state.0 --set-digests 'on.{rank}' >/dev/null || exit
millrace digest --set --common one on.0,on.1 | sed 's/[0-9]* batches/the rest/'
