/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - finds and loads the module of a link. */
#include "fabric/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "fabric/launch.h"

static const char *const module_names[] = {
    [MR_MPI_OPEN] = "millrace_mpi_openmpi.so", [MR_MPI_MPICH] = "millrace_mpi_mpich.so"};

/* An MPI that the process has loaded already is the one to use. */
static bool is_loaded(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle) {
        dlclose(handle);
    }
    return handle != NULL;
}

static mr_mpi_kind loaded_mpi(void) {
    return is_loaded("libmpi.so.40")     ? MR_MPI_OPEN
           : is_loaded("libmpich.so.12") ? MR_MPI_MPICH
                                         : MR_MPI_NONE;
}

/* Beside the library, below it (installed), or above it (programs in a folder of the build). */
static void *load_beside(const char *name, char *tried, size_t size) {
    static const char *const places[] = {"", "millrace/", "../"};
    char self[PATH_MAX] = "", path[2 * PATH_MAX];
    Dl_info info;
    const char *folder = getenv("MILLRACE_MODULES");
    void *handle = NULL;
    if (folder) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    } else if (dladdr((const void *)&module_names, &info) && realpath(info.dli_fname, self)) {
        *strrchr(self, '/') = '\0';
        for (size_t i = 0; !handle && i < sizeof places / sizeof *places; i++) {
            snprintf(path, sizeof path, "%s/%s%s", self, places[i], name);
            handle = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        }
    }
    const char *why = handle ? NULL : dlerror();
    snprintf(tried, size, "%s", why ? why : "there is none beside the library");
    return handle;
}

static mr_status refuse_without_mpi(mr_error *err) {
    mr_fail(err, MR_E_PARAM, "this process was not started by mpirun, so there is no MPI to use");
    mr_hint(err, "start it as mpirun -n 4 ..., or use a fabric of Redis servers: redis://HOST");
    return MR_E_PARAM;
}

mr_status mr_link_load(mr_link_module *out, const char *url, mr_error *err) {
    char tried[PATH_MAX];
    mr_mpi_kind kind = loaded_mpi();
    kind = kind != MR_MPI_NONE ? kind : mr_launch_mpi();
    if (strncmp(url, "mpi", 3) != 0) {
        return mr_fail(err, MR_E_UNSUPPORTED, "no link of this build has such a URL");
    }
    if (kind == MR_MPI_NONE) {
        return refuse_without_mpi(err);
    }
    out->handle = load_beside(module_names[kind], tried, sizeof tried);
    if (!out->handle) {
        mr_fail(err, MR_E_UNSUPPORTED, "cannot load %s: %.200s", module_names[kind], tried);
        mr_hint(err, "./dev build puts it into build/release where this MPI's headers are "
                     "installed (libopenmpi-dev, libmpich-dev); MILLRACE_MODULES=FOLDER says where "
                     "it is. What pip installs has none");
        return MR_E_UNSUPPORTED;
    }
    out->class = dlsym(out->handle, "mr_link_module_class");
    if (!out->class || out->class->abi != MR_LINK_ABI) {
        return mr_fail(err, MR_E_UNSUPPORTED, "%s is not of this version", module_names[kind]);
    }
    return MR_OK;
}
