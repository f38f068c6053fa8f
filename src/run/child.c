/* SPDX-License-Identifier: Apache-2.0 */
/* child.c - see child.h. */
#include "run/child.h"

#include <string.h>

#include "core/error.h"
#include "core/hash.h"
#include "core/memory.h"
#include "plan/course_measure.h"
#include "run/read/facts.h"
#include "run/read/numbers.h"
#include "run/read/intake.h"
#include "run/read/servers.h"

/* ---- Blocks ---- */
static int64_t largest_block(const mr_dataset *dataset) {
    int64_t largest = 1;
    for (int64_t b = 0; b < dataset->shape.blocks; b++) {
        int64_t bytes = mr_dataset_block_bytes(dataset, b);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

int64_t mr_child_window(const mr_child *child) {
    return mr_shuffle_window(&child->pipeline->shuffle, largest_block(&child->dataset));
}

static bool reads_blocks(const mr_child *child) {
    return mr_dataset_is_read(&child->dataset) && mr_dataset_has_blocks(&child->dataset);
}

int64_t mr_child_blocks(const mr_child *child) {
    return reads_blocks(child) ? child->dataset.shape.blocks : 0;
}

/* Where samples of like length come together, all blocks of a stretch are needed at once. */
static int64_t stretch_of(const mr_child *child) {
    int64_t group = 0, stretch = 0;
    if (!child->lengths ||
        mr_bucket_stretch(&child->pipeline->bucket, child->pipeline->settings.batch, &group,
                          &stretch, NULL) < 0) {
        return 0;
    }
    return stretch;
}

static int64_t blocks_of_stretch(const mr_child *child) {
    int64_t stretch = stretch_of(child), blocks = child->dataset.shape.blocks;
    if (stretch == 0) {
        return 0;
    }
    int64_t rows = child->dataset.shape.samples / blocks + 1;
    int64_t most = stretch / rows + child->pipeline->shuffle.lanes;
    return most < blocks ? most : blocks;
}

static int64_t window_of(const mr_child *child) {
    int64_t blocks = child->dataset.shape.blocks, window = mr_child_window(child);
    return window > 0 && window < blocks ? window : blocks;
}

/* A window is read while the one before it is used. Without shuffle a few blocks are enough to keep
 * the readers busy, and the workers: a block of one part is unpacked by one of them. */
static int64_t two_windows(const mr_child *child, uint32_t threads) {
    enum { FEWEST = 4, MOST = 12 };
    int64_t few = threads < FEWEST ? FEWEST : threads < MOST ? threads : MOST;
    int64_t all = 2 * child->dataset.shape.blocks;
    return child->pipeline->settings.shuffle ? 2 * window_of(child) : few < all ? few : all;
}

int64_t mr_child_shuffled(const mr_child *child) {
    return reads_blocks(child) && child->pipeline->settings.shuffle ? window_of(child) : 0;
}

/* Answers of servers take longer to come than a window of small blocks takes to use up: of these
 * more are asked for, as many as the allowance for reading ahead has room for. */
int64_t mr_child_blocks_ahead(const mr_child *child, uint32_t threads, int64_t bytes) {
    if (!reads_blocks(child)) {
        return 0;
    }
    int64_t more = child->dataset.is_far ? bytes / mr_child_block_memory(child, 1) : 0;
    return two_windows(child, threads) + mr_course_lanes(child->course) + blocks_of_stretch(child) +
           more;
}

/* What is read ahead, or what open positions need where that is more; and where batches are padded,
 * the beginnings of the epochs that end within. */
mr_status mr_child_blocks_bound(const mr_child *child, int64_t ahead, int64_t open, int64_t padded,
                                int64_t *out, mr_error *err) {
    int64_t touched = 0, again = 0;
    *out = 0;
    if (ahead == 0) {
        return MR_OK;
    }
    MR_TRY(mr_course_most_touched(child->course, open + 2 * stretch_of(child), &touched, err));
    if (padded > 0) {
        MR_TRY(mr_course_most_touched(child->course, padded, &again, err));
        again *= open / mr_course_length(child->course) + 1;
    }
    *out = (touched > ahead ? touched : ahead) + again;
    return MR_OK;
}

/* A block counts with its bytes and with what they are unpacked to: it has both while it is
 * unpacked, in parts that several threads take between other work, or for as long as values point
 * into the bytes. */
int64_t mr_child_block_memory(const mr_child *child, int64_t blocks) {
    return blocks > 0 ? 2 * blocks * largest_block(&child->dataset) : 0;
}

/* ---- Opening one ---- */
/* The source's fingerprint covers names, not contents; what decides the order has to be the same
 * for a state to go on and for ranks to share the work. */
static void add_numbers(mr_child *child, const void *numbers, size_t size) {
    mr_hash128 hash = mr_hash(numbers, size);
    const uint64_t words[4] = {child->numbers.low, child->numbers.high, hash.low, hash.high};
    child->numbers = mr_hash(words, sizeof words);
    child->has_numbers = true;
}

static void add_columns(mr_child *child, const mr_facts *facts) {
    size_t samples = (size_t)child->dataset.shape.samples;
    for (int32_t f = 0; facts->numbers && f < child->pipeline->n_source_fields; f++) {
        if (facts->numbers[f]) {
            add_numbers(child, facts->numbers[f], samples * sizeof *facts->numbers[f]);
        }
    }
}

static mr_status open_selection(mr_child *child, const mr_log *log, mr_error *err) {
    const mr_view_steps *view = &child->pipeline->view;
    if (view->n == 0) {
        return MR_OK;
    }
    mr_facts *facts = mr_zalloc(1, sizeof *facts);
    if (!facts) {
        return mr_fail_memory(err, sizeof *facts);
    }
    facts->dataset = &child->dataset;
    facts->pipeline = child->pipeline;
    facts->log = log;
    mr_sample_facts asked = mr_facts_of(facts);
    asked.in_blocks = mr_dataset_has_blocks(&child->dataset);
    mr_status status = mr_selection_open(&child->selection, child->dataset.shape.samples,
                                         view->steps, view->n, &asked, err);
    add_columns(child, facts);
    mr_facts_close(facts);
    mr_free(facts);
    return status;
}

static mr_status open_course(mr_child *child, mr_error *err) {
    bool in_blocks = mr_dataset_has_blocks(&child->dataset);
    const mr_course_config config = {
        .samples = child->dataset.shape.samples,
        .n_blocks = child->dataset.shape.blocks,
        .first = child->dataset.first,
        .shuffle = child->pipeline->settings.shuffle,
        .window = in_blocks ? mr_child_window(child) : 0,
        .lanes = in_blocks ? child->pipeline->shuffle.lanes : 1,
        .seed = child->seed,
        .selection = child->selection,
    };
    return mr_course_open(&child->course, &config, err);
}

/* The first has the run's own seed, as it has where it is the only one. */
static uint64_t seed_of(uint64_t seed, int32_t child) {
    const uint64_t words[2] = {seed, (uint64_t)child};
    return child == 0 ? seed : mr_hash(words, sizeof words).low & (uint64_t)MR_SEED_MAX;
}

/* The field that a bucket goes by, and whether it is a number or something that is long. */
static mr_status find_length(const mr_child *child, int32_t *field, mr_number_kind *kind,
                             mr_error *err) {
    const mr_pipeline *p = child->pipeline;
    const char *name = p->bucket.field;
    int32_t f = 0;
    while (name[0] && f < p->n_source_fields && strcmp(p->variables[f].name, name) != 0) {
        f++;
    }
    if (f == p->n_source_fields) {
        char shown[64];
        mr_text_escape(shown, sizeof shown, name);
        mr_error_at_json(err, "$.bucket.field");
        mr_fail(err, MR_E_PARAM, "source %s has no field \"%s\"", p->source->name, shown);
        mr_hint(err, "lengths are those of fields as the source gives them, before any op");
        return MR_E_PARAM;
    }
    *field = f;
    *kind = p->variables[f].type.n_dims == 0 ? MR_NUMBER_VALUE : MR_NUMBER_LENGTH;
    return MR_OK;
}

static uint32_t as_length(double number) {
    return !(number > 0) ? 0 : number < UINT32_MAX ? (uint32_t)number : UINT32_MAX;
}

static mr_status open_lengths(mr_child *child, const mr_log *log, mr_error *err) {
    size_t n = (size_t)child->dataset.shape.samples;
    int32_t field = 0;
    mr_number_kind kind = MR_NUMBER_LENGTH;
    if (!child->pipeline->bucket.given) {
        return MR_OK;
    }
    MR_TRY(find_length(child, &field, &kind, err));
    double *numbers = mr_zalloc(n, sizeof *numbers);
    uint32_t *lengths = child->lengths = mr_zalloc(n, sizeof *lengths);
    if (!numbers || !lengths) {
        mr_free(numbers);
        return mr_fail_memory(err, n * sizeof *numbers);
    }
    mr_status status =
        mr_numbers_list(&child->dataset, child->pipeline, field, kind, log, numbers, err);
    for (size_t i = 0; status == MR_OK && i < n; i++) {
        lengths[i] = as_length(numbers[i]);
    }
    mr_free(numbers);
    if (status == MR_OK) {
        add_numbers(child, child->lengths, n * sizeof *child->lengths);
    }
    return status;
}

static mr_status open_child(mr_child *child, const mr_dataset_terms *terms, const mr_log *log,
                            mr_error *err) {
    MR_TRY(mr_dataset_open(&child->dataset, child->pipeline, terms, log, err));
    MR_TRY(open_selection(child, log, err));
    MR_TRY(open_lengths(child, log, err));
    return open_course(child, err);
}

/* ---- All ---- */
static mr_status open_route(mr_children *children, const mr_pipeline *pipeline, uint64_t seed,
                            mr_error *err) {
    mr_course **courses = mr_zalloc((size_t)children->n, sizeof(mr_course *));
    if (!courses) {
        return mr_fail_memory(err, (size_t)children->n * sizeof(mr_course *));
    }
    for (int32_t i = 0; i < children->n; i++) {
        courses[i] = children->list[i].course;
    }
    mr_status status = mr_route_open(&children->route, courses, &pipeline->mix, seed, err);
    mr_free(courses);
    return status;
}

/* Groups come in an order of their own unless nothing is shuffled at all. */
static mr_status open_bucket(mr_children *children, const mr_pipeline *pipeline, uint64_t seed,
                             mr_error *err) {
    int64_t group = 0, stretch = 0;
    bool shuffle = false;
    if (!pipeline->bucket.given) {
        return MR_OK;
    }
    children->lengths = mr_zalloc((size_t)children->n, sizeof(uint32_t *));
    if (!children->lengths) {
        return mr_fail_memory(err, (size_t)children->n * sizeof(uint32_t *));
    }
    for (int32_t i = 0; i < children->n; i++) {
        children->lengths[i] = children->list[i].lengths;
        shuffle = shuffle || children->list[i].pipeline->settings.shuffle;
    }
    MR_TRY(mr_bucket_stretch(&pipeline->bucket, pipeline->settings.batch, &group, &stretch, err));
    mr_route_bucket(&children->route, group, stretch, pipeline->bucket.lanes, shuffle, seed,
                    children->lengths);
    return MR_OK;
}

static void fingerprint_of(const mr_child *child, char out[33]) {
    char text[32 + sizeof child->numbers];
    memcpy(out, child->dataset.fingerprint, 33);
    if (child->has_numbers) {
        memcpy(text, out, 32);
        memcpy(text + 32, &child->numbers, sizeof child->numbers);
        mr_hash_hex(mr_hash(text, sizeof text), out);
    }
}

static mr_status write_fingerprint(mr_children *children, mr_error *err) {
    char each[33];
    if (children->n == 1) {
        fingerprint_of(&children->list[0], children->fingerprint);
        return MR_OK;
    }
    mr_hasher *hasher = mr_hasher_new();
    if (!hasher) {
        return mr_fail_memory(err, 576);
    }
    for (int32_t i = 0; i < children->n; i++) {
        fingerprint_of(&children->list[i], each);
        mr_hasher_text(hasher, each);
    }
    mr_hash_hex(mr_hasher_value(hasher), children->fingerprint);
    mr_hasher_free(hasher);
    return MR_OK;
}

static mr_status open_all(mr_children *children, const mr_pipeline *pipeline, uint64_t seed,
                          uint32_t cpu, const mr_log *log, mr_error *err) {
    int32_t n = pipeline->n_children > 0 ? pipeline->n_children : 1;
    int64_t samples = 0;
    const mr_dataset_terms terms = {mr_servers_objects(&pipeline->servers), cpu};
    children->list = mr_zalloc((size_t)n, sizeof *children->list);
    if (!children->list) {
        return mr_fail_memory(err, (size_t)n * sizeof *children->list);
    }
    for (int32_t i = 0; i < n; i++) {
        mr_child *child = &children->list[children->n++];
        child->pipeline = pipeline->n_children > 0 ? pipeline->children[i] : pipeline;
        child->seed = seed_of(seed, i);
        child->first_sample = samples;
        child->dataset.number = i;
        child->dataset.of = n;
        MR_TRY(open_child(child, &terms, log, err));
        samples += child->dataset.shape.samples;
    }
    MR_TRY(write_fingerprint(children, err));
    MR_TRY(open_route(children, pipeline, seed, err));
    return open_bucket(children, pipeline, seed, err);
}

/* What the document says of servers holds while sources look for their samples, too. */
mr_status mr_children_open(mr_children *children, const mr_pipeline *pipeline, uint64_t seed,
                           uint32_t cpu, const mr_log *log, mr_error *err) {
    const mr_far_limits limits = mr_servers_limits(&pipeline->servers);
    const mr_far_limits *before = mr_far_limits_hold(&limits);
    mr_status status = open_all(children, pipeline, seed, cpu, log, err);
    mr_far_limits_hold(before);
    return status;
}

mr_status mr_children_open_caches(mr_children *children, const mr_caches_config *config,
                                  const mr_log *log, mr_error *err) {
    for (int32_t i = 0; i < children->n; i++) {
        mr_child *child = &children->list[i];
        MR_TRY(mr_caches_open(&child->caches, child->pipeline, &child->dataset, config, log, err));
    }
    return MR_OK;
}

void mr_children_close(mr_children *children) {
    mr_route_free(&children->route);
    for (int32_t i = 0; i < children->n; i++) {
        mr_child *child = &children->list[i];
        mr_caches_close(&child->caches);
        mr_course_free(child->course);
        mr_selection_free(child->selection);
        mr_free(child->lengths);
        mr_dataset_close(&child->dataset);
    }
    mr_free(children->list);
    mr_free(children->lengths);
    *children = (mr_children){0};
}

/* ---- Questions ---- */
bool mr_children_are_read(const mr_children *children) {
    bool read = false;
    for (int32_t i = 0; i < children->n; i++) {
        read = read || mr_dataset_is_read(&children->list[i].dataset);
    }
    return read;
}

bool mr_children_are_far(const mr_children *children) {
    bool far = false;
    for (int32_t i = 0; i < children->n; i++) {
        far = far || children->list[i].dataset.is_far;
    }
    return far;
}

bool mr_children_have_blocks(const mr_children *children) {
    bool any = false;
    for (int32_t i = 0; i < children->n; i++) {
        any = any || reads_blocks(&children->list[i]);
    }
    return any;
}

static bool keeps_samples(const mr_caches *caches) {
    return caches->n > 0 && caches->last >= 0;
}

bool mr_children_keep_samples(const mr_children *children) {
    bool any = false;
    for (int32_t i = 0; i < children->n; i++) {
        any = any || keeps_samples(&children->list[i].caches);
    }
    return any;
}

int32_t mr_children_n_caches(const mr_children *children) {
    int32_t n = 0;
    for (int32_t i = 0; i < children->n; i++) {
        n += children->list[i].caches.n;
    }
    return n;
}

const mr_child *mr_child_of_op(const mr_children *children, int32_t op) {
    int32_t i = children->n - 1;
    while (i > 0 && children->list[i].pipeline->first_op > op) {
        i--;
    }
    return &children->list[i];
}

const mr_child *mr_child_of_cache(const mr_children *children, int32_t *cache) {
    int32_t i = 0;
    while (*cache >= children->list[i].caches.n) {
        *cache -= children->list[i++].caches.n;
    }
    return &children->list[i];
}

void mr_children_name(const mr_children *children, int64_t sample, char *buffer, size_t size) {
    int32_t i = children->n - 1;
    while (i > 0 && children->list[i].first_sample > sample) {
        i--;
    }
    const mr_child *child = &children->list[i];
    mr_dataset_name(&child->dataset, sample - child->first_sample, buffer, size);
}

/* ---- As an origin ---- */
static mr_answer ask(void *state, mr_load *load) {
    mr_children *children = state;
    mr_caches *caches = &children->list[load->dataset->number].caches;
    return keeps_samples(caches) ? mr_store_origin.ask(caches, load) : MR_ANSWER_NOT_HERE;
}

static void stop(void *state) {
    mr_children *children = state;
    for (int32_t i = 0; i < children->n; i++) {
        mr_store_origin.stop(&children->list[i].caches);
    }
}

static void end(void *state) {
    mr_children *children = state;
    for (int32_t i = 0; i < children->n; i++) {
        mr_store_origin.end(&children->list[i].caches);
    }
}

const mr_origin_class mr_stores_origin = {.name = "store", .ask = ask, .stop = stop, .end = end};
