/* SPDX-License-Identifier: Apache-2.0 */
/* journals.c - see journals.h. */
#include "run/stream/journals.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/memory.h"

struct mr_journals {
    mr_journals_config config;
    mr_journal *own;             /* NULL: nothing is written */
    mr_journal_reader **readers; /* of each rank's partition; NULL: not open yet */
};

mr_status mr_journals_open(mr_journals **out, const mr_journals_config *config, mr_error *err) {
    mr_journals *j = mr_zalloc(1, sizeof *j);
    *out = j;
    if (!j) {
        return mr_fail_memory(err, sizeof *j);
    }
    j->config = *config;
    j->readers = mr_zalloc((size_t)config->world, sizeof(mr_journal_reader *));
    if (!j->readers) {
        return mr_fail_memory(err, (size_t)config->world * sizeof(mr_journal_reader *));
    }
    return config->read_only
               ? MR_OK
               : mr_journal_open(&j->own, config->folder, (uint32_t)config->rank, config->run, err);
}

void mr_journals_close(mr_journals *j) {
    if (j) {
        for (int64_t i = 0; j->readers && i < j->config.world; i++) {
            mr_journal_reader_close(j->readers[i]);
        }
        mr_free(j->readers);
        mr_journal_close(j->own, NULL);
        mr_free(j);
    }
}

bool mr_journals_is_new(const mr_journals *j) {
    return j->own && mr_journal_is_new(j->own);
}

mr_status mr_journals_append(mr_journals *j, int64_t kind, const void *bytes, size_t size,
                             mr_error *err) {
    return j->own ? mr_journal_append(j->own, kind, bytes, size, err) : MR_OK;
}

/* Others may be about to begin: what is not there yet, or has no head yet, comes later. */
static mr_status open_reader(mr_journals *j, int64_t rank, mr_error *err) {
    mr_error failure = MR_ERROR_INIT;
    uint64_t theirs[2];
    mr_status status = mr_journal_reader_open(&j->readers[rank], j->config.folder, (uint32_t)rank,
                                              theirs, &failure);
    if (status == MR_E_NOT_FOUND && (rank != j->config.rank || j->config.read_only) &&
        !(j->config.read_only && rank == 0)) {
        return MR_END;
    }
    if (status < 0) {
        if (err) {
            *err = failure;
        }
        return status;
    }
    if (rank != j->config.rank && !j->config.read_only) {
        mr_journal_follow(j->readers[rank]);
    }
    return theirs[0] == j->config.run[0] && theirs[1] == j->config.run[1]
               ? MR_OK
               : mr_fail(err, MR_E_STATE, "this journal is that of another run");
}

mr_status mr_journals_next(mr_journals *j, int64_t rank, int64_t *kind, mr_entry *entry,
                           mr_error *err) {
    if (!j->readers[rank]) {
        mr_status status = open_reader(j, rank, err);
        if (status != MR_OK) {
            return status;
        }
    }
    return mr_journal_next(j->readers[rank], kind, entry, err);
}
