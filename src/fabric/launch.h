/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - which rank this process is, by what its launcher left in the environment. */
#ifndef MR_FABRIC_LAUNCH_H
#define MR_FABRIC_LAUNCH_H

#include <millrace/fabric.h>

typedef enum mr_mpi_kind { MR_MPI_NONE, MR_MPI_OPEN, MR_MPI_MPICH } mr_mpi_kind;

/* The MPI whose launcher started this process, as far as its variables tell. */
mr_mpi_kind mr_launch_mpi(void);

#endif
