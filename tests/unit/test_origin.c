/* SPDX-License-Identifier: Apache-2.0 */
/* Loads on their way through origins: one that remembers what it was offered and lends it, one that
 * answers later, in another order and from a thread of its own, and the files. */
#include "fixture.h"
#include "run/read/readahead.h"
#include "test.h"

#include <pthread.h>

enum { FILES = 60, WORKERS = 4, IN_FLIGHT = 3 };
#define SIZE INT64_C(100)

/* ---- An origin that keeps ---- */
typedef struct memory {
    char *kept[FILES];
    pthread_mutex_t lock;
    int lent;
} memory;

static mr_answer memory_ask(void *state, mr_load *load) {
    memory *own = state;
    pthread_mutex_lock(&own->lock);
    char *kept = own->kept[load->block.number];
    own->lent += kept != NULL;
    pthread_mutex_unlock(&own->lock);
    if (!kept) {
        return MR_ANSWER_NOT_HERE;
    }
    load->bytes[0] = (mr_bytes){kept, SIZE};
    load->lent = true;
    return MR_ANSWER_HERE;
}

static void memory_release(void *state, mr_load *load) {
    memory *own = state;
    (void)load;
    pthread_mutex_lock(&own->lock);
    own->lent--;
    pthread_mutex_unlock(&own->lock);
}

static void memory_offer(void *state, const mr_load *load) {
    memory *own = state;
    pthread_mutex_lock(&own->lock);
    char **kept = &own->kept[load->block.number];
    CHECK(!*kept);
    CHECK_INT(load->bytes[0].size, ==, SIZE);
    *kept = malloc(SIZE);
    memcpy(*kept, load->bytes[0].data, SIZE);
    pthread_mutex_unlock(&own->lock);
}

static const mr_origin_class memory_class = {
    .name = "memory", .ask = memory_ask, .release = memory_release, .offer = memory_offer};

/* ---- An origin that answers later: of every three loads one it has, one it has not, and the third
 * it has too unless it is the bad one ---- */
typedef struct peer {
    pthread_mutex_t lock;
    pthread_cond_t more;
    mr_load *open[FILES];
    int n_open;
    int64_t bad;
    bool stopped, silent, in_order;
    pthread_t thread;
} peer;

static void content_of(int64_t file, char *out) {
    for (int i = 0; i < SIZE; i++) {
        out[i] = (char)(file * 7 + i);
    }
}

static mr_answer decide(const peer *own, mr_load *load, bool stopped) {
    mr_error err = MR_ERROR_INIT;
    int64_t file = load->block.number;
    if (file == own->bad) {
        mr_load_fail(load, mr_fail(&err, MR_E_CORRUPT, "a bad object"), &err);
        return MR_ANSWER_FAILED;
    }
    if (stopped || file % 3 == 1 || !mr_load_reserve(load, SIZE, true)) {
        return MR_ANSWER_NOT_HERE;
    }
    content_of(file, load->buffer);
    load->one = (mr_bytes){load->buffer, SIZE};
    return MR_ANSWER_HERE;
}

/* Where memory need not be waited for, the second before the first: answers come in another order
 * than questions. */
static void *peer_main(void *context) {
    peer *own = context;
    pthread_mutex_lock(&own->lock);
    while (!own->stopped || own->n_open > 0) {
        if (own->n_open == 0 || (own->silent && !own->stopped)) {
            pthread_cond_wait(&own->more, &own->lock);
            continue;
        }
        int at = own->n_open > 1 && !own->in_order ? 1 : 0;
        mr_load *load = own->open[at];
        memmove(&own->open[at], &own->open[at + 1],
                (size_t)(own->n_open - at - 1) * sizeof(mr_load *));
        own->n_open--;
        bool stopped = own->stopped;
        pthread_mutex_unlock(&own->lock);
        mr_load_answer(load, decide(own, load, stopped));
        pthread_mutex_lock(&own->lock);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static mr_answer peer_ask(void *state, mr_load *load) {
    peer *own = state;
    pthread_mutex_lock(&own->lock);
    mr_answer answer = own->stopped ? MR_ANSWER_NOT_HERE : MR_ANSWER_LATER;
    if (answer == MR_ANSWER_LATER) {
        own->open[own->n_open++] = load;
    }
    pthread_cond_signal(&own->more);
    pthread_mutex_unlock(&own->lock);
    return answer;
}

static void peer_stop(void *state) {
    peer *own = state;
    pthread_mutex_lock(&own->lock);
    own->stopped = true;
    pthread_cond_signal(&own->more);
    pthread_mutex_unlock(&own->lock);
}

static void peer_end(void *state) {
    peer *own = state;
    if (own->thread) {
        pthread_join(own->thread, NULL);
        own->thread = 0;
    }
}

static const mr_origin_class peer_class = {
    .name = "peer", .ask = peer_ask, .stop = peer_stop, .end = peer_end};

/* ---- A run of loads ---- */
typedef struct rig {
    char *folder;
    mr_pipeline *pipeline;
    mr_dataset dataset;
    mr_tracks tracks;
    mr_track *waiting; /* of whoever waits: nobody reads it */
    mr_origin origins[2];
    peer peer;
    memory memory;
    mr_readahead *readahead;
    mr_load loads[FILES], *list[FILES];
    atomic_int next, wrong, failed;
} rig;

static void rig_open(rig *r, mr_io_kind io, int64_t allowance, int64_t held) {
    char json[256];
    mr_error err = MR_ERROR_INIT;
    const mr_log silent = {0};
    mr_readahead_config config = {
        .intake = {.origins = r->origins,
                   .n_origins = 2,
                   .most_held = held,
                   .bytes = allowance,
                   .idle_bytes = 1000,
                   .threads = WORKERS},
        .in_flight = IN_FLIGHT,
        .io = io,
        .tracks = &r->tracks,
    };
    snprintf(json, sizeof json, "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"shuffle\": false}",
             r->folder);
    r->pipeline = fixture_pipeline(json);
    CHECK_INT(mr_dataset_open(&r->dataset, r->pipeline, &(mr_dataset_terms){"", 0}, &silent, &err),
              ==, MR_OK);
    r->origins[0].class = &memory_class;
    r->origins[0].state = &r->memory;
    r->origins[1].class = &peer_class;
    r->origins[1].state = &r->peer;
    pthread_mutex_init(&r->memory.lock, NULL);
    pthread_mutex_init(&r->peer.lock, NULL);
    pthread_cond_init(&r->peer.more, NULL);
    pthread_create(&r->peer.thread, NULL, peer_main, &r->peer);
    CHECK(mr_tracks_init(&r->tracks, 9, 0, 1, 0));
    r->waiting = mr_tracks_add(&r->tracks, MR_TRACK_WORKER);
    CHECK_INT(mr_readahead_open(&r->readahead, &config, &err), ==, MR_OK);
}

static void rig_plan(rig *r) {
    for (int i = 0; i < FILES; i++) {
        r->loads[i] = (mr_load){.block.number = i, .dataset = &r->dataset};
        r->list[i] = &r->loads[i];
    }
    CHECK(mr_intake_plan(mr_readahead_intake(r->readahead), r->list, FILES));
}

static void *rig_worker(void *context) {
    rig *r = context;
    mr_intake *intake = mr_readahead_intake(r->readahead);
    char expected[SIZE];
    for (int i = r->next++; i < FILES; i = r->next++) {
        mr_load *load = &r->loads[i];
        mr_error err = MR_ERROR_INIT;
        content_of(i, expected);
        const mr_waiter waiter = {.track = r->waiting};
        if (mr_intake_await(intake, load, &waiter, &err) < 0) {
            r->failed++;
        } else if (load->block.bytes[0].size != SIZE ||
                   memcmp(load->block.bytes[0].data, expected, SIZE) != 0) {
            r->wrong++;
        }
        if (mr_load_is_settled(load)) {
            mr_intake_let_go(intake, load);
        }
    }
    return NULL;
}

static void rig_work(rig *r) {
    pthread_t threads[WORKERS];
    r->next = 0;
    for (int i = 0; i < WORKERS; i++) {
        pthread_create(&threads[i], NULL, rig_worker, r);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void rig_close(rig *r) {
    mr_readahead_end(r->readahead);
    for (int i = 0; i < FILES; i++) {
        mr_intake_empty(mr_readahead_intake(r->readahead), &r->loads[i]);
        free(r->memory.kept[i]);
        r->memory.kept[i] = NULL;
    }
    CHECK_INT(r->memory.lent, ==, 0);
    mr_readahead_close(r->readahead);
    mr_tracks_free(&r->tracks);
    mr_dataset_close(&r->dataset);
    mr_pipeline_free(r->pipeline);
}

static char *write_files(void) {
    char *folder = fixture_folder(), name[32], bytes[SIZE];
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "%03d.jpg", i);
        content_of(i, bytes);
        fixture_write(folder, name, bytes, SIZE);
    }
    return folder;
}

static void check_counts(rig *r, int64_t bad) {
    int64_t from_peer = FILES - FILES / 3 - (bad >= 0 ? 1 : 0);
    CHECK_INT(r->failed, ==, bad >= 0 ? 1 : 0);
    CHECK_INT(r->origins[0].found, ==, 0);
    CHECK_INT(r->origins[1].asked, ==, FILES);
    CHECK_INT(r->origins[1].found, ==, from_peer);
    CHECK_INT(r->origins[1].bytes, ==, from_peer * SIZE);
    CHECK_INT(mr_readahead_intake(r->readahead)->bytes_read, ==, FILES / 3 * SIZE);
}

static void check_once(mr_io_kind io, int64_t allowance, int64_t held, int64_t bad) {
    static rig r;
    r = (rig){.folder = write_files(), .peer = {.bad = bad, .in_order = allowance < FILES * SIZE}};
    rig_open(&r, io, allowance, held);
    rig_plan(&r);
    rig_work(&r);
    check_counts(&r, bad);
    rig_plan(&r); /* now own memory has all but the bad one */
    rig_work(&r);
    CHECK_INT(r.origins[0].found, ==, bad >= 0 ? FILES - 1 : FILES);
    CHECK_INT(mr_readahead_intake(r.readahead)->bytes_read, ==, FILES / 3 * SIZE);
    CHECK_INT(r.wrong, ==, 0);
    rig_close(&r);
    fixture_remove(r.folder);
}

TEST(bytes_come_from_whoever_has_them) {
    check_once(MR_IO_PREAD, 100000, 64, -1);
    check_once(MR_IO_AUTO, 100000, 64, -1);
}

TEST(what_only_a_peer_could_tell_fails_alone) {
    check_once(MR_IO_PREAD, 100000, 64, 30);
    check_once(MR_IO_AUTO, 100000, 64, 30);
}

TEST(nothing_waits_in_a_circle_for_memory) {
    check_once(MR_IO_PREAD, 2 * SIZE, 64, -1);
    check_once(MR_IO_AUTO, 2 * SIZE, 64, -1);
    check_once(MR_IO_PREAD, SIZE / 2, 16, -1);
    check_once(MR_IO_AUTO, SIZE / 2, 16, -1);
}

TEST(a_run_ends_with_questions_open) {
    for (int io = MR_IO_AUTO; io <= MR_IO_PREAD; io += MR_IO_PREAD) {
        static rig r;
        r = (rig){.folder = write_files(), .peer = {.bad = -1, .silent = true}};
        rig_open(&r, (mr_io_kind)io, 100000, 64);
        rig_plan(&r);
        pthread_t worker;
        pthread_create(&worker, NULL, rig_worker, &r);
        usleep(2000);
        mr_readahead_stop(r.readahead);
        pthread_join(worker, NULL);
        /* What is read once the peer answers, because the run ends, was begun as it ended. */
        CHECK_INT(r.failed, >=, FILES - IN_FLIGHT);
        rig_close(&r);
        fixture_remove(r.folder);
    }
}

TEST_MAIN()
