# MPICH over TCP: ranks end, each time, and with the right code, which MPICH 4.0 over UCX by itself does not.
. "$HERE/common.inc"
if ! command -v mpirun.mpich >/dev/null || [ ! -e "$(dirname "$MILLRACE")/millrace_mpi_mpich.so" ]; then
    echo "no MPICH here" >&2
    exit 77
fi
export UCX_TLS=tcp,self UCX_NET_DEVICES=lo MPIR_CVAR_NOLOCAL=1
export ASAN_OPTIONS=detect_leaks=0 # MPI leaves memory behind
photos
pipeline '"epochs": 20, "remainder": "pad"'
millrace run p.json --quiet --set-digests one >/dev/null || exit
for i in 1 2 3; do
    mpirun.mpich -n 4 "$MILLRACE" run p.json --quiet --fabric 'mpi?map=0' --epochs 3 --set-digests 'four.{rank}' >/dev/null || echo "run $i: exit $?"
    millrace digest --set --common one four.0,four.1,four.2,four.3
done

# One rank is killed. The others say which and save their states; two go on where three were. What mpirun itself started must outlive the
# rank: its proxy (MPICH 4.0) ends with all of them when it writes to a rank that is dead.
cat >rank.sh <<'END'
trap '' USR1 # by which mpirun says that a rank has died
r=$PMI_RANK
"$MILLRACE" run p.json --batch 6 --quiet --fabric "$1" --epochs 200 --consume 20ms --digests d.$r --state-out state.$r >/dev/null 2>said.$r &
own=$!
if [ "$r" = 1 ]; then
    while [ ! -e d.1 ] || [ "$(wc -l <d.1)" -lt 5 ]; do sleep 0.05; done
    kill -9 $own
fi
wait $own 2>/dev/null
exit 0
END
millrace run p.json --batch 6 --epochs 200 --quiet --set-digests one >/dev/null || exit
for fabric in mpi 'mpi?map=0'; do
    rm -f d.* state.*
    mpirun.mpich -disable-auto-cleanup -n 3 sh rank.sh "$fabric" >/dev/null 2>&1
    grep -ohE 'rank 1 \(process [0-9]+ on [^)]*\) is gone' said.0 said.2 | sed -E 's/process [0-9]+ on [^)]*/PROCESS/'
    ls state.0 state.2
    mpirun.mpich -n 2 "$MILLRACE" run p.json --batch 6 --quiet --fabric "$fabric" --epochs 200 --state-in state.0 --steps 8 --set-digests 'on.{rank}' >/dev/null || exit
    millrace digest --set --common one on.0,on.1
done

# A rank that fails: the code is its own.
mpirun.mpich -n 2 sh -c 'sed "s/\"seed\": 1/\"seed\": $PMI_RANK/" p.json >q.$PMI_RANK; exec "$MILLRACE" run q.$PMI_RANK --quiet --fabric mpi >/dev/null 2>said.$PMI_RANK' >/dev/null 2>&1
echo "refused: exit $?"
cat said.0 said.1 | grep -c "^error"
