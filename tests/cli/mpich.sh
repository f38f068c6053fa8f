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
    mpirun.mpich -n 4 "$MILLRACE" run p.json --quiet --fabric mpi --epochs 3 --set-digests 'four.{rank}' >/dev/null || echo "run $i: exit $?"
    millrace digest --set --common one four.0,four.1,four.2,four.3
done
# A rank that fails: the code is its own.
mpirun.mpich -n 2 sh -c 'sed "s/\"seed\": 1/\"seed\": $PMI_RANK/" p.json >q.$PMI_RANK; exec "$MILLRACE" run q.$PMI_RANK --quiet --fabric mpi >/dev/null 2>said.$PMI_RANK' >/dev/null 2>&1
echo "refused: exit $?"
cat said.0 said.1 | grep -c "^error"
