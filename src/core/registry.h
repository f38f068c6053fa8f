/* SPDX-License-Identifier: Apache-2.0 */
/* registry.h - the tables found by the build: see cmake/Tables.cmake. The public functions over
 * ops and sources are in millrace.h; codecs are internal. */
#ifndef MR_CORE_REGISTRY_H
#define MR_CORE_REGISTRY_H

#include <millrace/millrace.h>

struct mr_codec;
int32_t mr_n_codecs(void);
const struct mr_codec *mr_codec_at(int32_t i);

#endif
