/* SPDX-License-Identifier: Apache-2.0 */
/* asset.h - a file that an op needs besides its samples: a vocabulary, a tokenizer, a table.
 *
 * Its name is a parameter, its content is not, so the pipeline's fingerprint does not see it
 * change. Where the parameter "digest" says what the content is, it is checked, and results may be
 * stored; without it the op is opaque (MR_OP_OPAQUE). Instead of a name the parameter may hold the
 * content itself, as a data URL: "data:;base64,...". */
#ifndef MR_OPS_ASSET_H
#define MR_OPS_ASSET_H

#include <millrace/op.h>

#include "io/map.h"

typedef struct mr_asset {
    const unsigned char *data;
    size_t size;
    bool is_file;
    mr_map map;           /* of a file */
    unsigned char *owned; /* of a data URL */
} mr_asset;

/* Opens the file (or data URL) and compares its digest, where one is given (not ""). On failure the
 * asset is empty and may be closed all the same; a zeroed one too. */
mr_status mr_asset_open(mr_asset *asset, const char *name, const char *digest, mr_error *err);
void mr_asset_close(mr_asset *asset);

/* MR_OP_OPAQUE, or 0 where the parameters alone tell the content. */
uint32_t mr_asset_flags(const char *name, const char *digest);

#define MR_ASSET_DIGEST_DOC                                                                        \
    "The file's XXH3 hash of 128 bits, 32 hexadecimal digits as xxh128sum prints them; checked "   \
    "when "                                                                                        \
    "the file is opened. Without it nothing that is made with the file is ever cached."

#endif
