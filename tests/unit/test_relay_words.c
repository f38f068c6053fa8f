/* SPDX-License-Identifier: Apache-2.0 */
/* What a relay makes of letters that no rank of ours would send. The other rank is a link that says
 * what a test tells it to. */
#include <millrace/millrace.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/hash.h"
#include "run/stream/lent.h"
#include "run/stream/relay_parts.h"
#include "test.h"

enum { MOST = 1024 };

/* The other rank, and the way to it. */
static struct {
    pthread_mutex_t lock;
    mr_link_event events[MOST];
    int n;
    int64_t number; /* of its next letter */
    mr_relay_bytes kept;
    int64_t kept_id;
    int64_t told, heard;   /* bytes of records that it got; that it was told are taken in */
    bool refuses;          /* to send letters that have a body */
    mr_link_message stuck; /* that was refused, and is under way all the same */
} other = {.lock = PTHREAD_MUTEX_INITIALIZER};

static mr_relay *relay;
static mr_error err;

static bool add_event(mr_link_event_kind kind, const mr_link_message *m) {
    bool fits = other.n < MOST;
    if (fits) {
        other.events[other.n++] = (mr_link_event){.kind = kind, .message = *m};
    }
    CHECK(fits);
    return fits;
}

/* With the lock held. */
static void say_as(int64_t number, relay_kind kind, int64_t id, const void *body, size_t size) {
    const mr_hash128 hash = mr_hash(body, size);
    const relay_head head = {.magic = RELAY_MAGIC,
                             .kind = (uint32_t)kind,
                             .number = number,
                             .id = id,
                             .taken = INT64_MAX,
                             .hash = {hash.low, hash.high}};
    mr_link_message m = {.peer = 1, .size = size, .body = size > 0 ? malloc(size) : NULL};
    memcpy(m.head, &head, sizeof head);
    if (m.body) {
        memcpy(m.body, body, size);
    }
    if (!add_event(MR_LINK_CAME, &m)) {
        free(m.body);
    }
}

static void say(relay_kind kind, int64_t id, const void *body, size_t size) {
    pthread_mutex_lock(&other.lock);
    say_as(other.number++, kind, id, body, size);
    pthread_mutex_unlock(&other.lock);
}

static void nap(void) {
    const struct timespec moment = {0, 1000000};
    nanosleep(&moment, NULL);
}

/* ---- The link ---- */
static bool open_fake(void **link, const mr_link_config *config, char why[MR_LINK_WHY]) {
    (void)config;
    (void)why;
    *link = &other;
    return true;
}

static bool collect_fake(void *link, const void *own, size_t size, void *all,
                         char why[MR_LINK_WHY]) {
    (void)link;
    (void)why;
    memcpy(all, own, size);
    memcpy((char *)all + size, own, size);
    return true;
}

static void hear(const mr_link_message *m) {
    relay_head head;
    memcpy(&head, m->head, sizeof head);
    if (head.kind == KEEP && m->size > 0) {
        other.kept.bytes = realloc(other.kept.bytes, m->size);
        other.kept.size = m->size;
        other.kept_id = head.id;
        memcpy(other.kept.bytes, m->body, m->size);
    } else if (head.kind == TOLD) {
        other.told += (int64_t)m->size;
    } else if (head.kind == HEARD) {
        const char *at = m->body;
        mr_relay_record record;
        mr_entry entry;
        CHECK(mr_relay_read(&at, at + m->size, &record, &entry) && record.place == 1);
        other.heard = record.number;
    } else if (head.kind == BYE) {
        say_as(other.number++, BYE_TOO, 0, NULL, 0);
    }
}

static bool send_fake(void *link, const mr_link_message *m, char why[MR_LINK_WHY]) {
    (void)link;
    pthread_mutex_lock(&other.lock);
    bool sent = !other.refuses || m->size == 0;
    if (sent) {
        hear(m);
        add_event(MR_LINK_GONE, m);
    } else if (!other.stuck.token) {
        other.stuck = *m;
        snprintf(why, MR_LINK_WHY, "it refuses");
    }
    pthread_mutex_unlock(&other.lock);
    return sent;
}

static int32_t poll_fake(void *link, mr_link_event *events, int32_t most, char why[MR_LINK_WHY]) {
    (void)link;
    (void)why;
    pthread_mutex_lock(&other.lock);
    int32_t n = other.n < most ? other.n : most;
    memcpy(events, other.events, (size_t)n * sizeof *events);
    memmove(other.events, other.events + n, (size_t)(other.n - n) * sizeof *events);
    other.n -= n;
    pthread_mutex_unlock(&other.lock);
    return n;
}

static bool is_quiet_fake(void *link) {
    (void)link;
    return true;
}

static void close_fake(void *link, bool broken) {
    (void)link;
    (void)broken;
}

static const mr_link_class fake = {.abi = MR_LINK_ABI,
                                   .name = "fake",
                                   .open = open_fake,
                                   .collect = collect_fake,
                                   .send = send_fake,
                                   .poll = poll_fake,
                                   .is_quiet = is_quiet_fake,
                                   .close = close_fake};

/* ---- The relay: rank 0 of 2, which have a partition each ---- */
static mr_track *speaks, *reads;

static void begin(const mr_dataset *dataset) {
    other.n = 0;
    other.number = 0;
    other.told = other.heard = 0;
    err = (mr_error)MR_ERROR_INIT;
    const mr_relay_config config = {.url = "mpi?timeout=100000",
                                    .link = &fake,
                                    .dataset = dataset,
                                    .merge = {.partitions = 2, .quantum = 1},
                                    .world = 2,
                                    .speaks = speaks,
                                    .reads = reads,
                                    .lends = 1 << 20};
    CHECK_INT(mr_relay_open(&relay, &config, &err), ==, MR_OK);
}

/* Letters that are under way when a relay has failed are the link's. */
static void end(void) {
    bool failed = mr_relay_failure(relay, NULL) < 0;
    mr_relay_close(relay);
    for (int i = 0; i < other.n; i++) {
        const mr_link_event *e = &other.events[i];
        if (e->kind == MR_LINK_CAME) {
            free(e->message.body);
        } else if (failed) {
            mr_relay_free_letter(e->message.token);
        }
    }
}

static void check_lost(const char *why) {
    while (mr_relay_failure(relay, &err) == MR_OK) {
        nap();
    }
    CHECK_HAS(err.text, "rank 1");
    CHECK_HAS(err.text, why);
    end();
}

static const mr_entry *entry_of(int64_t number) {
    static mr_entry entry;
    entry = (mr_entry){.number = number, .value = "value", .size = 5, .key = "", .key_size = 0};
    return &entry;
}

/* A letter of one record. */
static void say_entry(relay_kind kind, int64_t step, int32_t place, const mr_entry *entry,
                      bool afar) {
    mr_relay_bytes bytes = {.bytes = NULL};
    mr_relay_write(&bytes, step, place, entry, afar);
    say(kind, 0, bytes.bytes, bytes.size);
    free(bytes.bytes);
}

/* Sample 1 is entry 0 of partition 1. */
static mr_status take_row(int64_t row, double seconds, mr_held **out) {
    const mr_relay_row wanted = {.rank = 1, .step = 0, .row = row, .sample = 1};
    return mr_relay_take(relay, &wanted, seconds, out, &err);
}

/* All letters before it were read when this row has come. */
static void wait_for_letters(void) {
    mr_held *held = NULL;
    say_entry(GIVEN, 0, 1000, NULL, false);
    CHECK_INT(take_row(1000, 1e6, &held), ==, MR_OK);
}

TEST(a_row_is_what_the_plan_says) {
    mr_held *held = NULL;
    begin(NULL);
    say_entry(GIVEN, 0, 0, entry_of(0), false);
    CHECK_INT(take_row(0, 1e6, &held), ==, MR_OK);
    CHECK(held && held->entry.number == 0 && held->entry.size == 5);
    mr_held_release(held);
    say_entry(GIVEN, 0, 1, entry_of(7), false); /* another entry */
    CHECK_INT(take_row(1, 1e6, &held), ==, MR_OK);
    CHECK(held == NULL);
    say_entry(GIVEN, 0, 2, entry_of(0), true); /* without its bytes */
    CHECK_INT(take_row(2, 1e6, &held), ==, MR_OK);
    CHECK(held == NULL);
    end();
}

TEST(not_sent_is_not_the_same_as_not_come_yet) {
    mr_held *held = NULL;
    begin(NULL);
    say_entry(GIVEN, 0, 3, NULL, false); /* it does not send it */
    CHECK_INT(take_row(3, 1e6, &held), ==, MR_OK);
    CHECK(held == NULL);
    CHECK_INT(take_row(4, 0, &held), ==, MR_LATER);
    CHECK(held == NULL);
    end();
}

TEST(letters_that_cannot_be_read_are_their_senders_end) {
    mr_relay_record none;
    memset(&none, 0, sizeof none);
    begin(NULL);
    say(TOLD, 0, &none, sizeof none - 1);
    check_lost("cannot be read");
    begin(NULL);
    none.number = (int64_t)1 << 60;
    say(TOLD, 0, &none, sizeof none);
    check_lost("cannot be read");
    begin(NULL);
    none.number = 0;
    none.step = -1;
    say(GIVEN, 0, &none, sizeof none);
    check_lost("cannot be read");
}

TEST(a_gap_has_a_measure) {
    begin(NULL);
    say_entry(TOLD, 0, 1, entry_of(MOST_MISSING), true);
    wait_for_letters();
    mr_relay_counts counts;
    mr_relay_counts_of(relay, &counts);
    CHECK_INT(counts.told, ==, 1);
    CHECK_INT(mr_relay_failure(relay, &err), ==, MR_OK);
    say_entry(TOLD, 0, 1, entry_of(2 * (int64_t)MOST_MISSING + 2), true);
    check_lost("far behind");
}

/* ---- What is told ahead ---- */
static const mr_entry *large_entry(int64_t number) {
    static const char key[65535];
    static mr_entry entry;
    entry = *entry_of(number);
    entry.key = key;
    entry.key_size = sizeof key;
    return &entry;
}

static void say_heard(int32_t partition, int64_t bytes) {
    const mr_entry taken = {.number = bytes};
    say_entry(HEARD, 0, partition, &taken, false);
}

static void count_wake(void *user) {
    atomic_fetch_add((atomic_int *)user, 1);
}

static int64_t tell_all(int64_t number) {
    while (mr_relay_may_tell(relay, 0)) {
        mr_relay_tell(relay, 0, large_entry(number++));
    }
    return number;
}

TEST(who_has_not_taken_in_what_it_was_told_is_told_no_more) {
    atomic_int woken = 0;
    begin(NULL);
    mr_relay_listen(relay, count_wake, &woken);
    const int64_t most = mr_relay_told_most(relay);
    const int64_t record = (int64_t)mr_relay_told_bytes(large_entry(0));
    int64_t n = tell_all(0);
    CHECK_INT(n * record, >=, most);
    CHECK_INT((n - 1) * record, <, most);
    say_heard(0, n * record + 1); /* more than it was told */
    say_heard(1, record);         /* its own */
    wait_for_letters();
    CHECK(!mr_relay_may_tell(relay, 0));
    int before = atomic_load(&woken);
    say_heard(0, 2 * record);
    wait_for_letters();
    CHECK_INT(atomic_load(&woken), >, before);
    CHECK_INT(tell_all(n), ==, n + 2);
    say_heard(0, record); /* less than before */
    wait_for_letters();
    CHECK(!mr_relay_may_tell(relay, 0));
    mr_relay_listen(relay, NULL, NULL);
    end();
    CHECK_INT(other.told, ==, (n + 2) * record);
}

TEST(who_tells_more_than_it_may_is_lost) {
    begin(NULL);
    const int64_t most =
        2 * mr_relay_told_most(relay) / (int64_t)mr_relay_told_bytes(large_entry(0));
    for (int64_t i = 0; i < most; i++) {
        say_entry(TOLD, 0, 1, large_entry(i), true);
        if (i % 100 == 0) {
            wait_for_letters();
        }
    }
    wait_for_letters();
    CHECK_INT(mr_relay_failure(relay, NULL), ==, MR_OK);
    say_entry(TOLD, 0, 1, large_entry(most), true);
    check_lost("more than it may");
}

static bool count_entry(void *user, const mr_entry *entry) {
    int64_t *n = user;
    CHECK_INT(entry->number, ==, *n);
    (*n)++;
    return true;
}

TEST(who_tells_is_told_what_was_taken_in) {
    begin(NULL);
    const int64_t record = (int64_t)mr_relay_told_bytes(large_entry(0));
    const int64_t quarter = mr_relay_told_most(relay) / 4 / record + 1;
    int64_t n = 0, heard = 0;
    const mr_entry_sink sink = {count_entry, &n};
    for (int64_t i = 0; i < quarter; i++) {
        say_entry(TOLD, 0, 1, large_entry(i), true);
    }
    wait_for_letters();
    CHECK_INT(mr_relay_advance(relay, 1, 0, &sink, &err), ==, MR_OK);
    CHECK_INT(n, ==, quarter);
    while (heard == 0) {
        pthread_mutex_lock(&other.lock);
        heard = other.heard;
        pthread_mutex_unlock(&other.lock);
        nap();
    }
    CHECK_INT(heard, ==, quarter * record);
    end();
}

TEST(letters_are_numbered) {
    begin(NULL);
    pthread_mutex_lock(&other.lock);
    say_as(2, BEAT, 0, NULL, 0);
    say_as(2, BEAT, 0, NULL, 0);
    pthread_mutex_unlock(&other.lock);
    check_lost("numbered wrongly");
    begin(NULL);
    pthread_mutex_lock(&other.lock);
    say_as(INT64_MAX, BEAT, 0, NULL, 0);
    pthread_mutex_unlock(&other.lock);
    check_lost("numbered wrongly");
}

TEST(what_was_not_asked_for_is_not_kept) {
    mr_relay_bytes bytes = {.bytes = NULL};
    begin(NULL);
    say(BACK, 5, "bytes", 5);
    say(KEEP, 6, NULL, 0);
    wait_for_letters();
    CHECK_INT(mr_relay_back(relay, 1, 5, &bytes), ==, MR_LATER);
    pthread_mutex_lock(&relay->lock);
    CHECK(relay->kept == NULL && relay->back == NULL);
    CHECK_INT(relay->peers[1].acknowledged, ==, 0); /* no more than was given */
    pthread_mutex_unlock(&relay->lock);
    mr_relay_ask_back(relay, 1, 5);
    say(BACK, 5, "bytes", 5);
    wait_for_letters();
    CHECK_INT(mr_relay_back(relay, 1, 5, &bytes), ==, MR_OK);
    CHECK_INT(bytes.size, ==, 5);
    free(bytes.bytes);
    end();
}

TEST(rows_that_nobody_takes_have_a_measure) {
    static char value[1 << 20];
    const mr_entry big = {.number = 0, .value = value, .size = sizeof value, .key = ""};
    begin(NULL);
    for (int32_t i = 0; i < 2 * (int32_t)(PARKED_BYTES >> 20); i++) {
        say_entry(GIVEN, 1000 + i, 0, &big, false);
        if (i % 16 == 0) {
            mr_held *none = NULL;
            say_entry(GIVEN, 0, i, NULL, false);
            CHECK_INT(take_row(i, 1e6, &none), ==, MR_OK);
        }
    }
    pthread_mutex_lock(&relay->lock);
    CHECK_INT(relay->peers[1].parked, <=, PARKED_BYTES);
    CHECK_INT(relay->peers[1].parked, >, WINDOW_BYTES);
    pthread_mutex_unlock(&relay->lock);
    end();
}

/* A link may have begun to send what it failed to send. */
TEST(a_letter_that_was_refused_stays) {
    begin(NULL);
    pthread_mutex_lock(&other.lock);
    other.refuses = true;
    pthread_mutex_unlock(&other.lock);
    mr_relay_tell(relay, 0, entry_of(0));
    while (mr_relay_failure(relay, &err) == MR_OK) {
        nap();
    }
    CHECK_HAS(err.text, "it refuses");
    mr_relay_record record;
    mr_entry entry;
    pthread_mutex_lock(&other.lock);
    const char *at = other.stuck.body;
    CHECK(mr_relay_read(&at, at + other.stuck.size, &record, &entry) && entry.number == 0);
    add_event(MR_LINK_GONE, &other.stuck); /* now it can go */
    other.refuses = false;
    other.stuck.token = NULL;
    pthread_mutex_unlock(&other.lock);
    end();
}

/* ---- What was lent ---- */
static int64_t oldest_number;

/* The source left out every third. */
static mr_status recall(const void *state, int32_t partition, int64_t number,
                        const mr_entry_sink *sink, mr_error *out) {
    (void)state;
    (void)partition;
    (void)out;
    if (number % 3 == 2) {
        return MR_E_NOT_FOUND;
    }
    return sink->take(sink->user, entry_of(number)) ? MR_OK : MR_E_MEMORY;
}

static mr_status oldest(const void *state, int32_t partition, int64_t *number, mr_error *out) {
    (void)state;
    (void)partition;
    (void)out;
    *number = oldest_number;
    return MR_OK;
}

typedef struct taken {
    int64_t n, values;
} taken;

static bool take(void *user, const mr_entry *entry) {
    taken *t = user;
    CHECK_INT(entry->number, ==, t->n);
    t->values += entry->value != NULL;
    t->n++;
    return true;
}

/* Lends a chunk, which comes back changed, or not. */
static mr_status lend(bool changes, taken *out) {
    static const char value[70000] = "large";
    const mr_source_class class = {.recall = recall, .oldest = oldest};
    const mr_dataset dataset = {.class = &class};
    mr_lent *lent = NULL;
    begin(&dataset);
    const mr_lent_config config = {
        .relay = relay, .dataset = &dataset, .partitions = 2, .world = 2, .bytes = 1 << 20};
    CHECK_INT(mr_lent_open(&lent, &config, &err), ==, MR_OK);
    for (int64_t i = 0; i < 6; i++) {
        mr_entry entry = *entry_of(i);
        entry.value = value;
        entry.size = i == 5 ? sizeof value : 5;
        CHECK_INT(mr_lent_put(lent, 0, &entry, &err), ==, MR_OK);
    }
    for (bool kept = false; !kept; nap()) {
        pthread_mutex_lock(&other.lock);
        kept = other.kept.size > 0;
        pthread_mutex_unlock(&other.lock);
    }
    const mr_entry_sink sink = {take, out};
    CHECK_INT(mr_lent_take(lent, 0, &sink, &err), ==, MR_OK); /* asks for it */
    CHECK_INT(out->n, ==, 0);
    other.kept.bytes[sizeof(mr_relay_record)] = changes ? 'L' : 'l'; /* of "large" */
    say(BACK, other.kept_id, other.kept.bytes, other.kept.size);
    wait_for_letters();
    mr_status status = mr_lent_take(lent, 0, &sink, &err);
    mr_lent_close(lent);
    end();
    free(other.kept.bytes);
    other.kept = (mr_relay_bytes){.bytes = NULL};
    return status;
}

TEST(what_comes_back_changed_is_read_again) {
    taken same = {0}, changed = {0}, gone = {0};
    CHECK_INT(lend(false, &same), ==, MR_OK);
    CHECK_INT(same.n, ==, 6);
    CHECK_INT(same.values, ==, 6);
    CHECK_INT(lend(true, &changed), ==, MR_OK);
    CHECK_INT(changed.n, ==, 6);
    CHECK_INT(changed.values, ==, 4); /* two were left out */
    oldest_number = 1;
    CHECK_INT(lend(true, &gone), ==, MR_E_STATE);
    CHECK_INT(gone.n, ==, 0);
}

TEST(a_relay_that_has_ended_knows_what_its_threads_used) {
    mr_tracks tracks = {0};
    CHECK(mr_tracks_init(&tracks, 2, 0, 1, 1 << 10));
    speaks = mr_tracks_add(&tracks, MR_TRACK_READER);
    reads = mr_tracks_add(&tracks, MR_TRACK_READER);
    begin(NULL);
    mr_relay_end(relay);
    CHECK_INT(speaks->usage.v[MR_COUNT_CPU_NS], >, 0);
    CHECK_INT(reads->usage.v[MR_COUNT_CPU_NS], >, 0);
    end();
    speaks = reads = NULL;
    mr_tracks_free(&tracks);
}

TEST_MAIN()
