/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.c - a link over MPI: a module, see link.h. Built once for each MPI that there is.
 *
 * Two-sided and non-blocking: a message is its head with a short body behind it, or a head and then
 * the body in pieces, below 2 GB, that are as large as the head says. Receives of heads are posted
 * ahead from anybody and looked at in the order in which they were posted, so bodies are asked for
 * in the order in which they were sent, and tags need not tell them apart. One-sided access would
 * need the other side's help on most networks anyway.
 *
 * MPI is the process's: what is said of it here once (the communicator, who started it) is too. A
 * link is a channel, a pair of tags, so that several can be open and end in any order; links are
 * opened in the same order by all ranks. */
#include "fabric/link.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEADS = 16, CHANNELS = 4096, END_TAG = 2 * CHANNELS + 1, LONGEST_END = 30 /* s */ };

/* Bytes of a piece, and how many a body may have: Open MPI cannot tell more than 65,536 messages
 * apart that are on their way between two ranks. */
enum { PIECE = 1 << 30, LEAST_PIECE = 4 << 10, MOST_PIECES = 4096 };

/* A message on its way. */
typedef struct operation {
    mr_link_event event;
    size_t piece;          /* bytes */
    int left;              /* pieces */
    unsigned char *packet; /* head and short body of one that is sent */
} operation;

typedef struct packet {
    unsigned char head[MR_LINK_HEAD];
    uint64_t size; /* of the body */
    uint64_t piece;
    unsigned char body[MR_LINK_SHORT];
} packet;

typedef struct mpi_link {
    mr_link_config config;
    MPI_Comm comm;
    int tag; /* of heads; bodies have the next */
    packet heads[HEADS];
    MPI_Request head_requests[HEADS];
    int first_head;        /* the oldest that is posted */
    MPI_Request *requests; /* of operations, with the operation of each */
    operation **of;
    int n, capacity;
    int *done;            /* for Testsome */
    mr_link_event *early; /* what came from those who collected sooner */
    int32_t n_early, first_early;
    bool collected;
} mpi_link;

/* What is said at the end, to a rank and by it. */
typedef struct farewell {
    MPI_Request come, gone;
    char said;
} farewell;

/* Of the process, like MPI itself. */
static struct {
    atomic_flag busy;
    bool ours; /* MPI was started here */
    bool broken;
    bool is_over; /* MPI was ended here */
    pid_t pid;
    MPI_Comm comm; /* a copy of all ranks' */
    bool has_comm;
    int channels;
    farewell *farewells; /* of all ranks */
    char said;
    int status; /* of the process that ends */
} process = {.busy = ATOMIC_FLAG_INIT};

/* Held for as long as a call of MPI takes; rarely is there more than one who wants it. */
static void take_turn(void) {
    const struct timespec moment = {0, 1000};
    while (atomic_flag_test_and_set(&process.busy)) {
        nanosleep(&moment, NULL);
    }
}

static void end_turn(void) {
    atomic_flag_clear(&process.busy);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* For a process that ends: who has the turn may be a thread that waits in MPI for ever, or this
 * one, in a call that ended the process. */
static bool take_last_turn(void) {
    const struct timespec moment = {0, 1000};
    double end = now() + LONGEST_END;
    bool busy = true;
    while ((busy = atomic_flag_test_and_set(&process.busy)) && now() < end) {
        nanosleep(&moment, NULL);
    }
    return !busy;
}

static void rest(void) {
    const struct timespec moment = {0, 200000};
    nanosleep(&moment, NULL);
}

static bool fail_with(int code, const char *what, char *why) {
    char text[MPI_MAX_ERROR_STRING];
    int n = 0;
    MPI_Error_string(code, text, &n);
    snprintf(why, MR_LINK_WHY, "%s: %.*s", what, n < 300 ? n : 300, text);
    return false;
}

/* ---- The end of MPI ---- */
/* False: not all could be begun. */
static bool begin_farewells(int rank, int world) {
    int code = MPI_SUCCESS;
    for (int r = 0; r < world; r++) {
        farewell *f = &process.farewells[r];
        *f = (farewell){MPI_REQUEST_NULL, MPI_REQUEST_NULL, 0};
        if (r != rank && code == MPI_SUCCESS) {
            code = MPI_Irecv(&f->said, 1, MPI_BYTE, r, END_TAG, process.comm, &f->come);
        }
        if (r != rank && code == MPI_SUCCESS) {
            code = MPI_Isend(&process.said, 1, MPI_BYTE, r, END_TAG, process.comm, &f->gone);
        }
    }
    return code == MPI_SUCCESS;
}

static bool is_over(MPI_Request *request) {
    int done = 0, code = MPI_SUCCESS;
    while (code == MPI_SUCCESS && !done && take_last_turn()) {
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        end_turn();
        if (!done) {
            rest();
        }
    }
    return done;
}

/* Everybody tells everybody that it has come to the end, and waits for all, as MPI_Finalize would.
 * False: some cannot be reached. Then MPI may still write to what was begun, so it stays. Links
 * that were not closed have their turns meanwhile: other ranks may wait for their answers. */
static bool meet_at_end(void) {
    int rank = 0, world = 0;
    if (!take_last_turn()) {
        return false;
    }
    MPI_Comm_rank(process.comm, &rank);
    MPI_Comm_size(process.comm, &world);
    process.farewells = calloc((size_t)world, sizeof *process.farewells);
    bool well = process.farewells && begin_farewells(rank, world);
    end_turn();
    for (int r = 0; well && r < world; r++) {
        well = is_over(&process.farewells[r].come) && is_over(&process.farewells[r].gone);
    }
    return well;
}

/* MPICH over UCX (4.0) waits in MPI_Finalize until the others have confirmed what was sent to them,
 * but one whose own was confirmed looks at no message any more: who comes later waits for ever. A
 * rank confirms in any call of MPI. So between the first who is in MPI_Finalize and the last nobody
 * may make another call: all have met, so nobody needs one, and a pause is longer than the last
 * look of those who have not noticed yet. */
static void be_silent(void) {
    const struct timespec pause = {0, 250000000};
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    MPI_Get_library_version(version, &n);
    if (strstr(version, "ch4:ucx")) {
        nanosleep(&pause, NULL);
    }
}

/* All ranks are at the end: what MPI still has to do is done soon, or never. */
static void end_at_last(int signal) {
    (void)signal;
    _exit(process.status);
}

static void end_in_any_case(int status) {
    const struct sigaction action = {.sa_handler = end_at_last};
    process.status = status;
    fflush(NULL);
    if (sigaction(SIGALRM, &action, NULL) == 0) {
        alarm(LONGEST_END);
    }
}

/* A process that ends without it makes mpirun end the others. */
static void finalize(int status, void *unused) {
    int over = 0;
    (void)unused;
    if (process.pid != getpid() || process.broken || MPI_Finalized(&over) != MPI_SUCCESS || over) {
        return;
    }
    if ((process.has_comm && !meet_at_end()) || !take_last_turn()) {
        return;
    }
    if (process.has_comm) {
        be_silent();
        end_in_any_case(status);
    }
    MPI_Finalize();
    process.is_over = true;
    end_turn();
    if (process.has_comm) {
        alarm(0);
    }
}

/* ---- MPI itself ---- */
static bool start_mpi(char *why) {
    int level = 0;
    int code = MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS) {
        return fail_with(code, "MPI cannot be started", why);
    }
    process.ours = true;
    process.pid = getpid();
    on_exit(finalize, NULL);
    if (level < MPI_THREAD_SERIALIZED) {
        snprintf(why, MR_LINK_WHY, "this MPI allows no thread but the first to send messages");
        return false;
    }
    return true;
}

/* Somebody else's threads may call MPI at any moment. */
static bool use_started(char *why) {
    static const char *const names[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED",
                                        "MPI_THREAD_SERIALIZED"};
    int level = 0, at = 0;
    MPI_Query_thread(&level);
    if (level >= MPI_THREAD_MULTIPLE) {
        return true;
    }
    at = level == MPI_THREAD_SERIALIZED ? 2 : level == MPI_THREAD_FUNNELED ? 1 : 0;
    snprintf(why, MR_LINK_WHY,
             "MPI was started with %s by this program, but sending beside it needs "
             "MPI_THREAD_MULTIPLE: start it with MPI_Init_thread and that level (mpi4py: "
             "mpi4py.rc.thread_level = \"multiple\"), or open the loader before",
             names[at]);
    return false;
}

static bool check_world(const mr_link_config *c, char *why) {
    int rank = 0, world = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (rank == c->rank && world == c->world) {
        return true;
    }
    if (world == 1) {
        snprintf(why, MR_LINK_WHY,
                 "this is rank %d of %d, but MPI knows of this process alone: it was not started "
                 "by mpirun or srun. Start it so, or use a fabric of Redis servers",
                 (int)c->rank, (int)c->world);
    } else {
        snprintf(why, MR_LINK_WHY, "this is rank %d of %d, but rank %d of %d for MPI", (int)c->rank,
                 (int)c->world, rank, world);
    }
    return false;
}

/* Not all ranks may come this far, so it is not waited for without end. */
static bool copy_communicator(double timeout, char *why) {
    MPI_Request request;
    int done = 0, code = MPI_Comm_idup(MPI_COMM_WORLD, &process.comm, &request);
    double end = now() + timeout;
    while (code == MPI_SUCCESS && !done && now() < end) {
        code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done) {
            rest();
        }
    }
    if (code != MPI_SUCCESS) {
        return fail_with(code, "no communicator", why);
    }
    if (!done) {
        process.broken = true;
        snprintf(why, MR_LINK_WHY, "not all ranks have opened a loader within %g s", timeout);
        return false;
    }
    MPI_Comm_set_errhandler(process.comm, MPI_ERRORS_RETURN);
    process.has_comm = true;
    return true;
}

static bool join(const mr_link_config *c, char *why) {
    int started = 0, over = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&over);
    if (over || process.broken || (process.pid != 0 && process.pid != getpid())) {
        snprintf(why, MR_LINK_WHY, "MPI is over in this process");
        return false;
    }
    bool well = !started ? start_mpi(why) : process.ours || use_started(why);
    process.pid = getpid();
    return well && check_world(c, why) && (process.has_comm || copy_communicator(c->timeout, why));
}

/* ---- Operations ---- */
static bool make_room(mpi_link *link, int more) {
    if (link->n + more <= link->capacity) {
        return true;
    }
    int capacity = 2 * (link->n + more);
    MPI_Request *requests = realloc(link->requests, (size_t)capacity * sizeof *requests);
    link->requests = requests ? requests : link->requests;
    operation **of = realloc(link->of, (size_t)capacity * sizeof *of);
    link->of = of ? of : link->of;
    int *done = realloc(link->done, (size_t)capacity * sizeof *done);
    link->done = done ? done : link->done;
    if (!requests || !of || !done) {
        return false;
    }
    link->capacity = capacity;
    return true;
}

static int pieces_of(size_t size, size_t piece) {
    return (int)((size + piece - 1) / piece);
}

static int piece_size(const operation *op, int i) {
    size_t left = op->event.message.size - (size_t)i * op->piece;
    return (int)(left < op->piece ? left : op->piece);
}

static char *piece_at(const operation *op, int i) {
    return (char *)op->event.message.body + (size_t)i * op->piece;
}

/* What a head says of its body can be: few pieces that MPI can count. */
static bool are_pieces(uint64_t size, uint64_t piece) {
    return piece >= LEAST_PIECE && piece <= PIECE && size / piece < MOST_PIECES;
}

static void add_request(mpi_link *link, operation *op, MPI_Request request) {
    link->requests[link->n] = request;
    link->of[link->n++] = op;
    op->left++;
}

/* ---- Sending ---- */
static bool start_send(mpi_link *link, operation *op, size_t short_size, char *why) {
    const mr_link_message *m = &op->event.message;
    int length = (int)(offsetof(packet, body) + short_size);
    MPI_Request request;
    int code = MPI_Isend(op->packet, length, MPI_BYTE, m->peer, link->tag, link->comm, &request);
    if (code == MPI_SUCCESS) {
        add_request(link, op, request);
    }
    int pieces = short_size == 0 ? pieces_of(m->size, op->piece) : 0;
    for (int i = 0; code == MPI_SUCCESS && i < pieces; i++) {
        code = MPI_Isend(piece_at(op, i), piece_size(op, i), MPI_BYTE, m->peer, link->tag + 1,
                         link->comm, &request);
        if (code == MPI_SUCCESS) {
            add_request(link, op, request);
        }
    }
    return code == MPI_SUCCESS || fail_with(code, "cannot send", why);
}

static bool send_unlocked(mpi_link *link, const mr_link_message *m, char *why) {
    size_t short_size = m->size <= MR_LINK_SHORT ? m->size : 0;
    uint64_t size = m->size, least = size / (MOST_PIECES / 2);
    uint64_t piece = least > link->config.piece ? least : link->config.piece;
    operation *op = calloc(1, sizeof *op);
    unsigned char *bytes = malloc(offsetof(packet, body) + short_size);
    if (!op || !bytes || !make_room(link, 1 + pieces_of(m->size, piece))) {
        free(op);
        free(bytes);
        snprintf(why, MR_LINK_WHY, "no memory for a message");
        return false;
    }
    memcpy(bytes, m->head, MR_LINK_HEAD);
    memcpy(bytes + offsetof(packet, size), &size, sizeof size);
    memcpy(bytes + offsetof(packet, piece), &piece, sizeof piece);
    if (short_size > 0) {
        memcpy(bytes + offsetof(packet, body), m->body, short_size);
    }
    op->event = (mr_link_event){.kind = MR_LINK_GONE, .message = *m};
    op->packet = bytes;
    op->piece = piece;
    int before = link->n;
    bool sent = start_send(link, op, short_size, why);
    if (link->n == before) { /* what is under way of one that failed is the closing's */
        free(op->packet);
        free(op);
    }
    return sent;
}

/* Links of a process take turns: an MPI of whatever level will do, and some are not as safe with
 * several threads as they say. */
static bool send_message(void *state, const mr_link_message *m, char why[MR_LINK_WHY]) {
    take_turn();
    bool over = process.is_over;
    bool sent = !over && send_unlocked(state, m, why);
    end_turn();
    if (over) {
        snprintf(why, MR_LINK_WHY, "this process has ended MPI");
    }
    return sent;
}

/* ---- Receiving ---- */
static int post_head(mpi_link *link, int i) {
    return MPI_Irecv(&link->heads[i], (int)sizeof(packet), MPI_BYTE, MPI_ANY_SOURCE, link->tag,
                     link->comm, &link->head_requests[i]);
}

static bool lose(mr_link_event *event, int peer) {
    *event = (mr_link_event){.kind = MR_LINK_LOST, .message.peer = peer};
    return true;
}

static int receive_body(mpi_link *link, operation *op) {
    const mr_link_message *m = &op->event.message;
    int code = MPI_SUCCESS;
    for (int i = 0; code == MPI_SUCCESS && i < pieces_of(m->size, op->piece); i++) {
        MPI_Request request;
        code = MPI_Irecv(piece_at(op, i), piece_size(op, i), MPI_BYTE, m->peer, link->tag + 1,
                         link->comm, &request);
        if (code == MPI_SUCCESS) {
            add_request(link, op, request);
        }
    }
    return code;
}

/* What a head announces. True: there is an event at once, because all of it came. */
static bool take_head(mpi_link *link, const packet *came, int length, int peer,
                      mr_link_event *event) {
    size_t behind = (size_t)length - offsetof(packet, body);
    bool is_short = came->size <= MR_LINK_SHORT;
    if ((size_t)length < offsetof(packet, body) || came->size > link->config.max_body ||
        !are_pieces(came->size, came->piece) || behind != (is_short ? came->size : 0)) {
        return lose(event, peer);
    }
    char *memory = came->size > 0 ? malloc(link->config.room + came->size) : NULL;
    *event = (mr_link_event){.kind = MR_LINK_CAME,
                             .message = {.peer = peer, .size = (size_t)came->size}};
    memcpy(event->message.head, came->head, MR_LINK_HEAD);
    event->message.body = memory ? memory + link->config.room : NULL;
    if (came->size > 0 && !memory) {
        return lose(event, peer);
    }
    if (memory && is_short) {
        memcpy(event->message.body, came->body, behind);
    }
    if (is_short) {
        return true;
    }
    operation *op = calloc(1, sizeof *op);
    if (!op || !make_room(link, pieces_of(came->size, came->piece))) {
        free(op);
        free(memory);
        return lose(event, peer);
    }
    op->event = *event;
    op->piece = came->piece;
    int before = link->n;
    bool begun = receive_body(link, op) == MPI_SUCCESS;
    if (link->n == before) { /* nothing of it is under way */
        free(op);
        free(memory);
    }
    return !begun && lose(event, peer);
}

static bool poll_head(mpi_link *link, mr_link_event *event, bool *came) {
    int i = link->first_head, done = 0, length = 0;
    MPI_Status status;
    int code = MPI_Test(&link->head_requests[i], &done, &status);
    *came = code == MPI_SUCCESS && done;
    if (code != MPI_SUCCESS) {
        return lose(event, -1);
    }
    if (!done) {
        return false;
    }
    MPI_Get_count(&status, MPI_BYTE, &length);
    bool tells = take_head(link, &link->heads[i], length, status.MPI_SOURCE, event);
    link->first_head = (i + 1) % HEADS;
    if (post_head(link, i) == MPI_SUCCESS) {
        return tells;
    }
    if (tells && event->message.body) {
        free((char *)event->message.body - link->config.room);
    }
    return lose(event, -1);
}

/* ---- Both ---- */
static void forget_done(mpi_link *link) {
    int to = 0;
    for (int i = 0; i < link->n; i++) {
        if (link->of[i]) {
            link->requests[to] = link->requests[i];
            link->of[to++] = link->of[i];
        }
    }
    link->n = to;
}

/* Testsome looks at all; events that have no room wait in their operations: so only as many
 * requests are asked about as there is room for. */
static int32_t poll_operations(mpi_link *link, mr_link_event *events, int32_t most) {
    enum { ASKED = 64 };
    int n = 0, asked = link->n < most ? link->n : most;
    int32_t told = 0;
    asked = asked < ASKED ? asked : ASKED;
    if (asked == 0) {
        return 0;
    }
    MPI_Status ignored[ASKED];
    int code = MPI_Testsome(asked, link->requests, &n, link->done, ignored);
    if (code != MPI_SUCCESS) {
        lose(&events[0], -1);
        return 1;
    }
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++) {
        operation *op = link->of[link->done[i]];
        link->of[link->done[i]] = NULL;
        if (--op->left == 0) {
            events[told++] = op->event;
            free(op->packet);
            free(op);
        }
    }
    if (n != MPI_UNDEFINED && n > 0) {
        forget_done(link);
    }
    /* The next time others come first. */
    if (link->n > asked) {
        MPI_Request request = link->requests[0];
        operation *op = link->of[0];
        memmove(link->requests, link->requests + 1, (size_t)(link->n - 1) * sizeof request);
        memmove(link->of, link->of + 1, (size_t)(link->n - 1) * sizeof(operation *));
        link->requests[link->n - 1] = request;
        link->of[link->n - 1] = op;
    }
    return told;
}

static int32_t poll_unlocked(mpi_link *link, mr_link_event *events, int32_t most, char *why) {
    int32_t n = 0;
    bool came = true;
    why[0] = '\0';
    while (n < most / 2 && link->collected && link->first_early < link->n_early) {
        events[n++] = link->early[link->first_early++];
    }
    while (n < most / 2 && came) {
        n += poll_head(link, &events[n], &came);
    }
    n += poll_operations(link, events + n, most - n);
    for (int32_t i = 0; i < n; i++) {
        if (events[i].kind == MR_LINK_LOST) {
            snprintf(why, MR_LINK_WHY, "a message cannot be received");
        }
    }
    return n;
}

static int32_t poll_link(void *state, mr_link_event *events, int32_t most, char why[MR_LINK_WHY]) {
    take_turn();
    int32_t n = process.is_over ? 0 : poll_unlocked(state, events, most, why);
    end_turn();
    return n;
}

static bool is_quiet(void *state) {
    return ((mpi_link *)state)->n == 0;
}

/* ---- Opening, closing ---- */
static bool post_heads(mpi_link *link, char *why) {
    for (int i = 0; i < HEADS; i++) {
        link->head_requests[i] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < HEADS; i++) {
        int code = post_head(link, i);
        if (code != MPI_SUCCESS) {
            return fail_with(code, "cannot receive", why);
        }
    }
    return true;
}

static void close_link(void *state, bool broken) {
    mpi_link *link = state;
    int over = 0;
    take_turn();
    MPI_Finalized(&over);
    for (int i = 0; !over && !broken && i < HEADS; i++) {
        if (link->head_requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&link->head_requests[i]);
            MPI_Wait(&link->head_requests[i], MPI_STATUS_IGNORE);
        }
    }
    process.broken = process.broken || broken; /* to finalize would wait for who is gone */
    end_turn();
    if (broken) {
        return; /* MPI may still write to what is under way */
    }
    for (int32_t i = link->first_early; i < link->n_early; i++) {
        if (link->early[i].message.body) {
            free((char *)link->early[i].message.body - link->config.room);
        }
    }
    free(link->early);
    free(link->requests);
    free(link->of);
    free(link->done);
    free(link);
}

static bool open_link(void **out, const mr_link_config *config, char why[MR_LINK_WHY]) {
    mpi_link *link = calloc(1, sizeof *link);
    if (!link) {
        snprintf(why, MR_LINK_WHY, "no memory for a link");
        return false;
    }
    link->config = *config;
    link->config.piece = config->piece == 0 || config->piece > PIECE ? PIECE
                         : config->piece < LEAST_PIECE               ? LEAST_PIECE
                                                                     : config->piece;
    take_turn();
    bool well = join(config, why);
    link->comm = process.comm;
    link->tag = 2 * (process.channels++ % CHANNELS) + 1;
    well = well && post_heads(link, why);
    end_turn();
    if (!well) {
        free(link);
        return false;
    }
    *out = link;
    return true;
}

/* ---- Gathering: everybody tells everybody ---- */
static void name_missing(const mpi_link *link, const bool *came, char *why) {
    int n = snprintf(why, MR_LINK_WHY,
                     "these ranks have not opened their loader within %g s:", link->config.timeout);
    for (int r = 0, named = 0; r < link->config.world && named < 16; r++) {
        if (!came[r]) {
            n += snprintf(why + n, (size_t)(MR_LINK_WHY - n), " %d", r);
            named++;
        }
    }
}

static bool send_to_all(mpi_link *link, const void *own, size_t size, char *why) {
    mr_link_message message = {.body = (void *)(uintptr_t)own, .size = size};
    for (int32_t r = 0; r < link->config.world; r++) {
        message.peer = r;
        if (r != link->config.rank && !send_message(link, &message, why)) {
            return false;
        }
    }
    return true;
}

static bool keep_early(mpi_link *link, const mr_link_event *event) {
    mr_link_event *early = realloc(link->early, (size_t)(link->n_early + 1) * sizeof *link->early);
    if (early) {
        link->early = early;
        link->early[link->n_early++] = *event;
    }
    return early != NULL;
}

/* -1: something else came than what all send first. */
static int take_collected(mpi_link *link, size_t size, char *all, bool *came, char *why) {
    enum { EVENTS = 64 };
    mr_link_event events[EVENTS];
    int32_t n = poll_link(link, events, EVENTS, why);
    int taken = 0;
    for (int32_t i = 0; i < n; i++) {
        const mr_link_message *m = &events[i].message;
        if (events[i].kind == MR_LINK_GONE) {
            continue;
        }
        if (events[i].kind == MR_LINK_CAME && came[m->peer] && keep_early(link, &events[i])) {
            continue;
        }
        if (events[i].kind == MR_LINK_LOST || m->size != size || came[m->peer]) {
            snprintf(why, MR_LINK_WHY,
                     "rank %d is another version of millrace, or has opened "
                     "its loaders in another order",
                     (int)m->peer);
            return -1;
        }
        memcpy(all + (size_t)m->peer * size, m->body, size);
        free((char *)m->body - link->config.room);
        came[m->peer] = true;
        taken++;
    }
    return taken;
}

static bool collect(void *state, const void *own, size_t size, void *all, char why[MR_LINK_WHY]) {
    mpi_link *link = state;
    int left = link->config.world - 1;
    double end = now() + link->config.timeout;
    bool *came = calloc((size_t)link->config.world, sizeof *came);
    if (!came || size > MR_LINK_SHORT || !send_to_all(link, own, size, why)) {
        free(came);
        return false;
    }
    memcpy((char *)all + (size_t)link->config.rank * size, own, size);
    came[link->config.rank] = true;
    while ((left > 0 || link->n > 0) && now() < end) {
        int taken = take_collected(link, size, all, came, why);
        if (taken < 0) {
            free(came);
            return false;
        }
        left -= taken;
        if (taken == 0) {
            rest();
        }
    }
    if (left > 0) {
        name_missing(link, came, why);
    }
    free(came);
    link->collected = left == 0;
    return left == 0;
}

__attribute__((visibility("default"))) extern const mr_link_class mr_link_module_class;
const mr_link_class mr_link_module_class = {
    .abi = MR_LINK_ABI,
    .name = "mpi",
    .open = open_link,
    .collect = collect,
    .send = send_message,
    .poll = poll_link,
    .is_quiet = is_quiet,
    .close = close_link,
};
