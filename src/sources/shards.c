/* SPDX-License-Identifier: Apache-2.0 */
/* shards.c - see shards.h. */
#include "sources/shards.h"

#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "io/far_name.h"
#include "io/file.h"

mr_status mr_shard_blame(mr_status status, const char *path, int64_t offset, mr_error *err) {
    if (status < 0 && err) {
        mr_text_escape(err->source, sizeof err->source, path);
        err->offset = err->offset < 0 ? offset : err->offset;
    }
    return status;
}

/* ---- Marks ---- */
static bool grow_numbers(int64_t **numbers, int64_t capacity) {
    int64_t *grown = realloc(*numbers, (size_t)capacity * sizeof *grown);
    *numbers = grown ? grown : *numbers;
    return grown != NULL;
}

mr_status mr_shards_mark(mr_shards *s, int64_t offset, int64_t n_samples, mr_error *err) {
    if (s->n_pieces + 1 >= s->capacity) {
        int64_t capacity = s->capacity * 2;
        if (!grow_numbers(&s->starts, capacity) ||
            (s->firsts && !grow_numbers(&s->firsts, capacity))) {
            return mr_fail_memory(err, (size_t)capacity * sizeof *s->starts);
        }
        s->capacity = capacity;
    }
    if (s->firsts) {
        s->firsts[s->n_pieces] = s->n_samples;
    }
    s->starts[s->n_pieces++] = offset;
    s->n_samples += n_samples;
    return MR_OK;
}

void mr_shards_end(mr_shards *s, int64_t offset) {
    s->v[s->n].end = offset;
}

/* ---- Opening ---- */
/* By the ending of the name, without what follows it where the shard lies on a server. */
static mr_packing packing_of(const char *path) {
    char *bare = strndup(path, mr_path_public(path));
    mr_packing packing = mr_packing_of(bare ? bare : path);
    free(bare);
    return packing;
}

static bool stays_unpacked(const mr_shards_config *config) {
    return config->may_map && config->in_memory;
}

static bool find_marks(mr_shards *s, const mr_shards_config *config, const mr_shard *shard,
                       const unsigned char *data, size_t size) {
    const mr_shard_data all = {data, size};
    return config->find && config->find(config->user, s, shard, &all);
}

/* An empty file has no data, and is no compressed one either. */
static mr_status mark_bytes(mr_shards *s, const mr_shards_config *config, const mr_shard *shard,
                            const unsigned char *data, size_t size, bool may_find, mr_error *err) {
    return may_find && data && find_marks(s, config, shard, data, size)
               ? MR_OK
               : config->walk(config->user, s, shard, data, size, err);
}

/* A compressed shard that has an index is not unpacked. */
static mr_status walk_bytes(mr_shards *s, const mr_shards_config *config, mr_shard *shard,
                            mr_error *err) {
    unsigned char *owned = NULL;
    size_t size = 0;
    if (shard->packing == MR_NOT_PACKED) {
        return mark_bytes(s, config, shard, shard->map.data, shard->map.size, true, err);
    }
    if (!stays_unpacked(config) && find_marks(s, config, shard, NULL, 0)) {
        return MR_OK;
    }
    if (!stays_unpacked(config) && config->stream) {
        bool again = false;
        mr_status done = config->stream(config->user, s, shard, &again, err);
        if (!again) {
            return done;
        }
        s->n_pieces = shard->first_piece;
        s->n_samples = shard->first_sample;
    }
    MR_TRY(mr_unpack_file(shard->packing, shard->map.data, shard->map.size,
                          (size_t)config->max_unpacked, false, &owned, &size, err));
    mr_status status = mark_bytes(s, config, shard, owned, size, stays_unpacked(config), err);
    if (status == MR_OK && stays_unpacked(config)) {
        shard->unpacked = owned;
    } else {
        free(owned);
    }
    return status;
}

/* ---- Where samples begin in a shard on a server, kept from one start to the next ---- */
typedef struct kept_head {
    int64_t end, n_pieces;
} kept_head;

/* Beside the objects' bytes, where these are kept: see run/cache/raw_tier.h. */
static const char *kept_in(const mr_shards *s, const mr_shards_config *config,
                           const mr_shard *shard, uint64_t key[2]) {
    const char *store = config->objects;
    uint64_t words[3];
    if (!config->keeper || s->firsts || !store || !store[0] ||
        !mr_far_identity(shard->path, &words[1])) {
        return NULL;
    }
    words[0] = mr_hash64(config->kind, strlen(config->kind), 1);
    mr_hash128 hash = mr_hash(words, sizeof words);
    key[0] = hash.low;
    key[1] = hash.high;
    return store;
}

static bool mark_kept(mr_shards *s, const int64_t *starts, const kept_head *head) {
    int64_t before = s->n_pieces, last = -1;
    for (int64_t i = 0; i < head->n_pieces; i++) {
        mr_error ignored = MR_ERROR_INIT;
        if (starts[i] <= last || starts[i] > head->end ||
            mr_shards_mark(s, starts[i], 1, &ignored) < 0) {
            s->n_pieces = s->n_samples = before; /* a piece is a sample */
            return false;
        }
        last = starts[i];
    }
    mr_shards_end(s, head->end);
    return true;
}

static bool find_kept(mr_shards *s, const mr_shards_config *config, const mr_shard *shard) {
    uint64_t key[2];
    void *value = NULL;
    size_t size = 0;
    kept_head head;
    const char *store = kept_in(s, config, shard, key);
    bool found = store && config->keeper->find(config->keeper->user, store, key, &value, &size) &&
                 size >= sizeof head;
    if (found) {
        memcpy(&head, value, sizeof head);
        found = head.n_pieces >= 0 && head.end >= 0 &&
                (uint64_t)head.n_pieces == (size - sizeof head) / sizeof(int64_t) &&
                mark_kept(s, (const int64_t *)(const void *)((char *)value + sizeof head), &head);
    }
    free(value);
    return found;
}

static void put_kept(mr_shards *s, const mr_shards_config *config, const mr_shard *shard) {
    uint64_t key[2];
    const kept_head head = {shard->end, s->n_pieces - shard->first_piece};
    const char *store = kept_in(s, config, shard, key);
    size_t size = sizeof head + (size_t)head.n_pieces * sizeof(int64_t);
    char *value = store ? malloc(size) : NULL;
    if (value) {
        memcpy(value, &head, sizeof head);
        memcpy(value + sizeof head, s->starts + shard->first_piece, size - sizeof head);
        config->keeper->put(config->keeper->user, store, key, value, size);
    }
    free(value);
}

/* The shard need not be looked at: what a look would tell is kept. */
static bool open_kept(mr_shards *s, const mr_shards_config *config, mr_shard *shard) {
    mr_far_pin pin;
    mr_far_pin_of(shard->path, &pin);
    shard->size = pin.size;
    return (!config->may_map || s->single) && find_kept(s, config, shard);
}

static mr_status open_shard(mr_shards *s, const mr_shards_config *config, mr_error *err) {
    mr_shard *shard = &s->v[s->n];
    *shard = (mr_shard){.path = s->paths.v[s->n],
                        .map.fd = -1,
                        .first_piece = s->n_pieces,
                        .first_sample = s->n_samples};
    shard->packing = packing_of(shard->path);
    if (mr_is_far(shard->path)) {
        shard->named = mr_far_identity(shard->path, shard->identity);
    }
    bool packed = shard->packing != MR_NOT_PACKED && !stays_unpacked(config);
    s->mapped = s->mapped && !packed;
    if (config->may_locate && mr_is_far(shard->path)) {
        s->single = s->single || s->mapped;
        s->mapped = false;
    }
    s->single = s->single && !packed;
    if (mr_is_far(shard->path) && open_kept(s, config, shard)) {
        return MR_OK;
    }
    MR_TRY(mr_map_open(&shard->map, shard->path, err));
    shard->named = shard->named || mr_open_file_identity(shard->map.fd, shard->identity);
    mr_map_keep_memory(&shard->map);
    shard->size = (int64_t)shard->map.size;
    mr_status status = walk_bytes(s, config, shard, err);
    if (status < 0 || !config->may_map || s->single) {
        mr_map_close(&shard->map);
    }
    if (status == MR_OK && mr_is_far(shard->path)) {
        put_kept(s, config, shard);
    }
    return mr_shard_blame(status, shard->path, -1, err);
}

static mr_status open_all(mr_shards *s, const mr_shards_config *config, mr_error *err) {
    for (; s->n < s->paths.n; s->n++) {
        mr_status status = open_shard(s, config, err);
        if (status < 0) {
            return status;
        }
    }
    s->v[s->n] = (mr_shard){.map.fd = -1, .first_piece = s->n_pieces, .first_sample = s->n_samples};
    return MR_OK;
}

/* Some shards are compressed, so all are read. */
static void unmap(mr_shards *s) {
    for (int32_t i = 0; i < s->n && !s->mapped; i++) {
        mr_map_close(&s->v[i].map);
    }
}

static int64_t start_of(const mr_shards *s, int64_t piece) {
    return s->starts[piece];
}

int64_t mr_shards_piece_end(const mr_shards *s, const mr_shard *shard, int64_t piece) {
    return piece + 1 < shard[1].first_piece ? start_of(s, piece + 1) : shard->end;
}

static mr_status add_block(mr_shards *s, int32_t shard, int64_t piece, int64_t *capacity,
                           mr_error *err) {
    if (s->n_blocks == *capacity) {
        *capacity = *capacity ? *capacity * 2 : 64;
        mr_shard_block *blocks = realloc(s->blocks, (size_t)*capacity * sizeof *blocks);
        if (!blocks) {
            return mr_fail_memory(err, (size_t)*capacity * sizeof *blocks);
        }
        s->blocks = blocks;
    }
    s->blocks[s->n_blocks++] = (mr_shard_block){piece, shard};
    return MR_OK;
}

static mr_status cut_shard(mr_shards *s, int32_t number, int64_t block_bytes, int64_t *capacity,
                           mr_error *err) {
    const mr_shard *shard = &s->v[number];
    int64_t from = 0;
    for (int64_t piece = shard->first_piece; piece < shard[1].first_piece; piece++) {
        bool whole = shard->packing == MR_NOT_PACKED &&
                     mr_shards_piece_end(s, shard, piece) - from > block_bytes;
        if (piece == shard->first_piece || whole) {
            MR_TRY(add_block(s, number, piece, capacity, err));
            from = start_of(s, piece);
        }
    }
    return MR_OK;
}

static mr_status cut_into_blocks(mr_shards *s, int64_t block_bytes, mr_error *err) {
    int64_t capacity = 0;
    for (int32_t i = 0; i < s->n; i++) {
        MR_TRY(cut_shard(s, i, block_bytes, &capacity, err));
    }
    return MR_OK;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* An object's name with its version, and without a query: that may be a signature of today. */
static char *name_version(const char *path) {
    char *name = NULL;
    return asprintf(&name, "%.*s%s", (int)mr_path_public(path), path, path + mr_far_bare(path)) < 0
               ? NULL
               : name;
}

static void make_fingerprint(mr_shards *s) {
    uint64_t hash[2] = {1, 2};
    for (int32_t i = 0; i < s->n; i++) {
        const mr_shard *shard = &s->v[i];
        char *far = mr_is_far(shard->path) ? name_version(shard->path) : NULL;
        const char *name = base_name(far ? far : shard->path);
        const int64_t numbers[] = {shard->end, shard->first_sample, shard->first_piece};
        size_t bytes = (size_t)(shard[1].first_piece - shard->first_piece) * sizeof(int64_t);
        for (int k = 0; k < 2; k++) {
            hash[k] = mr_hash64(name, strlen(name), hash[k]);
            hash[k] = mr_hash64(numbers, sizeof numbers, hash[k]);
            hash[k] = mr_hash64(s->starts + shard->first_piece, bytes, hash[k]);
        }
        free(far);
    }
    memcpy(s->fingerprint, hash, sizeof hash);
}

static mr_status make_room(mr_shards *s, bool runs, mr_error *err) {
    s->capacity = 1024;
    s->v = mr_zalloc((size_t)s->paths.n + 1, sizeof *s->v);
    s->starts = mr_zalloc((size_t)s->capacity, sizeof *s->starts);
    s->firsts = runs ? mr_zalloc((size_t)s->capacity, sizeof *s->firsts) : NULL;
    return s->v && s->starts && (s->firsts || !runs)
               ? MR_OK
               : mr_fail_memory(err, (size_t)s->paths.n * sizeof *s->v);
}

mr_status mr_shards_open(mr_shards *s, const mr_shards_config *config, mr_error *err) {
    *s = (mr_shards){.mapped = config->may_map, .max_unpacked = config->max_unpacked};
    MR_TRY(mr_patterns_find(&s->paths, config->patterns, config->endings, err));
    MR_TRY(make_room(s, config->runs, err));
    MR_TRY(open_all(s, config, err));
    unmap(s);
    if (s->n_samples == 0) {
        mr_fail(err, MR_E_PARAM, "no samples");
        return mr_shard_blame(MR_E_PARAM, s->v[0].path, -1, err);
    }
    make_fingerprint(s);
    return s->mapped || s->single ? MR_OK : cut_into_blocks(s, config->block_bytes, err);
}

void mr_shards_close(mr_shards *s) {
    for (int32_t i = 0; s->v && i < s->n; i++) {
        mr_map_close(&s->v[i].map);
        free(s->v[i].unpacked);
    }
    mr_free(s->v);
    mr_free(s->starts);
    mr_free(s->firsts);
    free(s->blocks);
    mr_patterns_free(&s->paths);
    *s = (mr_shards){.n = 0};
}

/* ---- The beginning of the first shard ---- */
static mr_status copy_head(mr_shard_head *head, const mr_map *map, size_t most, mr_error *err) {
    mr_packing packing = packing_of(head->path);
    if (packing != MR_NOT_PACKED) {
        MR_TRY(mr_unpack_file(packing, map->data, map->size, most, true, &head->data, &head->size,
                              err));
        head->whole = head->size < most;
        return MR_OK;
    }
    head->size = map->size < most ? map->size : most;
    head->whole = head->size == map->size;
    head->data = malloc(head->size + 1);
    if (!head->data) {
        return mr_fail_memory(err, head->size);
    }
    if (head->size > 0) {
        memcpy(head->data, map->data, head->size);
    }
    return MR_OK;
}

/* Of an object that is not compressed no more is fetched than is looked at. */
static mr_status fetch_head(mr_shard_head *head, const char *path, size_t most, mr_error *err) {
    enum { ENOUGH = 4 << 20 };
    mr_far_pin pin;
    mr_open_extent open;
    mr_far_pin_of(path, &pin);
    head->size = most < ENOUGH ? most : ENOUGH;
    head->size = pin.size < (int64_t)head->size ? (size_t)pin.size : head->size;
    head->whole = (int64_t)head->size == pin.size;
    const mr_extent extent = {.path = path, .length = (int64_t)head->size, .limit = INT64_MAX};
    head->data = malloc(head->size + 1);
    if (!head->data) {
        return mr_fail_memory(err, head->size);
    }
    MR_TRY(mr_extent_open(&extent, &open, err));
    mr_status status = mr_extent_read(&open, head->data, err);
    mr_extent_close(&open);
    return status;
}

static mr_status read_head(mr_shard_head *head, const char *path, size_t most, mr_error *err) {
    mr_map map;
    if (mr_is_far(path) && packing_of(path) == MR_NOT_PACKED) {
        return fetch_head(head, path, most, err);
    }
    MR_TRY(mr_map_open(&map, path, err));
    mr_status status = copy_head(head, &map, most, err);
    mr_map_close(&map);
    return status;
}

mr_status mr_shards_head(mr_shard_head *head, const mr_strings *patterns,
                         const char *const *endings, size_t most, mr_error *err) {
    mr_names paths;
    *head = (mr_shard_head){.data = NULL};
    mr_status status = mr_patterns_find(&paths, patterns, endings, err);
    if (status == MR_OK) {
        snprintf(head->path, sizeof head->path, "%.*s", (int)mr_path_public(paths.v[0]),
                 paths.v[0]);
        status = mr_shard_blame(read_head(head, paths.v[0], most, err), paths.v[0], -1, err);
    }
    mr_patterns_free(&paths);
    return status;
}

/* ---- Names for stores ---- */
const mr_shard *mr_shards_of_sample(const mr_shards *s, int64_t sample) {
    int32_t low = 0, high = s->n; /* v[low].first_sample <= sample < v[high].first_sample */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (s->v[middle].first_sample <= sample) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &s->v[low];
}

/* The sample's number among all counts too: index and row are fields. */
bool mr_shards_identify(const mr_shards *s, int64_t sample, uint64_t out[2]) {
    const mr_shard *shard = mr_shards_of_sample(s, sample);
    uint64_t words[] = {0, 0, (uint64_t)(sample - shard->first_sample), (uint64_t)sample,
                        s->meaning};
    if (!shard->named || !mr_file_identity(shard->path, INT64_MAX, words) ||
        memcmp(words, shard->identity, sizeof shard->identity) != 0) {
        return false;
    }
    mr_hash128 hash = mr_hash(words, sizeof words);
    out[0] = hash.low;
    out[1] = hash.high;
    return true;
}

static uint64_t hash_text(const char *text, uint64_t seed) {
    return mr_hash64(text, strlen(text) + 1, seed);
}

mr_status mr_shards_meaning(mr_shards *s, mr_describe_fn *describe, const void *params,
                            const mr_strings *said, uint64_t more, mr_error *err) {
    int32_t n = 0;
    MR_TRY(describe(params, NULL, 0, &n, err));
    mr_field *fields = mr_zalloc((size_t)n, sizeof *fields);
    if (!fields) {
        return mr_fail_memory(err, (size_t)n * sizeof *fields);
    }
    mr_status status = describe(params, fields, n, &n, err);
    s->meaning = more;
    for (int32_t i = 0; status == MR_OK && i < n; i++) {
        char type[128];
        s->meaning = hash_text(fields[i].name, s->meaning);
        s->meaning = hash_text(mr_type_text(&fields[i].type, type, sizeof type), s->meaning);
    }
    for (int32_t i = 0; i < said->n; i++) {
        s->meaning = hash_text(said->v[i], s->meaning);
    }
    mr_free(fields);
    return status;
}

/* ---- For the table ---- */
void mr_shards_shape(const mr_shards *s, mr_shape *out) {
    bool all_packed = true;
    for (int32_t i = 0; i < s->n; i++) {
        all_packed = all_packed && s->v[i].packing != MR_NOT_PACKED;
    }
    out->samples = s->n_samples;
    out->blocks = s->mapped || s->single ? 0 : s->n_blocks;
    out->mapped = s->mapped;
    out->keeps_bytes = !all_packed;
    out->servers = MR_SERVERS_NONE;
    for (int32_t i = 0; i < s->n; i++) {
        out->servers = mr_is_far(s->v[i].path) ? MR_SERVERS_SOME : out->servers;
    }
    memcpy(out->fingerprint, s->fingerprint, sizeof s->fingerprint);
}

static int64_t first_of(const mr_shards *s, int64_t piece) {
    return s->firsts ? s->firsts[piece] : piece;
}

int64_t mr_shards_first_sample(const mr_shards *s, int64_t block) {
    return first_of(s, s->blocks[block].first_piece);
}

/* Where samples are located one by one, each is a block. */
static mr_shard_block block_at(const mr_shards *s, int64_t block) {
    if (!s->single) {
        return s->blocks[block];
    }
    return (mr_shard_block){block, (int32_t)(mr_shards_of_piece(s, block) - s->v)};
}

/* After its last piece. */
static int64_t last_piece_of(const mr_shards *s, int64_t block) {
    const mr_shard_block *b = s->single ? NULL : &s->blocks[block];
    if (!b) {
        return block;
    }
    bool is_last = block + 1 == s->n_blocks || b[1].shard != b->shard;
    return is_last ? s->v[b->shard + 1].first_piece - 1 : b[1].first_piece - 1;
}

static mr_extent extent_of(const mr_shards *s, int64_t block) {
    const mr_shard_block b = block_at(s, block);
    const mr_shard *shard = &s->v[b.shard];
    int64_t start = start_of(s, b.first_piece);
    int64_t end = mr_shards_piece_end(s, shard, last_piece_of(s, block));
    mr_extent out = {.path = shard->path, .limit = INT64_MAX, .object = b.shard + 1};
    out.offset = shard->packing == MR_NOT_PACKED ? start : 0;
    out.length = shard->packing == MR_NOT_PACKED ? end - start : shard->size;
    return out;
}

int64_t mr_shards_block_bytes(const mr_shards *s, int64_t block) {
    const mr_shard *shard = &s->v[block_at(s, block).shard];
    return shard->packing == MR_NOT_PACKED ? extent_of(s, block).length : shard->end + shard->size;
}

mr_status mr_shards_locate(const mr_shards *s, int64_t block, mr_extent *extents, int32_t capacity,
                           int32_t *n, mr_error *err) {
    (void)err;
    *n = 1;
    if (capacity >= 1) {
        extents[0] = extent_of(s, block);
    }
    return MR_OK;
}

mr_status mr_shards_unpack(const mr_shards *s, const mr_block *block, mr_bytes *bytes,
                           unsigned char **owned, mr_error *err) {
    const mr_shard *shard = &s->v[block_at(s, block->number).shard];
    *owned = NULL;
    *bytes = block->bytes[0];
    if (shard->packing == MR_NOT_PACKED) {
        return MR_OK;
    }
    mr_status status =
        mr_unpack_beginning(shard->packing, bytes->data, bytes->size, (size_t)shard->end,
                            (size_t)s->max_unpacked, owned, &bytes->size, err);
    bytes->data = *owned;
    if (status == MR_OK && (int64_t)bytes->size < shard->end) {
        free(*owned);
        *owned = NULL;
        status = mr_fail(err, MR_E_CORRUPT, "the shard is another one than when the run began");
    }
    return mr_shard_blame(status, shard->path, -1, err);
}

/* ---- Pieces ---- */
const mr_shard *mr_shards_of_piece(const mr_shards *s, int64_t piece) {
    int32_t low = 0, high = s->n; /* v[low].first_piece <= piece < v[high].first_piece */
    while (high - low > 1) {
        int32_t middle = low + (high - low) / 2;
        if (s->v[middle].first_piece <= piece) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &s->v[low];
}

mr_shard_piece mr_shards_piece(const mr_shards *s, const mr_block *block,
                               const unsigned char *unpacked, int64_t piece) {
    const mr_shard *shard =
        block ? &s->v[block_at(s, block->number).shard] : mr_shards_of_piece(s, piece);
    int64_t start = start_of(s, piece), end = mr_shards_piece_end(s, shard, piece);
    mr_shard_piece out = {.size = (size_t)(end - start), .shard = shard, .offset = start};
    if (!block) {
        const unsigned char *all = shard->unpacked ? shard->unpacked : shard->map.data;
        out.data = all ? all + start : NULL;
    } else if (unpacked) {
        out.data = unpacked + start;
    } else {
        int64_t from = start_of(s, block_at(s, block->number).first_piece);
        out.data = (const unsigned char *)block->bytes[0].data + (start - from);
    }
    return out;
}
