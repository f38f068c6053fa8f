/* SPDX-License-Identifier: Apache-2.0 */
/* Objects behind other origins, which answer late and in another order than they were asked: with
 * memory for one object alone nothing may wait in a circle, and each origin is asked by one thread.
 */
#include "far_rig.h"
#include "fixture.h"
#include "run/child.h"
#include "run/read/far_origin.h"
#include "run/read/readahead.h"
#include "test.h"

#include <pthread.h>

enum { OBJECTS = 40, SIZE = 100, WORKERS = 3 };

/* ---- An origin that has nothing: of every third it says so at once, of others later, of the
 * newest question first ---- */
typedef struct late {
    pthread_mutex_t lock;
    pthread_cond_t more;
    mr_load *open[OBJECTS];
    int n_open, asked;
    bool stopped;
    pthread_t thread;
} late;

/* Waits until all are asked: so all that can come in another order does. */
static void *late_main(void *context) {
    late *own = context;
    pthread_mutex_lock(&own->lock);
    while (!own->stopped || own->n_open > 0) {
        if (own->n_open == 0 || (own->asked < OBJECTS && !own->stopped)) {
            pthread_cond_wait(&own->more, &own->lock);
            continue;
        }
        mr_load *load = own->open[--own->n_open];
        pthread_mutex_unlock(&own->lock);
        mr_load_answer(load, MR_ANSWER_NOT_HERE);
        pthread_mutex_lock(&own->lock);
    }
    pthread_mutex_unlock(&own->lock);
    return NULL;
}

static mr_answer late_ask(void *state, mr_load *load) {
    late *own = state;
    pthread_mutex_lock(&own->lock);
    bool at_once = own->stopped || load->block.number % 3 == 1;
    own->asked++;
    if (!at_once) {
        own->open[own->n_open++] = load;
    }
    pthread_cond_signal(&own->more);
    pthread_mutex_unlock(&own->lock);
    return at_once ? MR_ANSWER_NOT_HERE : MR_ANSWER_LATER;
}

static void late_stop(void *state) {
    late *own = state;
    pthread_mutex_lock(&own->lock);
    own->stopped = true;
    pthread_cond_signal(&own->more);
    pthread_mutex_unlock(&own->lock);
}

static void late_end(void *state) {
    late *own = state;
    if (own->thread) {
        pthread_join(own->thread, NULL);
        own->thread = 0;
    }
}

static const mr_origin_class late_class = {
    .name = "late", .ask = late_ask, .stop = late_stop, .end = late_end};

/* ---- One that has nothing, and looks who asks ---- */
typedef struct witness {
    pthread_t who;
    int asked;
    bool others;
} witness;

static mr_answer witness_ask(void *state, mr_load *load) {
    witness *own = state;
    (void)load;
    own->others = own->others || (own->asked > 0 && !pthread_equal(own->who, pthread_self()));
    own->who = pthread_self();
    own->asked++;
    return MR_ANSWER_NOT_HERE;
}

static const mr_origin_class witness_class = {.name = "witness", .ask = witness_ask};

/* ---- A run ---- */
typedef struct rig {
    far_nginx server;
    mr_pipeline *pipeline;
    mr_children children;
    mr_tracks tracks;
    mr_track *waiting; /* of whoever waits: nobody reads it */
    mr_far_origin *far;
    mr_origin origins[3];
    late late;
    witness witness;
    mr_readahead *readahead;
    mr_load loads[OBJECTS], *list[OBJECTS];
    atomic_int next, wrong, failed;
} rig;

static void content_of(int64_t i, char *out) {
    for (int k = 0; k < SIZE; k++) {
        out[k] = (char)(i * 7 + k);
    }
}

static void put_objects(rig *r) {
    char path[160], bytes[SIZE];
    far_path(path, sizeof path, &r->server, "list");
    FILE *list = fopen(path, "w");
    for (int i = 0; list && i < OBJECTS; i++) {
        char name[32], folder[128];
        snprintf(name, sizeof name, "%03d.jpg", i);
        far_path(folder, sizeof folder, &r->server, "www");
        content_of(i, bytes);
        fixture_write(folder, name, bytes, SIZE);
        fprintf(list, "http://127.0.0.1:%d/%s\t0\n", r->server.port, name);
    }
    if (list) {
        fclose(list);
    }
}

static void open_data(rig *r) {
    char path[160], json[256];
    mr_error err = MR_ERROR_INIT;
    const mr_log silent = {0};
    far_path(path, sizeof path, &r->server, "list");
    snprintf(json, sizeof json, "{\"source\": {\"files\": {\"list\": \"%s\"}}, \"shuffle\": false}",
             path);
    r->pipeline = fixture_pipeline(json);
    CHECK_INT(mr_children_open(&r->children, r->pipeline, 1, 0, &silent, &err), ==, MR_OK);
    CHECK(mr_tracks_init(&r->tracks, 9, 0, 1, 0));
    r->waiting = mr_tracks_add(&r->tracks, MR_TRACK_WORKER);
    const mr_far_limits limits = {0};
    CHECK_INT(mr_far_origin_open(&r->far, &limits, &r->tracks, &err), ==, MR_OK);
}

static void open_readers(rig *r, mr_io_kind io) {
    mr_error err = MR_ERROR_INIT;
    const mr_readahead_config config = {
        .intake = {.origins = r->origins,
                   .n_origins = 3,
                   .most_held = 2 * OBJECTS,
                   .bytes = SIZE,
                   .idle_bytes = 0,
                   .threads = WORKERS},
        .in_flight = 2,
        .io = io,
        .tracks = &r->tracks,
    };
    r->origins[0] = (mr_origin){.class = &late_class, .state = &r->late};
    r->origins[1] = (mr_origin){.class = &witness_class, .state = &r->witness};
    r->origins[2] = (mr_origin){.class = &mr_object_origin, .state = r->far};
    pthread_mutex_init(&r->late.lock, NULL);
    pthread_cond_init(&r->late.more, NULL);
    pthread_create(&r->late.thread, NULL, late_main, &r->late);
    CHECK_INT(mr_readahead_open(&r->readahead, &config, &err), ==, MR_OK);
}

static void *work(void *context) {
    rig *r = context;
    mr_intake *intake = mr_readahead_intake(r->readahead);
    char expected[SIZE];
    for (int i = r->next++; i < OBJECTS; i = r->next++) {
        mr_error err = MR_ERROR_INIT;
        mr_load *load = &r->loads[i];
        content_of(i, expected);
        const mr_waiter waiter = {.track = r->waiting};
        if (mr_intake_await(intake, load, &waiter, &err) < 0) {
            r->failed++;
        } else {
            r->wrong += load->block.bytes[0].size != SIZE ||
                        memcmp(load->block.bytes[0].data, expected, SIZE) != 0;
        }
        if (mr_load_is_settled(load)) {
            mr_intake_let_go(intake, load);
        }
    }
    return NULL;
}

static void run_all(rig *r) {
    pthread_t threads[WORKERS];
    for (int i = 0; i < OBJECTS; i++) {
        r->loads[i] = (mr_load){.block.number = i, .dataset = &r->children.list[0].dataset};
        r->list[i] = &r->loads[i];
    }
    CHECK(mr_intake_plan(mr_readahead_intake(r->readahead), r->list, OBJECTS));
    for (int i = 0; i < WORKERS; i++) {
        pthread_create(&threads[i], NULL, work, r);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void close_all(rig *r) {
    mr_readahead_end(r->readahead);
    for (int i = 0; i < OBJECTS; i++) {
        mr_intake_empty(mr_readahead_intake(r->readahead), &r->loads[i]);
    }
    mr_readahead_close(r->readahead);
    mr_far_origin_close(r->far);
    mr_tracks_free(&r->tracks);
    mr_children_close(&r->children);
    mr_pipeline_free(r->pipeline);
    far_nginx_end(&r->server);
    fixture_remove(r->server.folder);
}

static void check_with(mr_io_kind io) {
    static rig r;
    r = (rig){.next = 0};
    far_nginx_begin(&r.server);
    put_objects(&r);
    open_data(&r);
    open_readers(&r, io);
    run_all(&r);
    CHECK(r.failed == 0 && r.wrong == 0);
    CHECK_INT(r.witness.asked, ==, OBJECTS);
    CHECK(!r.witness.others);
    CHECK_INT(r.origins[2].found, ==, OBJECTS);
    close_all(&r);
}

TEST(what_comes_late_and_in_another_order_waits_in_no_circle) {
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    check_with(MR_IO_PREAD);
    check_with(MR_IO_AUTO);
}

TEST_MAIN()
