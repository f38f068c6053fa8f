/* SPDX-License-Identifier: Apache-2.0 */
/* intake.c - see intake.h. Sleeping and waking as in ring.c. */
#include "run/read/intake.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/memory.h"

mr_status mr_intake_init(mr_intake *intake, const mr_intake_config *config, mr_error *err) {
    intake->origins = config->origins;
    intake->n_origins = config->n_origins;
    intake->asked_end = &intake->asked;
    atomic_init(&intake->most_held, config->most_held);
    intake->allowance = (size_t)config->bytes;
    intake->most_idle = (size_t)config->idle_bytes;
    pthread_mutex_init(&intake->lock, NULL);
    pthread_cond_init(&intake->arrived, NULL);
    pthread_cond_init(&intake->room, NULL);
    intake->awaited = mr_zalloc(config->threads, sizeof *intake->awaited);
    return intake->awaited ? MR_OK : mr_fail_memory(err, config->threads * sizeof(int64_t));
}

void mr_intake_free(mr_intake *intake) {
    for (int32_t i = 0; i < intake->n_idle; i++) {
        free(intake->idle[i].data);
    }
    pthread_mutex_destroy(&intake->lock);
    pthread_cond_destroy(&intake->arrived);
    pthread_cond_destroy(&intake->room);
    mr_free(intake->awaited);
    mr_free(intake->queue);
}

static void wake_readers(mr_intake *intake) {
    if (intake->wake_reader) {
        intake->wake_reader(intake->wake_user);
    }
    if (atomic_load(&intake->waiting_readers) > 0) {
        pthread_mutex_lock(&intake->lock);
        intake->wakes++;
        pthread_cond_broadcast(&intake->room);
        pthread_mutex_unlock(&intake->lock);
    }
}

void mr_intake_wake_readers(mr_intake *intake) {
    wake_readers(intake);
}

void mr_intake_allow(mr_intake *intake, int64_t most_held, int64_t bytes) {
    pthread_mutex_lock(&intake->lock);
    atomic_store(&intake->most_held, most_held);
    intake->allowance = (size_t)bytes;
    pthread_mutex_unlock(&intake->lock);
    wake_readers(intake);
}

static void wake_workers(mr_intake *intake) {
    if (atomic_load(&intake->waiting_workers) > 0) {
        pthread_mutex_lock(&intake->lock);
        pthread_cond_broadcast(&intake->arrived);
        pthread_mutex_unlock(&intake->lock);
    }
}

/* ---- The consumer ---- */
/* A ring that holds `n` more; called with the lock held. */
static bool make_room(mr_intake *intake, int64_t n) {
    int64_t queued = intake->queue_end - intake->queue_first;
    if (queued + n <= intake->queue_size) {
        return true;
    }
    int64_t size = intake->queue_size > 0 ? intake->queue_size : 64;
    while (size < queued + n) {
        size *= 2;
    }
    mr_load **queue = mr_zalloc((size_t)size, sizeof *queue);
    if (!queue) {
        return false;
    }
    for (int64_t i = 0; intake->queue_size > 0 && i < queued; i++) {
        queue[i] = intake->queue[(intake->queue_first + i) % intake->queue_size];
    }
    mr_free(intake->queue);
    intake->queue = queue;
    intake->queue_size = size;
    intake->queue_first = 0;
    intake->queue_end = queued;
    return true;
}

/* Bounded here: see the top of intake.h. Blocks of many samples are bounded by who plans them. */
static bool is_counted(const mr_load *load) {
    return !mr_dataset_has_blocks(load->dataset);
}

static void note_alive(mr_intake *intake, mr_load *const *loads, int64_t n) {
    int64_t blocks = 0;
    for (int64_t i = 0; i < n; i++) {
        blocks += !is_counted(loads[i]);
    }
    int64_t alive = atomic_fetch_add(&intake->blocks_alive, blocks) + blocks;
    if (alive > atomic_load(&intake->most_alive)) {
        atomic_store(&intake->most_alive, alive); /* the consumer's alone */
    }
}

bool mr_intake_plan(mr_intake *intake, mr_load *const *loads, int64_t n) {
    pthread_mutex_lock(&intake->lock);
    bool room = make_room(intake, n);
    for (int64_t i = 0; room && i < n; i++) {
        loads[i]->turn = intake->n_planned++;
        loads[i]->intake = intake;
        intake->queue[intake->queue_end++ % intake->queue_size] = loads[i];
    }
    pthread_mutex_unlock(&intake->lock);
    if (room) {
        note_alive(intake, loads, n);
        wake_readers(intake);
    }
    return room;
}

/* ---- Loads ---- */
static mr_load_stage stage_of(const mr_load *load) {
    return (mr_load_stage)atomic_load(&load->stage);
}

bool mr_load_is_settled(const mr_load *load) {
    return stage_of(load) == MR_LOAD_WHOLE;
}

/* The first failure counts; what is already noted stays. */
void mr_load_fail(mr_load *load, mr_status status, const mr_error *err) {
    int expected = MR_OK;
    if (atomic_compare_exchange_strong(&load->status, &expected, status) && err) {
        load->failure = mr_zalloc(1, sizeof *load->failure);
        if (load->failure) {
            *load->failure = *err;
        }
    }
}

static mr_status failure_of(const mr_load *load, mr_error *err) {
    mr_status status = (mr_status)atomic_load(&load->status);
    if (status < 0 && err && load->failure) {
        *err = *load->failure;
    } else if (status < 0) {
        mr_fail(err, status, "%s", mr_status_text(status));
    }
    return status;
}

/* ---- Unpacking ---- */
static void append_unpackable(mr_intake *intake, mr_load *load) {
    mr_load **at = &intake->unpackable;
    while (*at && (*at)->turn < load->turn) {
        at = &(*at)->next_unpackable;
    }
    load->next_unpackable = *at;
    *at = load;
}

static void remove_unpackable(mr_intake *intake, const mr_load *load) {
    mr_load **at = &intake->unpackable;
    while (*at && *at != load) {
        at = &(*at)->next_unpackable;
    }
    if (*at) {
        *at = load->next_unpackable;
    }
}

/* The next part of a load, or -1: all are taken. With the lock held. */
static int32_t claim_part(mr_intake *intake, mr_load *load) {
    if (stage_of(load) != MR_LOAD_THERE || load->next_part >= load->block.n_parts) {
        return -1;
    }
    int32_t part = load->next_part++;
    if (load->next_part == load->block.n_parts) {
        remove_unpackable(intake, load);
    }
    return part;
}

static void give_back_memory(mr_intake *intake, mr_load *load);

static void settle(mr_intake *intake, mr_load *load) {
    atomic_store(&load->stage, MR_LOAD_WHOLE);
    wake_workers(intake);
}

static size_t part_bytes(const mr_load *load) {
    size_t size = 0;
    for (int32_t i = 0; i < load->block.n_bytes; i++) {
        size += load->block.bytes[i].size;
    }
    return size / (size_t)load->block.n_parts;
}

static void unpack(mr_intake *intake, mr_load *load, int32_t part, mr_track *track) {
    mr_error err;
    mr_error_clear(&err);
    void **parts = (void **)(uintptr_t)load->block.parts;
    uint64_t begun = mr_track_now(track);
    mr_status status = mr_dataset_unpack(load->dataset, &load->block, part, &parts[part], &err);
    mr_track_since(track, MR_SPAN_UNPACK, begun, load->block.first, MR_SPAN_NO_BATCH,
                   part_bytes(load));
    if (status < 0) {
        mr_load_fail(load, status, &err);
    }
    if (atomic_fetch_sub(&load->parts_left, 1) == 1) {
        if (!load->dataset->shape.keeps_bytes) {
            give_back_memory(intake, load);
        }
        settle(intake, load);
    }
}

/* A part of the load itself where one is left, else of the oldest that has one. */
static mr_load *claim_any(mr_intake *intake, mr_load *first, int32_t *part) {
    pthread_mutex_lock(&intake->lock);
    mr_load *load = first;
    *part = load ? claim_part(intake, load) : -1;
    if (*part < 0 && (load = intake->unpackable) != NULL) {
        *part = claim_part(intake, load);
    }
    pthread_mutex_unlock(&intake->lock);
    return *part >= 0 ? load : NULL;
}

bool mr_intake_unpack_one(mr_intake *intake, mr_load *load, mr_track *track) {
    int32_t part;
    mr_load *claimed = intake->unpacks ? claim_any(intake, load, &part) : NULL;
    if (claimed) {
        unpack(intake, claimed, part, track);
    }
    return claimed != NULL;
}

/* ---- Waiting ---- */
static void add_awaited(mr_intake *intake, int64_t turn) {
    intake->awaited[intake->n_awaited++] = turn;
}

static void remove_awaited(mr_intake *intake, int64_t turn) {
    int32_t i = 0;
    while (intake->awaited[i] != turn) {
        i++;
    }
    intake->awaited[i] = intake->awaited[--intake->n_awaited];
}

static bool is_oldest_awaited(const mr_intake *intake, const mr_load *load) {
    bool awaited = false;
    for (int32_t i = 0; i < intake->n_awaited; i++) {
        if (intake->awaited[i] < load->turn) {
            return false;
        }
        awaited = awaited || intake->awaited[i] == load->turn;
    }
    return awaited;
}

/* A read was refused, or a load not begun, since the last call. */
static bool held_up(mr_intake *intake) {
    bool refused = atomic_exchange(&intake->refused, false);
    return atomic_exchange(&intake->full, false) || refused;
}

/* A worker that begins to wait may make a refused read the oldest, which may then go on; so may one
 * that stops waiting. */
static void sleep_for(mr_intake *intake, const mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    atomic_fetch_add(&intake->waiting_workers, 1);
    add_awaited(intake, load->turn);
    if (held_up(intake)) {
        pthread_mutex_unlock(&intake->lock);
        wake_readers(intake);
        pthread_mutex_lock(&intake->lock);
    }
    while (!mr_load_is_settled(load) && !intake->unpackable && !atomic_load(&intake->stopped)) {
        pthread_cond_wait(&intake->arrived, &intake->lock);
    }
    remove_awaited(intake, load->turn);
    atomic_fetch_sub(&intake->waiting_workers, 1);
    bool again = held_up(intake);
    pthread_mutex_unlock(&intake->lock);
    if (again) {
        wake_readers(intake);
    }
}

/* Who gave the bytes is known once the load is whole. */
static mr_span_kind wait_kind(const mr_intake *intake, const mr_load *load) {
    bool known = mr_load_is_settled(load) && load->origin >= 0 && load->origin < intake->n_origins;
    return known && intake->origins[load->origin].class->is_peer ? MR_SPAN_WAIT_PEER
                                                                 : MR_SPAN_WAIT_READ;
}

mr_status mr_intake_await(mr_intake *intake, mr_load *load, const mr_waiter *waiter,
                          mr_error *err) {
    while (!mr_load_is_settled(load)) {
        if (atomic_load(&intake->stopped)) {
            return mr_intake_failure(intake, err);
        }
        if (!mr_intake_unpack_one(intake, load, waiter->track)) {
            uint64_t begun = mr_track_now(waiter->track);
            sleep_for(intake, load);
            mr_track_since(waiter->track, wait_kind(intake, load), begun, waiter->sample,
                           waiter->batch, 0);
        }
    }
    return failure_of(load, err);
}

mr_status mr_intake_failure(const mr_intake *intake, mr_error *err) {
    if (intake->failure.code == MR_OK) {
        return mr_fail(err, MR_E_CANCELLED, "stopped");
    }
    if (err) {
        *err = intake->failure;
    }
    return intake->failure.code;
}

/* ---- Memory ---- */
/* The newest idle buffer that is large enough and not much too large. With the lock held. */
static bool take_idle(mr_intake *intake, mr_load *load, size_t size) {
    for (int32_t i = intake->n_idle - 1; i >= 0; i--) {
        mr_idle_buffer found = intake->idle[i];
        if (found.capacity >= size && found.capacity / 4 <= size + 4096) {
            intake->idle[i] = intake->idle[--intake->n_idle];
            intake->idle_bytes -= found.capacity;
            load->buffer = found.data;
            load->capacity = found.capacity;
            return true;
        }
    }
    return false;
}

/* What is given back is kept for the next, others that are idle making room for it: memory that is
 * new costs a page fault for every 4 KB. With the lock held. */
static void keep_idle(mr_intake *intake, void *data, size_t capacity) {
    if (capacity > intake->most_idle) {
        free(data);
        return;
    }
    while (intake->n_idle == MR_IDLE_BUFFERS || intake->idle_bytes + capacity > intake->most_idle) {
        free(intake->idle[0].data);
        intake->idle_bytes -= intake->idle[0].capacity;
        intake->idle[0] = intake->idle[--intake->n_idle];
    }
    intake->idle[intake->n_idle++] = (mr_idle_buffer){data, capacity};
    intake->idle_bytes += capacity;
}

/* block.bytes is set once all of them are there. */
static void offer(const mr_intake *intake, const mr_load *load) {
    bool whole = load->block.bytes && atomic_load(&load->status) == MR_OK;
    for (int32_t i = 0; whole && i < load->origin; i++) {
        const mr_origin *origin = &intake->origins[i];
        if (origin->class->offer) {
            origin->class->offer(origin->state, load);
        }
    }
}

static void give_back_memory(mr_intake *intake, mr_load *load) {
    if (load->lent) {
        const mr_origin *lender = &intake->origins[load->origin];
        lender->class->release(lender->state, load);
        load->lent = false;
    }
    if (!load->buffer) {
        return;
    }
    offer(intake, load);
    pthread_mutex_lock(&intake->lock);
    intake->charged -= load->charged;
    keep_idle(intake, load->buffer, load->capacity);
    pthread_mutex_unlock(&intake->lock);
    load->buffer = NULL;
    load->capacity = load->charged = 0;
}

static bool is_granted(const mr_intake *intake, const mr_load *load, size_t size) {
    return !is_counted(load) || intake->charged + size <= intake->allowance ||
           is_oldest_awaited(intake, load);
}

/* Charges the read to the allowance if it fits or cannot wait. */
static bool charge(mr_intake *intake, mr_load *load, size_t size) {
    pthread_mutex_lock(&intake->lock);
    bool granted = is_granted(intake, load, size);
    if (granted) {
        load->charged = is_counted(load) ? size : 0;
        intake->charged += load->charged;
        take_idle(intake, load, size);
    } else {
        atomic_fetch_add(&intake->short_of_memory, 1);
        atomic_store(&intake->refused, true);
    }
    pthread_mutex_unlock(&intake->lock);
    return granted;
}

bool mr_intake_reserve(mr_intake *intake, mr_load *load, size_t size) {
    if (load->buffer && load->capacity >= size) {
        return true; /* of an origin that then could not give what it had */
    }
    if (!charge(intake, load, size)) {
        return false;
    }
    if (!load->buffer) {
        load->capacity = size + size / 4 + 64; /* files differ a little: do not allocate for each */
        load->buffer = malloc(load->capacity);
    }
    if (!load->buffer) {
        mr_error err = MR_ERROR_INIT;
        mr_load_fail(load, mr_fail_memory(&err, load->capacity), &err);
        pthread_mutex_lock(&intake->lock);
        intake->charged -= load->charged;
        pthread_mutex_unlock(&intake->lock);
        load->capacity = load->charged = 0;
    }
    return true;
}

/* ---- Giving back ---- */
static void drop_parts(mr_load *load) {
    void **parts = (void **)(uintptr_t)load->block.parts;
    for (int32_t part = 0; parts && part < load->block.n_parts; part++) {
        mr_dataset_drop(load->dataset, part, parts[part]);
    }
    mr_free(parts);
}

/* Readers are woken for a quarter of what may be held at a time: one wake-up per sample would cost
 * more than the read of a small file. Workers hold less than that, so the rest always comes free. A
 * read that waits for memory is looked at again each time: what was given back may be all it needs.
 */
static void leave(mr_intake *intake, bool was_held, bool was_block) {
    pthread_mutex_lock(&intake->lock);
    intake->held -= was_held;
    pthread_mutex_unlock(&intake->lock);
    atomic_fetch_sub(&intake->blocks_alive, was_block);
    int64_t released = atomic_fetch_add(&intake->released, 1) + 1;
    bool refused = atomic_load(&intake->refused) && atomic_exchange(&intake->refused, false);
    if (refused || released >= atomic_load(&intake->most_held) / 4) {
        atomic_store(&intake->released, 0);
        wake_readers(intake);
    }
}

void mr_intake_empty(mr_intake *intake, mr_load *load) {
    drop_parts(load);
    give_back_memory(intake, load);
    if (load->extents != &load->extent) {
        mr_free(load->extents);
    }
    if (load->bytes != &load->one) {
        mr_free(load->bytes);
    }
    mr_free(load->failure);
    *load = (mr_load){.turn = -1};
}

/* Takes a load out of the queue; with the lock held. */
static void remove_queued(mr_intake *intake, const mr_load *load) {
    int64_t to = intake->queue_first;
    for (int64_t from = to; from < intake->queue_end; from++) {
        mr_load *at = intake->queue[from % intake->queue_size];
        if (at != load) {
            intake->queue[to++ % intake->queue_size] = at;
        }
    }
    intake->queue_end = to;
}

/* Out of everybody's reach, unless somebody is at it. */
static bool withdraw(mr_intake *intake, mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    mr_load_stage stage = stage_of(load);
    bool idle = stage == MR_LOAD_WHOLE || !load->is_started;
    if (!load->is_started) {
        remove_queued(intake, load);
    } else if (stage == MR_LOAD_THERE && load->next_part == 0) {
        remove_unpackable(intake, load);
        idle = true;
    }
    pthread_mutex_unlock(&intake->lock);
    return idle;
}

bool mr_intake_let_go(mr_intake *intake, mr_load *load) {
    if (!mr_load_is_settled(load) && !withdraw(intake, load)) {
        return false;
    }
    bool was_block = !is_counted(load);
    bool was_held = load->is_started && !was_block;
    mr_intake_empty(intake, load);
    leave(intake, was_held, was_block);
    return true;
}

/* ---- Readers ---- */
static bool may_start(const mr_intake *intake) {
    if (intake->queue_first == intake->queue_end) {
        return false;
    }
    const mr_load *next = intake->queue[intake->queue_first % intake->queue_size];
    return !is_counted(next) || intake->held < atomic_load(&intake->most_held) ||
           is_oldest_awaited(intake, next);
}

/* With the lock held. */
static mr_load *claim(mr_intake *intake) {
    mr_load *load = NULL;
    if (intake->queue_first < intake->queue_end && !may_start(intake)) {
        atomic_store(&intake->full, true);
    } else if (may_start(intake)) {
        load = intake->queue[intake->queue_first++ % intake->queue_size];
        load->is_started = true;
        intake->held += is_counted(load);
    }
    return load;
}

static mr_status locate(mr_load *load, mr_error *err) {
    MR_TRY(mr_dataset_locate(load->dataset, load->block.number, &load->extent, 1, &load->extents,
                             &load->n_extents, err));
    load->bytes =
        load->n_extents > 1 ? mr_zalloc((size_t)load->n_extents, sizeof *load->bytes) : &load->one;
    return load->bytes ? MR_OK : mr_fail_memory(err, (size_t)load->n_extents * sizeof(mr_bytes));
}

static bool prepare(mr_load *load) {
    mr_error err;
    mr_error_clear(&err);
    load->block.first = mr_dataset_first_of(load->dataset, load->block.number);
    load->identity = (mr_identity){.asked = false};
    load->extents = &load->extent;
    load->bytes = &load->one;
    mr_status status = locate(load, &err);
    if (status < 0) {
        mr_load_fail(load, status, &err);
    }
    return status == MR_OK && load->n_extents > 0;
}

static void end_load(mr_intake *intake, mr_load *load) {
    load->pieces_left = 1;
    mr_intake_piece_done(intake, load);
}

/* ---- Origins ---- */
static mr_load *claim_question(mr_intake *intake) {
    mr_load *load = NULL;
    pthread_mutex_lock(&intake->lock);
    load = claim(intake);
    if (load) {
        load->is_answered = false;
        load->next_asked = NULL;
        *intake->asked_end = load;
        intake->asked_end = &load->next_asked;
    }
    pthread_mutex_unlock(&intake->lock);
    return load;
}

/* With the lock held. */
static void remove_asked(mr_intake *intake, const mr_load *load) {
    mr_load **at = &intake->asked;
    while (*at != load) {
        at = &(*at)->next_asked;
    }
    *at = load->next_asked;
    intake->asked_end = *at ? intake->asked_end : at;
}

/* Nobody has it: the readers' turn, once all before it are answered. */
static void leave_to_readers(mr_intake *intake, mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    load->is_answered = true;
    pthread_mutex_unlock(&intake->lock);
}

static void settle_asked(mr_intake *intake, mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    remove_asked(intake, load);
    bool is_next_answered = intake->asked && intake->asked->is_answered;
    pthread_mutex_unlock(&intake->lock);
    end_load(intake, load);
    if (is_next_answered) {
        wake_readers(intake);
    }
}

static void note_found(mr_origin *origin, mr_answer answer, const mr_load *load) {
    int64_t bytes = (int64_t)load->record_size;
    for (int32_t i = 0; answer == MR_ANSWER_HERE && i < load->n_extents; i++) {
        bytes += (int64_t)load->bytes[i].size;
    }
    atomic_fetch_add_explicit(&origin->found, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&origin->bytes, bytes, memory_order_relaxed);
}

/* Goes on with an answer of the origin that was asked last. True: the load is left to the readers.
 */
static bool follow_answer(mr_intake *intake, mr_load *load, mr_answer answer) {
    while (answer == MR_ANSWER_NOT_HERE && ++load->origin < intake->n_origins) {
        mr_origin *next = &intake->origins[load->origin];
        atomic_fetch_add_explicit(&next->asked, 1, memory_order_relaxed);
        answer = next->class->ask(next->state, load);
    }
    if (answer == MR_ANSWER_LATER) {
        return false;
    }
    if (answer == MR_ANSWER_NOT_HERE) {
        leave_to_readers(intake, load);
        return true;
    }
    if (answer != MR_ANSWER_FAILED) {
        note_found(&intake->origins[load->origin], answer, load);
    }
    load->kept = answer == MR_ANSWER_KEPT;
    settle_asked(intake, load);
    return false;
}

static void ask_again(mr_intake *intake, mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    mr_load **at = &intake->again;
    while (*at && (*at)->turn < load->turn) {
        at = &(*at)->next_again;
    }
    load->next_again = *at;
    *at = load;
    pthread_mutex_unlock(&intake->lock);
    wake_readers(intake);
}

static mr_load *claim_again(mr_intake *intake) {
    pthread_mutex_lock(&intake->lock);
    mr_load *load = intake->again;
    intake->again = load ? load->next_again : NULL;
    pthread_mutex_unlock(&intake->lock);
    return load;
}

/* Whoever answers late does not ask the next origin: questions are the asker's, so that an origin
 * is asked by one thread. Once the run ends there is none, and nobody to answer. */
void mr_load_answer(mr_load *load, mr_answer answer) {
    mr_intake *intake = load->intake;
    bool others = load->origin + 1 < intake->n_origins;
    if (answer == MR_ANSWER_NOT_HERE && others && atomic_load(&intake->stopped)) {
        leave_to_readers(intake, load);
    } else if (answer == MR_ANSWER_NOT_HERE && others) {
        ask_again(intake, load);
    } else if (follow_answer(intake, load, answer)) {
        wake_readers(intake);
    }
}

bool mr_intake_ask_one(mr_intake *intake) {
    mr_load *load = claim_again(intake);
    if (load) {
        follow_answer(intake, load, MR_ANSWER_NOT_HERE);
        return true;
    }
    load = claim_question(intake);
    if (load && !prepare(load)) {
        settle_asked(intake, load);
    } else if (load) {
        load->origin = -1;
        follow_answer(intake, load, MR_ANSWER_NOT_HERE);
    }
    return load != NULL;
}

void mr_intake_end_origins(mr_intake *intake) {
    for (int32_t i = 0; i < intake->n_origins; i++) {
        if (intake->origins[i].class->end) {
            intake->origins[i].class->end(intake->origins[i].state);
        }
    }
}

bool mr_load_reserve(mr_load *load, size_t size, bool wait) {
    mr_intake *intake = load->intake;
    bool granted = mr_intake_reserve(intake, load, size);
    while (wait && !granted && !atomic_load(&intake->stopped)) {
        int64_t announced = mr_intake_announce(intake);
        granted = mr_intake_reserve(intake, load, size);
        if (!granted) {
            mr_intake_sleep(intake, announced);
        }
        mr_intake_retire(intake);
    }
    return granted;
}

void mr_load_lay_out(mr_load *load) {
    char *at = load->buffer;
    for (int32_t i = 0; i < load->n_extents; i++) {
        load->bytes[i] = (mr_bytes){at, (size_t)load->extents[i].length};
        at += load->extents[i].length;
    }
}

/* ---- Starting ---- */
static mr_load *claim_answered(mr_intake *intake) {
    mr_load *load = intake->asked;
    if (!load || !load->is_answered) {
        return NULL;
    }
    intake->asked = load->next_asked;
    intake->asked_end = intake->asked ? intake->asked_end : &intake->asked;
    return load;
}

static mr_load *claim_read(mr_intake *intake) {
    pthread_mutex_lock(&intake->lock);
    mr_load *load = intake->n_origins > 0 ? claim_answered(intake) : claim(intake);
    pthread_mutex_unlock(&intake->lock);
    return load;
}

mr_load *mr_intake_start(mr_intake *intake) {
    mr_load *load;
    while ((load = claim_read(intake)) != NULL) {
        if (intake->n_origins > 0 || prepare(load)) {
            return load;
        }
        end_load(intake, load);
    }
    return NULL;
}

/* The bytes are there: the block is described, and made ready to be unpacked. */
static mr_status describe(mr_load *load, mr_error *err) {
    const mr_dataset *dataset = load->dataset;
    load->block.bytes = load->bytes;
    load->block.n_bytes = load->n_extents;
    if (!mr_dataset_is_unpacked(dataset)) {
        return MR_OK;
    }
    load->block.n_parts = dataset->shape.parts;
    load->block.parts = mr_zalloc((size_t)load->block.n_parts, sizeof(void *));
    return load->block.parts ? MR_OK
                             : mr_fail_memory(err, (size_t)load->block.n_parts * sizeof(void *));
}

static void offer_parts(mr_intake *intake, mr_load *load) {
    pthread_mutex_lock(&intake->lock);
    atomic_store(&load->parts_left, load->block.n_parts);
    load->next_part = 0;
    intake->unpacks = true;
    atomic_store(&load->stage, MR_LOAD_THERE);
    append_unpackable(intake, load);
    pthread_cond_broadcast(&intake->arrived);
    pthread_mutex_unlock(&intake->lock);
    if (intake->wake_worker) {
        intake->wake_worker(intake->worker_user);
    }
}

void mr_intake_piece_done(mr_intake *intake, mr_load *load) {
    mr_error err;
    if (atomic_fetch_sub(&load->pieces_left, 1) != 1) {
        return;
    }
    mr_error_clear(&err);
    bool from_file = load->buffer && load->origin == intake->n_origins;
    atomic_fetch_add(&intake->loads_read, from_file);
    for (int32_t i = 0; from_file && i < load->n_extents; i++) {
        atomic_fetch_add(&intake->bytes_read, (int64_t)load->bytes[i].size);
    }
    bool well = atomic_load(&load->status) == MR_OK && !load->kept;
    if (well && describe(load, &err) < 0) {
        mr_load_fail(load, err.code, &err);
        well = false;
    }
    if (well && load->block.parts) {
        offer_parts(intake, load);
    } else {
        settle(intake, load);
    }
}

/* ---- Sleeping readers ---- */
int64_t mr_intake_announce(mr_intake *intake) {
    pthread_mutex_lock(&intake->lock);
    atomic_fetch_add(&intake->waiting_readers, 1);
    int64_t wakes = intake->wakes;
    pthread_mutex_unlock(&intake->lock);
    return wakes;
}

void mr_intake_sleep(mr_intake *intake, int64_t announced) {
    pthread_mutex_lock(&intake->lock);
    while (intake->wakes == announced && !atomic_load(&intake->stopped)) {
        pthread_cond_wait(&intake->room, &intake->lock);
    }
    pthread_mutex_unlock(&intake->lock);
}

void mr_intake_retire(mr_intake *intake) {
    atomic_fetch_sub(&intake->waiting_readers, 1);
}

void mr_intake_stop(mr_intake *intake) {
    atomic_store(&intake->stopped, true);
    for (int32_t i = 0; i < intake->n_origins; i++) {
        const mr_origin *origin = &intake->origins[i];
        if (origin->class->stop) {
            origin->class->stop(origin->state);
        }
    }
    pthread_mutex_lock(&intake->lock);
    pthread_cond_broadcast(&intake->arrived);
    pthread_cond_broadcast(&intake->room);
    pthread_mutex_unlock(&intake->lock);
    if (intake->wake_reader) {
        intake->wake_reader(intake->wake_user);
    }
}
