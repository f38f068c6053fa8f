/* SPDX-License-Identifier: Apache-2.0 */
/* peers_rig.h - one rank of three, whose link is a list: a test says what the others send, and sees
 * what is sent to them. For tests without MPI, and for the fuzzer. */
#ifndef MR_PEERS_RIG_H
#define MR_PEERS_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "run/read/peers_parts.h"

#ifndef RIG_FILES
#define RIG_FILES 24
#endif
enum { RIG_WORLD = 3, RIG_SIZE = 100 };

typedef struct rig_message {
    struct rig_message *next;
    int32_t peer;
    head head;
    void *body; /* of one that comes: with ROOM before it */
    size_t size;
    void *token;
} rig_message;

typedef struct rig_list {
    rig_message *first, **last;
} rig_list;

typedef struct peers_rig {
    const char *url;                /* (optional) */
    const mr_common *common_of_one; /* (optional) what rank 1 shows in place of what we show */
    char folder[64];
    mr_pipeline *pipeline;
    mr_children children;
    mr_locality *locality;
    mr_tracks tracks;
    mr_peers *peers;
    mr_origin origins[3];
    mr_intake intake;
    mr_load loads[RIG_FILES], *list[RIG_FILES];

    pthread_mutex_t lock;
    rig_list coming, sent; /* what the others say; what they are told */
    atomic_int polls;
    void (*on_come)(void); /* (optional) by the speaker, as a message is handed to it */
} peers_rig;

static peers_rig *rig_of_link; /* links are opened by a table without a context */

/* ---- The link ---- */
static inline void rig_put(rig_list *list, rig_message *m) {
    m->next = NULL;
    *list->last = m;
    list->last = &m->next;
}

static inline rig_message *rig_take(rig_list *list) {
    rig_message *m = list->first;
    if (m) {
        list->first = m->next;
        list->last = list->first ? list->last : &list->first;
    }
    return m;
}

static inline bool rig_link_open(void **link, const mr_link_config *config, char *why) {
    (void)config;
    (void)why;
    *link = rig_of_link;
    return true;
}

static inline bool rig_collect(void *link, const void *own, size_t size, void *all, char *why) {
    const peers_rig *rig = link;
    mr_peers_hello *hellos = all;
    (void)why;
    for (int r = 0; r < RIG_WORLD; r++) {
        memcpy((char *)all + (size_t)r * size, own, size);
    }
    if (rig->common_of_one) {
        mr_common_tell(rig->common_of_one, &hellos[1].common);
    }
    return true;
}

/* The others say something, later. */
static inline void rig_say(peers_rig *r, int32_t from, const head *h, const void *body,
                           size_t size) {
    rig_message *m = malloc(sizeof *m);
    char *memory = size > 0 ? malloc(ROOM + size) : NULL;
    *m = (rig_message){.peer = from, .head = *h, .body = memory ? memory + ROOM : NULL};
    m->size = size;
    if (memory) {
        memcpy(memory + ROOM, body, size);
    }
    pthread_mutex_lock(&r->lock);
    rig_put(&r->coming, m);
    pthread_mutex_unlock(&r->lock);
}

static inline void rig_say_word(peers_rig *r, int32_t from, kind what, int64_t item) {
    const head h = {.magic = MAGIC, .kind = what, .item = item};
    rig_say(r, from, &h, NULL, 0);
}

static inline void rig_say_body(peers_rig *r, int32_t from, kind what, int64_t item, form as,
                                const void *body, size_t size) {
    const mr_hash128 hash = mr_hash(body, size);
    const head h = {
        .magic = MAGIC, .kind = what, .item = item, .hash = {hash.low, hash.high}, .form = as};
    rig_say(r, from, &h, body, size);
}

/* A copy is kept for the test; who leaves is wished well. */
static inline bool rig_send(void *link, const mr_link_message *message, char *why) {
    peers_rig *r = link;
    rig_message *m = malloc(sizeof *m);
    (void)why;
    *m = (rig_message){.peer = message->peer, .size = message->size, .token = message->token};
    memcpy(&m->head, message->head, sizeof m->head);
    m->body = malloc(message->size + 1);
    memcpy(m->body, message->size ? message->body : "", message->size);
    bool leaves = m->head.kind == BYE;
    pthread_mutex_lock(&r->lock);
    rig_put(&r->sent, m);
    pthread_mutex_unlock(&r->lock);
    if (leaves) {
        rig_say_word(r, m->peer, BYE_TOO, 0);
    }
    return true;
}

static inline int32_t rig_poll(void *link, mr_link_event *events, int32_t most, char *why) {
    peers_rig *r = link;
    int32_t n = 0;
    why[0] = '\0';
    pthread_mutex_lock(&r->lock);
    for (rig_message *m = r->sent.first; m && n < most; m = m->next) {
        if (m->token) {
            events[n++] = (mr_link_event){.kind = MR_LINK_GONE, .message = {.token = m->token}};
            m->token = NULL;
        }
    }
    rig_message *m = n < most ? rig_take(&r->coming) : NULL;
    pthread_mutex_unlock(&r->lock);
    if (m) {
        events[n] = (mr_link_event){.kind = MR_LINK_CAME,
                                    .message = {.peer = m->peer, .body = m->body, .size = m->size}};
        memcpy(events[n++].message.head, &m->head, sizeof m->head);
        free(m);
        if (r->on_come) {
            r->on_come();
        }
    }
    atomic_fetch_add(&r->polls, 1);
    return n;
}

static inline bool rig_is_quiet(void *link) {
    peers_rig *r = link;
    bool quiet = true;
    pthread_mutex_lock(&r->lock);
    for (const rig_message *m = r->sent.first; m && quiet; m = m->next) {
        quiet = !m->token;
    }
    pthread_mutex_unlock(&r->lock);
    return quiet;
}

static inline void rig_link_close(void *link, bool broken) {
    (void)link;
    (void)broken;
}

static const mr_link_class rig_link = {.abi = MR_LINK_ABI,
                                       .name = "rig",
                                       .open = rig_link_open,
                                       .collect = rig_collect,
                                       .send = rig_send,
                                       .poll = rig_poll,
                                       .is_quiet = rig_is_quiet,
                                       .close = rig_link_close};

/* ---- What is shared ---- */
static inline void rig_content(int64_t item, char *bytes) {
    memset(bytes, (int)(item + 1), RIG_SIZE);
}

static inline void rig_files(peers_rig *r) {
    char path[128], bytes[RIG_SIZE];
    snprintf(r->folder, sizeof r->folder, "/tmp/millrace-peers-XXXXXX");
    if (!mkdtemp(r->folder)) {
        abort();
    }
    for (int64_t i = 0; i < RIG_FILES; i++) {
        snprintf(path, sizeof path, "%s/%04d.bin", r->folder, (int)i);
        rig_content(i, bytes);
        FILE *file = fopen(path, "wb");
        fwrite(bytes, 1, sizeof bytes, file);
        fclose(file);
    }
}

static inline int64_t rig_item_bytes(void *context, int32_t child, int64_t item) {
    (void)context;
    (void)child;
    (void)item;
    return RIG_SIZE;
}

/* share: of the document, without its braces. False: something is wrong with the rig. */
static inline bool rig_open_data(peers_rig *r, const char *share) {
    char json[512];
    const mr_log silent = {0};
    mr_error err = MR_ERROR_INIT;
    const int64_t items = RIG_FILES;
    rig_files(r);
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\", \"extensions\": []}}, \"ops\": [], "
             "\"batch\": 3, \"share\": {%s}}",
             r->folder, share);
    bool well = mr_pipeline_parse(&r->pipeline, json, strlen(json), NULL, &err) == MR_OK &&
                mr_children_open(&r->children, r->pipeline, 1, 0, &silent, &err) == MR_OK;
    const mr_locality_config config = {
        .terms = well ? r->pipeline->share : (mr_share_terms){0},
        .share = {.schedule = {.world = RIG_WORLD, .batch = 3}},
        .items = &items,
        .n_children = 1,
        .size = rig_item_bytes,
    };
    return well && mr_locality_open(&r->locality, &config, &err) == MR_OK &&
           mr_tracks_init(&r->tracks, 4, 0, 1, 0);
}

/* This rank is number 0. */
static inline bool rig_open_peers(peers_rig *r) {
    mr_error err = MR_ERROR_INIT;
    mr_peers_config config = {.url = r->url ? r->url : "mpi?linger=0&map=0",
                              .children = &r->children,
                              .locality = r->locality,
                              .rank = 0,
                              .world = RIG_WORLD,
                              .foresees = true,
                              .track = mr_tracks_add(&r->tracks, MR_TRACK_READER),
                              .link = &rig_link};
    config.terms.share = r->pipeline->share;
    const mr_intake_config intake = {
        .origins = r->origins, .n_origins = 3, .most_held = 1000, .bytes = 1 << 20, .threads = 1};
    pthread_mutex_init(&r->lock, NULL);
    r->coming.last = &r->coming.first;
    r->sent.last = &r->sent.first;
    rig_of_link = r;
    if (mr_peers_open(&r->peers, &config, &err) < 0) {
        return false;
    }
    r->origins[0] = (mr_origin){.class = &mr_memory_origin, .state = r->peers};
    r->origins[1] = (mr_origin){.class = &mr_peer_origin, .state = r->peers};
    r->origins[2] = (mr_origin){.class = &mr_node_origin, .state = r->peers};
    return mr_intake_init(&r->intake, &intake, &err) == MR_OK;
}

/* Asks for the first n files. */
static inline void rig_ask(peers_rig *r, int n) {
    for (int i = 0; i < n; i++) {
        r->loads[i] = (mr_load){.block.number = i, .dataset = &r->children.list[0].dataset};
        r->list[i] = &r->loads[i];
    }
    if (!mr_intake_plan(&r->intake, r->list, n)) {
        abort();
    }
    while (mr_intake_ask_one(&r->intake)) {
    }
}

static inline void rig_free_list(rig_list *list, size_t room) {
    rig_message *m;
    while ((m = rig_take(list)) != NULL) {
        free(m->body ? (char *)m->body - room : NULL);
        free(m);
    }
}

static inline void rig_close_peers(peers_rig *r) {
    mr_peer_origin.stop(r->peers);
    mr_peer_origin.end(r->peers);
    for (int i = 0; i < RIG_FILES; i++) {
        if (r->loads[i].dataset) {
            mr_intake_empty(&r->intake, &r->loads[i]);
        }
    }
    mr_peers_close(r->peers);
    mr_intake_free(&r->intake);
    rig_free_list(&r->coming, ROOM);
    rig_free_list(&r->sent, 0);
    pthread_mutex_destroy(&r->lock);
}

static inline void rig_close_data(peers_rig *r) {
    char path[128];
    mr_locality_free(r->locality);
    mr_children_close(&r->children);
    mr_tracks_free(&r->tracks);
    mr_pipeline_free(r->pipeline);
    for (int i = 0; i < RIG_FILES; i++) {
        snprintf(path, sizeof path, "%s/%04d.bin", r->folder, i);
        unlink(path);
    }
    rmdir(r->folder);
}

/* Whether a word or goods of that kind went to a rank; each is found once. */
static inline bool rig_was_sent(peers_rig *r, int32_t to, kind what, int64_t item) {
    bool found = false;
    pthread_mutex_lock(&r->lock);
    for (rig_message *m = r->sent.first; m && !found; m = m->next) {
        found = m->peer == to && m->head.kind == (uint32_t)what && m->head.item == item;
        m->head.kind = found ? 0 : m->head.kind;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static inline void rig_nap(void) {
    const struct timespec moment = {0, 200000};
    nanosleep(&moment, NULL);
}

/* The first file that a rank owns. */
static inline int64_t rig_owned_by(const peers_rig *r, int32_t rank, int64_t from) {
    while (mr_locality_owner(r->locality, from) != rank) {
        from++;
    }
    return from;
}

#endif
