# Two ranks take half of each batch; the halves differ.
. "$HERE/common.inc"
photos
pipeline '"remainder": "pad"'
millrace run p.json --quiet --world 2 --rank 0 --digests a >/dev/null || exit
millrace run p.json --quiet --world 2 --rank 1 --digests b >/dev/null || exit
cut -d' ' -f1-3 a
cut -d' ' -f1-3 b
cut -d' ' -f4 a >a4
cut -d' ' -f4 b >b4
cmp -s a4 b4 || echo "halves differ"
says millrace run p.json --quiet --world 3 --rank 0
# Launchers tell both; the innermost counts, and one alone does not.
launched() {
    rm -f c.0 c.1
    env "$@" "$MILLRACE" run p.json --quiet --digests 'c.{rank}' >/dev/null || exit
    cmp a c.0 2>/dev/null && echo "rank 0 of 2: $*"
    cmp b c.1 2>/dev/null && echo "rank 1 of 2: $*"
}
launched RANK=1 WORLD_SIZE=2
launched OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
launched PMI_RANK=1 PMI_SIZE=2
launched SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2
launched PMIX_RANK=1 SLURM_STEP_NUM_TASKS=2
launched RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2
launched OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1
launched RANK=1 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2
