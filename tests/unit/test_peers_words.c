/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says to others and makes of what they say, without MPI: see peers_rig.h. */
#include <dlfcn.h>

#include "peers_rig.h"
#include "test.h"

/* ---- Memory that is not there ---- */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_FAULTS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_FAULTS 0
#endif
#endif
#ifndef HAS_FAULTS
#define HAS_FAULTS 1
#endif

static _Thread_local bool has_no_memory; /* this thread */
static atomic_bool refuses;              /* the speaker, from the next message on */

#if HAS_FAULTS
extern void *__libc_calloc(size_t count, size_t size);
void *calloc(size_t count, size_t size) {
    return has_no_memory ? NULL : __libc_calloc(count, size);
}
#endif

static void forget_memory(void) {
    has_no_memory = atomic_load(&refuses);
}

/* ---- Tests ---- */
static peers_rig rig;

static void open_rig(const char *share) {
    rig = (peers_rig){0};
    atomic_store(&refuses, false);
    rig.on_come = forget_memory;
    CHECK(rig_open_data(&rig, share));
    CHECK(rig_open_peers(&rig));
}

static void close_rig(void) {
    atomic_store(&refuses, false);
    rig_say_word(&rig, 1, BEAT, 0); /* so that the speaker has memory again */
    rig_close_peers(&rig);
    rig_close_data(&rig);
}

static void wait_sent(int32_t to, kind what, int64_t item) {
    while (!rig_was_sent(&rig, to, what, item)) {
        rig_nap();
    }
}

/* Read by nobody: left to the readers. */
static bool is_left(const mr_load *load) {
    pthread_mutex_lock(&rig.intake.lock);
    bool left = load->is_answered;
    pthread_mutex_unlock(&rig.intake.lock);
    return left;
}

/* Who answers late leaves the next origin to whoever asks. */
static void wait_left(const mr_load *load) {
    while (!is_left(load)) {
        if (!mr_intake_ask_one(&rig.intake)) {
            rig_nap();
        }
    }
}

static void wait_settled(const mr_load *load) {
    while (!mr_load_is_settled(load)) {
        rig_nap();
    }
}

static void give(int32_t from, int64_t item) {
    char bytes[RIG_SIZE];
    rig_content(item, bytes);
    rig_say_body(&rig, from, GIVE, item, RAW, bytes, sizeof bytes);
}

TEST(what_is_asked_for_is_given) {
    open_rig("");
    int64_t own = rig_owned_by(&rig, 0, 0);
    rig_say_body(&rig, 1, ASK, 0, RAW, &own, sizeof own);
    wait_sent(1, GIVE, own);
    close_rig();
}

/* Before a trace is closed, which has what each thread used. */
TEST(a_rank_that_has_ended_knows_what_its_thread_used) {
    rig = (peers_rig){0};
    atomic_store(&refuses, false);
    CHECK(rig_open_data(&rig, ""));
    rig.tracks.ring = 1 << 10;
    CHECK(rig_open_peers(&rig));
    const mr_track *track = rig.peers->config.track;
    mr_peers_end(rig.peers, false);
    CHECK_INT(track->usage.v[MR_COUNT_CPU_NS], >, 0);
    close_rig();
}

TEST(without_memory_for_an_answer_the_answer_is_not_here) {
    if (!HAS_FAULTS) {
        return;
    }
    open_rig("");
    int64_t own = rig_owned_by(&rig, 0, 0);
    rig_say_body(&rig, 1, ASK, 0, RAW, &own, sizeof own);
    wait_sent(1, GIVE, own); /* now it is in memory, and a letter is all that it takes */
    atomic_store(&refuses, true);
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    wait_sent(2, NOT_HERE, -1);
    CHECK(!rig_was_sent(&rig, 2, GIVE, own));
    atomic_store(&refuses, false);
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    wait_sent(2, GIVE, own);
    close_rig();
}

/* Without it the other would say where things lie, for ever. */
TEST(that_a_rank_cannot_see_is_said_when_there_is_memory) {
    if (!HAS_FAULTS) {
        return;
    }
    open_rig("");
    pthread_mutex_lock(&rig.peers->lock);
    has_no_memory = true;
    mr_letters_post_word(rig.peers, 1, BLIND, 0);
    has_no_memory = false;
    pthread_mutex_unlock(&rig.peers->lock);
    wait_sent(1, BLIND, -1);
    close_rig();
}

TEST(who_is_told_that_nothing_is_here_waits_no_longer) {
    open_rig("");
    rig_ask(&rig, RIG_FILES);
    int64_t first = rig_owned_by(&rig, 1, 0), other = rig_owned_by(&rig, 2, 0);
    rig_say_word(&rig, 1, NOT_HERE, -1);
    for (int64_t i = first; i < RIG_FILES; i++) {
        if (mr_locality_owner(rig.locality, i) == 1) {
            wait_left(&rig.loads[i]);
        }
    }
    CHECK(!is_left(&rig.loads[other]) && !mr_load_is_settled(&rig.loads[other]));
    give(2, other);
    wait_settled(&rig.loads[other]);
    CHECK_INT(((const char *)rig.loads[other].block.bytes[0].data)[0], ==, (char)(other + 1));
    give(1, first); /* too late: nobody asks any more */
    close_rig();
}

TEST(what_is_damaged_is_not_taken) {
    open_rig("");
    rig_ask(&rig, RIG_FILES);
    int64_t item = rig_owned_by(&rig, 1, 0), next = rig_owned_by(&rig, 1, item + 1);
    char bytes[RIG_SIZE];
    rig_content(item, bytes);
    const head wrong = {.magic = MAGIC, .kind = GIVE, .item = item, .hash = {1, 2}};
    rig_say(&rig, 1, &wrong, bytes, sizeof bytes);
    wait_left(&rig.loads[item]);
    give(2, next); /* from one that was not asked */
    give(1, next);
    wait_settled(&rig.loads[next]);
    mr_peers_counts counts;
    mr_peers_counts_get(rig.peers, &counts);
    CHECK_INT(counts.damaged, ==, 1);
    CHECK_INT(counts.found, ==, 1);
    close_rig();
}

/* An item whose copies are rank 1's and rank 2's, in that order. */
static int64_t copied_item(void) {
    int64_t item = 0;
    while (mr_locality_copy(rig.locality, item, 0) != 1 ||
           mr_locality_copy(rig.locality, item, 1) != 2) {
        item++;
    }
    return item;
}

static bool was_asked(int32_t rank, int64_t item) {
    bool asked = false;
    pthread_mutex_lock(&rig.lock);
    for (const rig_message *m = rig.sent.first; m; m = m->next) {
        const int64_t *items = m->body;
        for (size_t i = 0; m->peer == rank && m->head.kind == ASK && i < m->size / 8; i++) {
            asked = asked || items[i] == item;
        }
    }
    pthread_mutex_unlock(&rig.lock);
    return asked;
}

TEST(a_copy_is_asked_for_where_the_owner_has_it_not) {
    open_rig("\"replicas\": 2");
    int64_t item = copied_item();
    rig_ask(&rig, RIG_FILES);
    rig_say_word(&rig, 1, NOT_HERE, item);
    while (!was_asked(2, item)) {
        rig_nap();
    }
    CHECK(!is_left(&rig.loads[item]));
    give(2, item);
    wait_settled(&rig.loads[item]);
    close_rig();
}

TEST(a_copy_is_asked_for_where_the_owner_is_silent_or_has_left) {
    open_rig("\"replicas\": 2");
    int64_t item = copied_item();
    rig_ask(&rig, RIG_FILES);
    while (!was_asked(2, item)) { /* rank 1 says nothing */
        rig_nap();
    }
    rig_say_word(&rig, 2, NOT_HERE, item);
    rig_say_word(&rig, 1, BYE, 0);
    wait_left(&rig.loads[item]); /* nobody is left to ask */
    close_rig();
}

TEST(a_rank_with_a_copy_keeps_it_and_gives_it) {
    open_rig("\"replicas\": 2");
    int64_t item = 0;
    while (mr_locality_copy(rig.locality, item, 0) != 1 ||
           mr_locality_copy(rig.locality, item, 1) != 0) {
        item++;
    }
    rig_say_body(&rig, 2, ASK, 0, RAW, &item, sizeof item);
    wait_sent(2, NOT_HERE, item); /* only an owner reads */
    rig_ask(&rig, RIG_FILES);
    give(1, item);
    wait_settled(&rig.loads[item]);
    rig_say_body(&rig, 2, ASK, 0, RAW, &item, sizeof item);
    wait_sent(2, GIVE, item);
    close_rig();
}

TEST(an_owner_keeps_the_smaller_and_nothing_of_others) {
    open_rig("");
    int64_t own = rig_owned_by(&rig, 0, 0), other = rig_owned_by(&rig, 1, 0);
    char record[RIG_SIZE] = {7};
    rig_say_body(&rig, 1, ASK, 0, RAW, &own, sizeof own);
    wait_sent(1, GIVE, own);
    rig_say_body(&rig, 2, KEEP, own, RECORD, record, sizeof record); /* not smaller */
    rig_say_body(&rig, 2, KEEP, own, RAW, record, 10);               /* no record */
    rig_say_body(&rig, 2, KEEP, other, RECORD, record, 10);
    rig_say_body(&rig, 2, KEEP, -1, RECORD, record, 10);
    rig_say_body(&rig, 2, KEEP, INT64_MAX, RECORD, record, 10);
    rig_say_word(&rig, 2, ASK, 0);
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    wait_sent(2, GIVE, own);
    mr_peers_counts counts;
    mr_peers_counts_get(rig.peers, &counts);
    CHECK_INT(counts.bytes_kept, ==, RIG_SIZE);
    rig_say_body(&rig, 2, KEEP, own, RECORD, record, 10);
    rig_say_body(&rig, 2, ASK, 0, RAW, &own, sizeof own);
    wait_sent(2, GIVE, own);
    mr_peers_counts_get(rig.peers, &counts);
    CHECK_INT(counts.bytes_kept, ==, 10);
    CHECK_INT(counts.kept, ==, 1);
    close_rig();
}

TEST(who_waits_long_says_for_whom) {
    open_rig("");
    char text[512] = "";
    rig_ask(&rig, RIG_FILES);
    while (!mr_peers_trouble(rig.peers, text, sizeof text)) { /* nobody answers */
        rig_nap();
    }
    CHECK_HAS(text, "rank 0 has waited ");
    CHECK_HAS(text, " items of rank ");
    CHECK_HAS(text, "which was last heard of ");
    CHECK(!mr_peers_trouble(rig.peers, text, sizeof text)); /* it was said */
    close_rig();
}

TEST_MAIN()
