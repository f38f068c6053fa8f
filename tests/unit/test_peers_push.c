/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner sends before it is asked for, what the other side makes of it, and whom a rank asks
 * that has the choice; without MPI: see peers_rig.h. */
#define RIG_FILES 600
#include "peers_rig.h"
#include "test.h"

static peers_rig rig;

static void open_rig(const char *share, const char *url) {
    rig = (peers_rig){.url = url};
    CHECK(rig_open_data(&rig, share));
    CHECK(rig_open_peers(&rig));
}

static void close_rig(void) {
    rig_close_peers(&rig);
    rig_close_data(&rig);
}

static void wait_sent(int32_t to, kind what, int64_t item) {
    while (!rig_was_sent(&rig, to, what, item)) {
        rig_nap();
    }
}

static void say_item(int32_t from, int64_t item) {
    rig_say_body(&rig, from, ASK, 0, RAW, &item, sizeof item);
}

/* How often a rank was asked for an item, or told that it was let go of. */
static int count_said(int32_t to, int64_t item) {
    int n = 0;
    pthread_mutex_lock(&rig.lock);
    for (const rig_message *m = rig.sent.first; m; m = m->next) {
        for (size_t i = 0; m->peer == to && m->head.kind == ASK && i < m->size / 8; i++) {
            int64_t said;
            memcpy(&said, (const char *)m->body + i * sizeof said, sizeof said);
            n += said == item;
        }
    }
    pthread_mutex_unlock(&rig.lock);
    return n;
}

static void wait_said(int32_t to, int64_t item, int times) {
    while (count_said(to, item) < times) {
        rig_nap();
    }
}

static void push(int32_t from, int64_t item) {
    char bytes[RIG_SIZE];
    rig_content(item, bytes);
    rig_say_body(&rig, from, PUSH, item, RAW, bytes, sizeof bytes);
}

static bool has_come(int64_t item) {
    pthread_mutex_lock(&rig.peers->lock);
    bool come = mr_items_find(&rig.peers->came, item) != NULL;
    pthread_mutex_unlock(&rig.peers->lock);
    return come;
}

static void wait_come(int64_t item) {
    while (!has_come(item)) {
        rig_nap();
    }
}

/* ---- The owner ---- */
/* Three items of this rank, in its memory: rank 1 has asked for them. */
static void keep_three(int64_t *own) {
    for (int i = 0; i < 3; i++) {
        own[i] = rig_owned_by(&rig, 0, i > 0 ? own[i - 1] + 1 : 0);
        say_item(1, own[i]);
        wait_sent(1, GIVE, own[i]);
    }
}

TEST(what_is_foreseen_is_pushed_and_a_question_for_it_needs_no_answer) {
    int64_t own[3];
    open_rig("", NULL);
    keep_three(own);
    mr_peers_foresee(rig.peers, 2, own, 1);
    wait_sent(2, PUSH, own[0]);
    say_item(2, own[0]); /* has crossed it */
    say_item(2, own[1]);
    wait_sent(2, GIVE, own[1]);
    CHECK(!rig_was_sent(&rig, 2, GIVE, own[0]));
    say_item(2, ~own[0]);
    say_item(2, own[0]); /* once more: in another epoch */
    wait_sent(2, GIVE, own[0]);
    CHECK(!rig_was_sent(&rig, 2, PUSH, own[0]));
    close_rig();
}

TEST(what_is_not_in_memory_or_not_ours_is_not_pushed) {
    int64_t own[3], other[2];
    open_rig("", NULL);
    keep_three(own);
    other[0] = rig_owned_by(&rig, 0, own[2] + 1); /* never read */
    other[1] = rig_owned_by(&rig, 1, 0);
    mr_peers_foresee(rig.peers, 2, other, 2);
    mr_peers_foresee(rig.peers, 2, own, 1);
    wait_sent(2, PUSH, own[0]);
    CHECK(!rig_was_sent(&rig, 2, PUSH, other[0]));
    CHECK(!rig_was_sent(&rig, 2, PUSH, other[1]));
    say_item(2, other[0]);
    wait_sent(2, GIVE, other[0]);
    close_rig();
}

TEST(what_was_asked_for_before_it_was_foreseen_is_not_sent_twice) {
    int64_t own[3];
    open_rig("", NULL);
    keep_three(own);
    mr_peers_foresee(rig.peers, 2, &own[2], 1);
    wait_sent(2, PUSH, own[2]);
    for (int i = 0; i < 2; i++) { /* rank 2 is two epochs ahead */
        say_item(2, own[0]);
        wait_sent(2, GIVE, own[0]);
    }
    const int64_t thrice[] = {own[0], own[0], own[1]};
    mr_peers_foresee(rig.peers, 2, thrice, 3);
    wait_sent(2, PUSH, own[1]);
    CHECK(!rig_was_sent(&rig, 2, PUSH, own[0]));
    mr_peers_foresee(rig.peers, 2, own, 1);
    wait_sent(2, PUSH, own[0]);
    close_rig();
}

TEST(bytes_that_are_pushed_and_not_taken_are_bounded) {
    int64_t own[3];
    open_rig("", "mpi?linger=0&map=0&push=500"); /* 250 for each of two: two of 100 */
    keep_three(own);
    mr_peers_foresee(rig.peers, 2, own, 3);
    wait_sent(2, PUSH, own[0]);
    wait_sent(2, PUSH, own[1]);
    const int64_t again[] = {own[0], own[0]}; /* it has asked once */
    mr_peers_foresee(rig.peers, 1, again, 2); /* has a window of its own */
    wait_sent(1, PUSH, own[0]);
    CHECK(!rig_was_sent(&rig, 2, PUSH, own[2]));
    say_item(2, ~own[2]); /* which was not pushed */
    say_item(2, ~own[0]);
    wait_sent(2, PUSH, own[2]);
    close_rig();
}

TEST(without_a_window_nothing_is_pushed) {
    open_rig("", "mpi?linger=0&map=0&push=0");
    CHECK(!mr_peers_pushes(rig.peers));
    close_rig();
}

TEST(who_insists_is_answered) {
    int64_t own[3];
    open_rig("", NULL);
    keep_three(own);
    mr_peers_foresee(rig.peers, 2, own, 1);
    wait_sent(2, PUSH, own[0]);
    const mr_hash128 hash = mr_hash(own, sizeof *own);
    const head h = {.magic = MAGIC, .kind = ASK, .hash = {hash.low, hash.high}, .insists = 1};
    rig_say(&rig, 2, &h, own, sizeof *own);
    wait_sent(2, GIVE, own[0]);
    close_rig();
}

/* ---- The other side ---- */
TEST(what_was_pushed_is_taken_without_a_question) {
    open_rig("", NULL);
    int64_t item = rig_owned_by(&rig, 1, 0), last = rig_owned_by(&rig, 1, item + 1);
    push(1, item);
    wait_come(item);
    rig_ask(&rig, (int)last + 1);
    wait_said(1, last, 1);
    CHECK(mr_load_is_settled(&rig.loads[item]));
    CHECK_INT(((const char *)rig.loads[item].block.bytes[0].data)[0], ==, (char)(item + 1));
    wait_said(1, ~item, 1);
    CHECK_INT(count_said(1, item), ==, 0);
    mr_peers_counts counts;
    mr_peers_counts_get(rig.peers, &counts);
    CHECK_INT(counts.pushed, ==, 1);
    CHECK_INT(counts.found, ==, 1);
    CHECK_INT(counts.bytes_in, ==, RIG_SIZE);
    close_rig();
}

TEST(what_is_pushed_while_it_is_asked_for_is_the_answer) {
    open_rig("", NULL);
    int64_t item = rig_owned_by(&rig, 1, 0);
    rig_ask(&rig, (int)item + 1);
    wait_said(1, item, 1);
    push(1, item);
    while (!mr_load_is_settled(&rig.loads[item])) {
        rig_nap();
    }
    wait_said(1, ~item, 1);
    CHECK(!has_come(item));
    close_rig();
}

TEST(what_is_damaged_too_much_or_anothers_is_not_kept_and_its_sender_knows) {
    open_rig("", "mpi?linger=0&map=0&push=300"); /* 150 for each of two */
    int64_t item = rig_owned_by(&rig, 1, 0), second = rig_owned_by(&rig, 1, item + 1);
    char bytes[RIG_SIZE];
    rig_content(item, bytes);
    const head wrong = {.magic = MAGIC, .kind = PUSH, .item = item, .hash = {1, 2}};
    rig_say(&rig, 1, &wrong, bytes, sizeof bytes);
    wait_said(1, ~item, 1);
    push(2, item);
    wait_said(2, ~item, 1);
    push(1, -5);
    wait_said(1, ~(int64_t)-5, 1);
    push(1, (int64_t)1 << 60);
    wait_said(1, ~((int64_t)1 << 60), 1);
    CHECK(!has_come(item));
    push(1, item);
    wait_come(item);
    push(1, second); /* beyond the window */
    wait_said(1, ~second, 1);
    push(1, item); /* is here already */
    wait_said(1, ~item, 2);
    CHECK(has_come(item) && !has_come(second));
    mr_peers_counts counts;
    mr_peers_counts_get(rig.peers, &counts);
    CHECK_INT(counts.damaged, ==, 1);
    CHECK_INT(counts.bytes_in, ==, RIG_SIZE);
    close_rig();
}

/* ---- Whom to ask ---- */
/* Asks for all items whose copies are rank 1's and rank 2's, in that order. */
static int ask_copied(void) {
    int n = 0;
    for (int64_t i = 0; i < RIG_FILES; i++) {
        if (mr_locality_copy(rig.locality, i, 0) == 1 &&
            mr_locality_copy(rig.locality, i, 1) == 2) {
            rig.loads[n] = (mr_load){.block.number = i, .dataset = &rig.children.list[0].dataset};
            rig.list[n] = &rig.loads[n];
            n++;
        }
    }
    CHECK(mr_intake_plan(&rig.intake, rig.list, n));
    while (mr_intake_ask_one(&rig.intake)) {
    }
    return n;
}

/* False: so slow that silence made it ask elsewhere, too. */
static bool count_open(int64_t open[3]) {
    pthread_mutex_lock(&rig.peers->lock);
    for (int r = 0; r < RIG_WORLD; r++) {
        open[r] = rig.peers->peers[r].open;
    }
    bool is_first = rig.peers->counts.again == 0;
    pthread_mutex_unlock(&rig.peers->lock);
    return is_first;
}

TEST(a_copy_is_asked_for_where_the_owner_owes_much_more) {
    int64_t open[3];
    int n;
    for (bool known = false; !known; close_rig()) {
        open_rig("\"replicas\": 2", NULL);
        n = ask_copied();
        known = count_open(open);
    }
    CHECK_INT(n, >, 70);
    CHECK_INT(open[1] + open[2], ==, n);
    CHECK_INT(open[2], ==, (n - 65 + 1) / 2); /* in turns, from where rank 1 owes 65 more */
}

TEST_MAIN()
