/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - see launch.h. A variable counts where the other that belongs to it is there too. */
#include "fabric/launch.h"

#include <millrace/millrace.h>
#include <stdlib.h>

#include "core/memory.h"

typedef struct launcher {
    const char *name;
    const char *rank, *world; /* variables */
    mr_mpi_kind mpi;
} launcher;

/* The innermost first: mpirun inside a job of Slurm, torchrun inside either. Slurm sets the count
 * of a step for what srun starts, not for the script itself; with --mpi=pmix, which Open MPI uses,
 * PMIx tells the rank, with --mpi=pmi2 it is as under MPICH's mpirun. Ray Train and Horovod set
 * those that torchrun sets. */
static const launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", MR_MPI_NONE},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", MR_MPI_OPEN},
    {"mpirun (MPICH)", "PMI_RANK", "PMI_SIZE", MR_MPI_MPICH},
    {"srun (PMIx)", "PMIX_RANK", "SLURM_STEP_NUM_TASKS", MR_MPI_OPEN},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", MR_MPI_NONE},
};
enum { N_LAUNCHERS = sizeof launchers / sizeof *launchers };

static bool read_number(const char *variable, int64_t *out) {
    const char *text = getenv(variable);
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : -1;
    *out = value;
    return text && end != text && *end == '\0' && value >= 0;
}

static bool read_launcher(const launcher *l, mr_launch *out) {
    int64_t rank, world;
    if (!read_number(l->rank, &rank) || !read_number(l->world, &world) || rank >= world ||
        world > UINT32_MAX) {
        return false;
    }
    *out = (mr_launch){.rank = (uint32_t)rank, .world = (uint32_t)world, .launcher = l->name};
    return true;
}

bool mr_launch_detect(mr_launch *out) {
    mr_launch found = {.rank = 0, .world = 1, .launcher = NULL};
    for (int i = 0; i < N_LAUNCHERS && !found.launcher; i++) {
        read_launcher(&launchers[i], &found);
    }
    mr_give_sized(out, &found, sizeof found);
    return found.launcher != NULL;
}

mr_mpi_kind mr_launch_mpi(void) {
    mr_launch ignored;
    for (int i = 0; i < N_LAUNCHERS; i++) {
        if (launchers[i].mpi != MR_MPI_NONE && read_launcher(&launchers[i], &ignored)) {
            return launchers[i].mpi;
        }
    }
    return MR_MPI_NONE;
}
