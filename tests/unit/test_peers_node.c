/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks of one machine see of each other's memory, and what they make of it where it is
 * wrong; without MPI: see peers_rig.h. Rank 1's memory is made here, by the same functions. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "peers_rig.h"
#include "test.h"

enum { COMMON = 1 << 20, TAG_ROOM = 64 };

static peers_rig rig;
static mr_peers one; /* rank 1, as far as it has memory */

static void open_rig(const char *url) {
    mr_common_name ignored;
    rig = (peers_rig){.url = url, .common_of_one = &one.common};
    CHECK(rig_open_data(&rig, ""));
    one = (mr_peers){
        .maps = true,
        .config = {
            .children = &rig.children, .locality = rig.locality, .rank = 1, .world = RIG_WORLD}};
    mr_node_open(&one, &ignored);
    CHECK(one.n_cells > 0);
    CHECK(rig_open_peers(&rig));
}

static void close_rig(void) {
    rig_close_peers(&rig);
    rig_close_data(&rig);
    mr_node_close(&one);
}

/* Rank 1 shows an item. */
static goods *show(int64_t item) {
    goods *g = mr_node_take(&one, RIG_SIZE);
    CHECK(g);
    *g = (goods){.references = 1, .form = RAW, .is_common = true, .size = RIG_SIZE};
    rig_content(item, mr_goods_bytes(g));
    g->hash = mr_hash(mr_goods_bytes(g), RIG_SIZE);
    mr_node_show(&one, item, g);
    return g;
}

/* Item, offset of the next, size, hash, form. */
static uint64_t *tag_of(goods *g) {
    return (uint64_t *)(void *)((char *)g - TAG_ROOM);
}

static bool is_left(const mr_load *load) {
    pthread_mutex_lock(&rig.intake.lock);
    bool left = load->is_answered;
    pthread_mutex_unlock(&rig.intake.lock);
    return left;
}

static bool was_asked(int64_t item) {
    bool asked = false;
    pthread_mutex_lock(&rig.lock);
    for (const rig_message *m = rig.sent.first; m; m = m->next) {
        const int64_t *items = m->body;
        for (size_t i = 0; m->head.kind == ASK && i < m->size / 8; i++) {
            asked = asked || items[i] == item;
        }
    }
    pthread_mutex_unlock(&rig.lock);
    return asked;
}

static void wait_asked(int64_t item) {
    while (!was_asked(item)) {
        rig_nap();
    }
}

static int64_t damaged(void) {
    mr_peers_counts counts;
    mr_peers_counts_get(rig.peers, &counts);
    return counts.damaged;
}

TEST(what_another_rank_shows_is_lent_where_it_lies_and_not_asked_for) {
    open_rig("mpi?linger=0");
    int64_t item = rig_owned_by(&rig, 1, 0), next = rig_owned_by(&rig, 1, item + 1);
    (void)show(item);
    rig_ask(&rig, RIG_FILES);
    const mr_load *load = &rig.loads[item];
    const peer *p = &rig.peers->peers[1];
    const char *bytes = load->bytes[0].data;
    CHECK(mr_load_is_settled(load) && load->lent);
    CHECK(bytes > p->view.data && bytes < p->view.data + p->view.size);
    CHECK_INT(bytes[0], ==, (char)(item + 1));
    wait_asked(next); /* of what is not there yet the owner is asked */
    CHECK(!was_asked(item));
    CHECK_INT(rig.origins[2].found, ==, 1);
    close_rig();
}

/* A file of 8 bytes, sealed, whose page has an index all the same: behind its end. */
static mr_common_name make_small(mr_common *out) {
    mr_common_name name;
    *out = (mr_common){.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), .size = 8};
    CHECK(ftruncate(out->fd, 8) == 0 && fcntl(out->fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    out->data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    CHECK(out->data != MAP_FAILED);
    memcpy(out->data, one.common.data, 16);
    mr_common_tell(out, &name);
    return name;
}

TEST(a_memory_smaller_than_an_index_is_not_looked_into) {
    open_rig("mpi?linger=0");
    mr_common small;
    mr_common_name name = make_small(&small);
    mr_peers *x = rig.peers;
    peer *p = &x->peers[1];
    pthread_mutex_lock(&x->lock);
    const mr_common_view before = p->view;
    p->view = (mr_common_view){NULL, 0};
    mr_node_look(x, 1, &name);
    CHECK(!p->view.data);
    p->view = before;
    pthread_mutex_unlock(&x->lock);
    munmap(small.data, 4096);
    close(small.fd);
    close_rig();
}

static void push(int64_t item) {
    char bytes[RIG_SIZE];
    rig_content(item, bytes);
    rig_say_body(&rig, 1, PUSH, item, RAW, bytes, sizeof bytes);
}

static int64_t parked(void) {
    pthread_mutex_lock(&rig.peers->lock);
    int64_t bytes = rig.peers->peers[1].parked;
    pthread_mutex_unlock(&rig.peers->lock);
    return bytes;
}

/* The owner's window is of what it was not told to have been let go of. */
TEST(what_was_pushed_before_it_was_shown_is_taken_and_not_kept_after) {
    open_rig("mpi?linger=0");
    int64_t item = rig_owned_by(&rig, 1, 0), next = rig_owned_by(&rig, 1, item + 1);
    push(item);
    while (parked() == 0) {
        rig_nap();
    }
    (void)show(item);
    (void)show(next);
    push(next);
    wait_asked(~next);
    CHECK_INT(parked(), ==, RIG_SIZE);
    rig_ask(&rig, (int)item + 1);
    wait_asked(~item);
    CHECK_INT(parked(), ==, 0);
    CHECK(rig.loads[item].lent);
    close_rig();
}

TEST(an_owner_that_has_read_it_says_where_it_lies) {
    open_rig("mpi?linger=0");
    int64_t item = rig_owned_by(&rig, 1, 0), none = rig_owned_by(&rig, 1, item + 1);
    rig_ask(&rig, RIG_FILES);
    wait_asked(item);
    (void)show(item);
    rig_say_word(&rig, 1, THERE, item);
    rig_say_word(&rig, 1, THERE, none); /* which is not true: it is read from its file */
    while (!mr_load_is_settled(&rig.loads[item]) || !is_left(&rig.loads[none])) {
        (void)mr_intake_ask_one(&rig.intake);
        rig_nap();
    }
    CHECK(rig.loads[item].lent);
    close_rig();
}

TEST(a_rank_shows_what_it_keeps_and_sends_it_to_those_who_cannot_see_it) {
    open_rig("mpi?linger=0");
    int64_t own = rig_owned_by(&rig, 0, 0);
    rig_say_body(&rig, 1, ASK, 0, RAW, &own, sizeof own);
    while (!rig_was_sent(&rig, 1, THERE, own)) {
        rig_nap();
    }
    CHECK(mr_node_sees(rig.peers, own, 2)); /* whose memory is ours, in this rig */
    rig_say_word(&rig, 2, BLIND, 0);
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    while (!rig_was_sent(&rig, 2, GIVE, own)) {
        rig_nap();
    }
    mr_peers_foresee(rig.peers, 1, &own, 1);
    CHECK(!mr_peers_pushes_to(rig.peers, 1));
    CHECK(mr_peers_pushes_to(rig.peers, 2));
    close_rig();
}

static size_t promised_to(int32_t rank) {
    pthread_mutex_lock(&rig.peers->lock);
    size_t n = rig.peers->peers[rank].promises.n;
    pthread_mutex_unlock(&rig.peers->lock);
    return n;
}

/* Nobody says that it has taken what it only had to look at. */
TEST(what_is_seen_is_promised_no_longer) {
    open_rig("mpi?linger=0");
    int64_t own = rig_owned_by(&rig, 0, 0);
    atomic_store(&rig.peers->is_partial, true);
    mr_peers_foresee(rig.peers, 1, &own, 1);
    CHECK_INT(promised_to(1), ==, 1); /* it is not here yet */
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    while (!rig_was_sent(&rig, 2, THERE, own)) {
        rig_nap();
    }
    mr_peers_foresee(rig.peers, 1, &own, 1);
    CHECK_INT(promised_to(1), ==, 0);
    mr_peers_foresee(rig.peers, 1, &own, 1);
    CHECK_INT(promised_to(1), ==, 0);
    close_rig();
}

/* What is given back may be another thread's at once. */
TEST(goods_that_were_not_shown_are_not_touched_once_they_are_given_back) {
    open_rig("mpi?linger=0");
    goods *g = mr_node_take(&one, RIG_SIZE);
    *g = (goods){.references = 1, .is_common = true, .size = RIG_SIZE};
    mr_node_drop(&one, g);
    CHECK_INT(g->references, ==, 1);
    CHECK(mr_node_take(&one, RIG_SIZE) == g);
    close_rig();
}

/* Of a rank that is alone. */
static uint64_t cells_with(const char *share) {
    mr_common_name name;
    rig = (peers_rig){0};
    CHECK(rig_open_data(&rig, share));
    mr_peers x = {.maps = true,
                  .config = {.children = &rig.children, .locality = rig.locality, .world = 1}};
    x.config.terms.share = rig.pipeline->share;
    mr_node_open(&x, &name);
    mr_node_close(&x);
    rig_close_data(&rig);
    return x.n_cells;
}

TEST(an_index_is_small_beside_what_may_be_kept) {
    CHECK_INT(cells_with(""), ==, 32);
    CHECK_INT(cells_with("\"memory\": \"50KB\""), ==, 16);
    CHECK_INT(cells_with("\"memory\": \"1KB\""), ==, 8);
}

TEST(who_does_not_map_neither_looks_nor_shows) {
    open_rig("mpi?linger=0&map=0");
    int64_t item = rig_owned_by(&rig, 1, 0), own = rig_owned_by(&rig, 0, 0);
    (void)show(item);
    rig_ask(&rig, RIG_FILES);
    wait_asked(item);
    rig_say_body(&rig, 1, ASK, 0, RAW, &own, sizeof own);
    while (!rig_was_sent(&rig, 1, GIVE, own)) {
        rig_nap();
    }
    close_rig();
}

/* One thing of a tag or of the bytes is wrong. What is found wrong before it is lent is as good as
 * not there, and the owner is asked; bytes that do not fit their hash are read from the file. */
static void check_wrong(int what) {
    open_rig("mpi?linger=0");
    int64_t item = rig_owned_by(&rig, 1, 0);
    goods *g = show(item);
    uint64_t *tag = tag_of(g);
    switch (what) {
    case 0:
        tag[0] = (uint64_t)-1;
        break;
    case 1:
        tag[2] = COMMON * 1024ull * 1024;
        break;
    case 2:
        tag[2] = UINT64_MAX;
        break;
    case 3:
        tag[5] = FORMS;
        break;
    case 4:
        tag[0] = (uint64_t)item + RIG_FILES, tag[1] = (uint64_t)((char *)tag - one.common.data);
        break;
    case 5:
        tag[0] = (uint64_t)item + RIG_FILES, tag[1] = UINT64_MAX - 63;
        break;
    case 6:
        tag[0] = (uint64_t)item + RIG_FILES, tag[1] = (uint64_t)1 << 46; /* beyond all memory */
        break;
    case 7:
        tag[3]++;
        break;
    case 8:
        mr_goods_bytes(g)[RIG_SIZE - 1]++;
        break;
    default:
        tag[2]--;
        break;
    }
    rig_ask(&rig, RIG_FILES);
    bool is_found = what >= 7;
    while (!mr_load_is_settled(&rig.loads[item]) &&
           (is_found ? !is_left(&rig.loads[item]) : !was_asked(item))) {
        rig_nap();
    }
    CHECK(!rig.loads[item].lent);
    CHECK_INT(damaged(), ==, is_found);
    close_rig();
}

TEST(what_is_wrong_in_the_memory_of_another_is_not_taken) {
    for (int what = 0; what < 10; what++) {
        check_wrong(what);
    }
}

/* The index itself. */
static void check_wrong_index(uint64_t magic, uint64_t n_cells) {
    mr_common_name ignored;
    rig = (peers_rig){.url = "mpi?linger=0", .common_of_one = &one.common};
    CHECK(rig_open_data(&rig, ""));
    one = (mr_peers){
        .maps = true,
        .config = {.children = &rig.children, .locality = rig.locality, .world = RIG_WORLD}};
    mr_node_open(&one, &ignored);
    uint64_t *index = (uint64_t *)(void *)one.common.data;
    index[0] ^= magic;
    index[1] = n_cells;
    CHECK(rig_open_peers(&rig));
    while (!rig_was_sent(&rig, 1, BLIND, 0)) {
        rig_nap();
    }
    CHECK(!rig.peers->peers[1].view.data);
    close_rig();
}

TEST(an_index_that_cannot_be_is_not_looked_into) {
    check_wrong_index(1, 64);
    check_wrong_index(0, 0);
    check_wrong_index(0, 63);
    check_wrong_index(0, (uint64_t)1 << 63);
    check_wrong_index(0, (uint64_t)1 << 60);
}

TEST_MAIN()
