/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds a rank with what other ranks might say: messages of any kind, length and content, with
 * checksums that are right or not, while it waits for files of theirs. Whatever comes, all that
 * waits is answered in the end, and bytes are taken only as they were sent.
 *
 * A message of the input: rank, kind, what is right about it, item, form, length, then its bytes.
 * Two kinds are none: the plan says what a rank will ask for (the bytes are items), and this rank
 * asks for more of its own. So pushes come before it is asked for what they bring, and after. */
#include "../tests/peers_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

enum { FORESEE = THERE + 1, ASK_MORE, KINDS };
enum { HASH_IS_RIGHT = 1, MAGIC_IS_WRONG = 2, ITEM_IS_LARGE = 4, BEYOND = 8, MOST = 4096 };

typedef struct given {
    int64_t item;
    size_t size;
    mr_hash128 hash;
} given;

static given gifts[MOST];
static int n_gifts, n_asked;

static void ask_until(peers_rig *r, int n) {
    int first = n_asked;
    n_asked = n < RIG_FILES ? n : RIG_FILES;
    for (int i = first; i < n_asked; i++) {
        r->loads[i] = (mr_load){.block.number = i, .dataset = &r->children.list[0].dataset};
        r->list[i] = &r->loads[i];
    }
    want(mr_intake_plan(&r->intake, r->list + first, n_asked - first));
    while (mr_intake_ask_one(&r->intake)) {
    }
}

/* Items beyond those that there are are the plan's own, so none are. */
static void foresee(peers_rig *r, int32_t rank, const uint8_t *bytes, size_t n) {
    int64_t items[256];
    for (size_t i = 0; i < n && i < 256; i++) {
        items[i] = bytes[i] % RIG_FILES;
    }
    mr_peers_foresee(r->peers, rank, items, (int64_t)(n < 256 ? n : 256));
}

static void note_gift(const head *h, const uint8_t *body, size_t size) {
    const mr_hash128 hash = mr_hash(body, size);
    bool is_whole = h->hash[0] == hash.low && h->hash[1] == hash.high;
    if ((h->kind == GIVE || h->kind == PUSH) && is_whole && n_gifts < MOST) {
        gifts[n_gifts++] = (given){h->item, size, hash};
    }
}

/* What a load has been given is what its file has, or something that was sent whole. */
static void check_load(const mr_load *load) {
    if (!mr_load_is_settled(load) || atomic_load(&load->status) < 0 || !load->lent) {
        return;
    }
    char own[RIG_SIZE];
    rig_content(load->block.number, own);
    const mr_bytes *bytes = &load->bytes[0];
    bool is_known = bytes->size == RIG_SIZE && memcmp(bytes->data, own, RIG_SIZE) == 0;
    const mr_hash128 hash = mr_hash(bytes->data, bytes->size);
    for (int i = 0; !is_known && i < n_gifts; i++) {
        is_known = gifts[i].item == load->block.number && gifts[i].size == bytes->size &&
                   gifts[i].hash.low == hash.low && gifts[i].hash.high == hash.high;
    }
    want(is_known);
}

static const uint8_t *say_one(peers_rig *r, const uint8_t *at, const uint8_t *end) {
    enum { HEAD = 6 };
    if (end - at < HEAD) {
        return end;
    }
    size_t size = (size_t)at[5] * ((at[2] & BEYOND) ? 32 : 1);
    int32_t from = 1 + at[0] % (RIG_WORLD - 1);
    head h = {.magic = MAGIC, .kind = at[1] % KINDS, .item = (int8_t)at[3], .form = at[4] % 4};
    const uint8_t *body = at + HEAD;
    size = size < (size_t)(end - body) ? size : (size_t)(end - body);
    h.magic += (at[2] & MAGIC_IS_WRONG) ? 1 : 0;
    h.item = (at[2] & ITEM_IS_LARGE) ? h.item * ((int64_t)1 << 40) : h.item;
    if (at[2] & HASH_IS_RIGHT) {
        const mr_hash128 hash = mr_hash(body, size);
        h.hash[0] = hash.low;
        h.hash[1] = hash.high;
    }
    if (h.kind == FORESEE) {
        foresee(r, from, body, size);
    } else if (h.kind == ASK_MORE) {
        ask_until(r, n_asked + 1 + at[3] % 4);
    } else {
        note_gift(&h, body, size);
        rig_say(r, from, &h, body, size);
    }
    return body + size;
}

static bool is_heard(peers_rig *r) {
    pthread_mutex_lock(&r->lock);
    bool empty = !r->coming.first;
    pthread_mutex_unlock(&r->lock);
    return empty;
}

static void play(peers_rig *r, const uint8_t *data, size_t size) {
    n_gifts = n_asked = 0;
    ask_until(r, RIG_FILES / 2);
    for (const uint8_t *at = data; at < data + size;) {
        at = say_one(r, at, data + size);
    }
    ask_until(r, RIG_FILES);
    while (!is_heard(r)) {
        rig_nap();
    }
    int polls = atomic_load(&r->polls);
    while (atomic_load(&r->polls) < polls + 2) { /* what came last was taken */
        rig_nap();
    }
}

static void run(peers_rig r, const char *url, const uint8_t *data, size_t size) {
    r.url = url;
    want(mr_tracks_init(&r.tracks, 4, 0, 1, 0) && rig_open_peers(&r));
    play(&r, data, size);
    mr_peer_origin.stop(r.peers);
    mr_peer_origin.end(r.peers);
    while (mr_intake_ask_one(&r.intake)) { /* what memory did not have, of the peers */
    }
    for (int i = 0; i < RIG_FILES; i++) {
        want(mr_load_is_settled(&r.loads[i]) || r.loads[i].is_answered);
        check_load(&r.loads[i]);
    }
    rig_close_peers(&r);
    mr_tracks_free(&r.tracks);
}

/* The window is so small that it is met, too. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static peers_rig data_of_all; /* files and plan stay */
    static bool is_open;
    if (!is_open) {
        want(rig_open_data(&data_of_all, "\"replicas\": 2"));
        is_open = true;
    }
    run(data_of_all, "mpi?linger=0&push=500&map=0", data, size);
    run(data_of_all, "mpi?linger=0&push=500", data, size);
    return 0;
}
