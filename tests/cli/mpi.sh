# Ranks under mpirun: found without being told, sharing what they keep, refused where they differ, and one of them killed.
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
photos
pipeline '"epochs": 200, "remainder": "pad"'
millrace run p.json --quiet --set-digests one >/dev/null || exit

ranks -n 3 "$MILLRACE" fabric check mpi | cut -d' ' -f1-5
for fabric in mpi 'mpi?map=0'; do
    ranks -n 2 "$MILLRACE" run p.json --quiet --fabric "$fabric" --epochs 3 --set-digests 'two.{rank}' >/dev/null || exit
    echo "two ranks, $fabric: $(millrace digest --set --common one two.0,two.1)"
done
# (mpirun mixes what ranks say, so each says it to a file of its own)
ranks -n 2 sh -c '"$MILLRACE" run p.json --quiet --fabric mpi --epochs 3 --digests same >/dev/null 2>same_file.$OMPI_COMM_WORLD_RANK || true' 2>/dev/null
cat same_file.0 same_file.1 | grep "ranks cannot all write to same" | uniq

ranks -n 2 "$MILLRACE" run p.json --quiet --fabric 'mpi?map=0' --trace 'trace.{rank}' >/dev/null || exit
millrace report trace.0 | grep -oE '^  (receive|send) '
millrace report trace.0 | grep -oE ' peers [1-9][0-9.]* [a-zA-Z]+ \([1-9]' | sed -E 's/[0-9.]+ [a-zA-Z]+/N/; s/[0-9]$/N/'

# Other documents: all are refused, and each says why.
sed 's/"random_flip": {}/"random_flip": {"p": 0.25}/' p.json >p1.json
cp p.json p0.json
ranks -n 2 sh -c '"$MILLRACE" run p$OMPI_COMM_WORLD_RANK.json --fabric mpi --quiet >/dev/null 2>refused.$OMPI_COMM_WORLD_RANK || true' 2>/dev/null
cat refused.0 refused.1

# One rank is killed. The others say which and save their states.
cat >rank.sh <<'END'
r=$OMPI_COMM_WORLD_RANK
"$MILLRACE" run p.json --batch 6 --quiet --fabric mpi --consume 20ms --digests d.$r --state-out state.$r >/dev/null 2>said.$r &
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

# Two go on where three were.
ranks -n 2 "$MILLRACE" run p.json --batch 6 --quiet --fabric mpi --state-in state.0 --steps 8 --set-digests 'on.{rank}' >/dev/null || exit
millrace run p.json --batch 6 --quiet --set-digests one >/dev/null || exit
millrace digest --set --common one on.0,on.1

# A resume where each rank makes what it has: as many ranks as before, then another number.
pipeline '"epochs": 200, "remainder": "pad", "share": "local"'
millrace run p.json --batch 6 --quiet --set-digests one >/dev/null || exit
ranks -n 2 "$MILLRACE" run p.json --batch 6 --quiet --fabric mpi --steps 7 --state-out 'half.{rank}' --set-digests 'first.{rank}' >/dev/null || exit
for n in 2 3; do
    ranks -n $n "$MILLRACE" run p.json --batch 6 --quiet --fabric mpi --state-in half.0 --steps 8 --set-digests 'rest.{rank}' >/dev/null || exit
    echo "local, then on $n ranks: $(millrace digest --set --common one "$(echo rest.[0-9] | tr ' ' ,)")"
    rm rest.*
done
millrace digest --set --common one first.0,first.1
