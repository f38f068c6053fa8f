# Neither the library nor the command is linked to MPI or names it as something that it needs: modules are, and they are loaded on demand.
if ! command -v readelf >/dev/null; then
    echo "no readelf here" >&2
    exit 77
fi
folder=$(dirname "$MILLRACE")
for file in "$folder/libmillrace.so" "$MILLRACE"; do
    readelf -d "$file" | grep -c '(NEEDED).*libc\.so' # so that what follows says something
    readelf -d "$file" | grep -E '(NEEDED).*lib(mpi|mpich|open-rte|open-pal|ucp)'
done
readelf -d "$folder"/millrace_mpi_*.so 2>/dev/null | grep -oE 'lib(mpi|mpich)\.so' | sort -u >modules
[ -s modules ] || [ ! -e "$folder/millrace_mpi_openmpi.so" ]
