/* SPDX-License-Identifier: Apache-2.0 */
/* asset.c - files that ops need besides their samples. */
#include "ops/asset.h"

#include <string.h>

#include "core/base64.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"

#include <millrace/millrace.h>

static const char url_mark[] = "data:;base64,";

static bool is_url(const char *name) {
    return strncmp(name, url_mark, sizeof url_mark - 1) == 0;
}

static mr_status open_url(mr_asset *asset, const char *text, mr_error *err) {
    size_t room = strlen(text) / 4 * 3 + 3;
    asset->owned = mr_zalloc(1, room);
    if (!asset->owned) {
        return mr_fail_memory(err, room);
    }
    if (!mr_base64_decode(text, strlen(text), asset->owned, &asset->size)) {
        return mr_fail(err, MR_E_PARAM, "the data URL is not base64");
    }
    asset->data = asset->owned;
    return MR_OK;
}

static mr_status check_digest(const mr_asset *asset, const char *name, const char *digest,
                              mr_error *err) {
    char actual[33];
    if (!digest[0]) {
        return MR_OK;
    }
    mr_hash_hex(mr_hash(asset->data, asset->size), actual);
    if (strcmp(actual, digest) != 0) {
        mr_fail(err, MR_E_STATE, "the digest of %s is %s, not %s", is_url(name) ? "the data" : name,
                actual, digest);
        mr_hint(err, "the file has changed, or another one is meant; put the new digest into the "
                     "document if it is right");
        return MR_E_STATE;
    }
    return MR_OK;
}

mr_status mr_asset_open(mr_asset *asset, const char *name, const char *digest, mr_error *err) {
    *asset = (mr_asset){0};
    if (is_url(name)) {
        MR_TRY(open_url(asset, name + sizeof url_mark - 1, err));
    } else {
        asset->is_file = true;
        MR_TRY(mr_map_open(&asset->map, name, err));
        asset->data = asset->map.data;
        asset->size = asset->map.size;
    }
    return check_digest(asset, name, digest, err);
}

void mr_asset_close(mr_asset *asset) {
    if (asset->is_file) {
        mr_map_close(&asset->map);
    }
    mr_free(asset->owned);
    *asset = (mr_asset){0};
}

uint32_t mr_asset_flags(const char *name, const char *digest) {
    return digest[0] || is_url(name) ? 0 : (uint32_t)MR_OP_OPAQUE;
}
