/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the tables found by the build: see cmake/Tables.cmake. The public functions over
 * ops and sources are in millrace.h; codecs are internal. */
#ifndef MR_CORE_REGISTRY_H
#define MR_CORE_REGISTRY_H

#include <millrace/millrace.h>

struct mr_codec;
int32_t mr_n_codecs(void);
const struct mr_codec *mr_codec_at(int32_t i);

/* Tables from elsewhere must have been built for this version's interface: functions are added at
 * their ends. */
/* Tables from elsewhere, as this library knows them: one of an older, smaller size is copied, and
 * what it lacks is zero. The lists are ended by NULL. To be freed also after a failure. */
typedef struct mr_own_tables {
    const mr_op_class **ops;
    const mr_source_class **sources;
    void **copies;
    size_t n_copies;
} mr_own_tables;

mr_status mr_tables_own(mr_own_tables *out, const mr_op_class *const *ops,
                        const mr_source_class *const *sources, mr_error *err);
void mr_tables_free(mr_own_tables *tables);

#endif
