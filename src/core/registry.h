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
mr_status mr_op_check_abi(const mr_op_class *op, mr_error *err);
mr_status mr_source_check_abi(const mr_source_class *source, mr_error *err);

#endif
