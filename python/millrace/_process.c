/* SPDX-License-Identifier: Apache-2.0 */
/* _process.c - functions that run in other processes: samples and results go through shared memory,
 * only numbers through a socket. Nothing is pickled and the GIL is not needed.
 *
 * Memory is memfd: it has no name that a crash could leave behind. A process opens it through
 * /proc/PID/fd. Each process has a region of its own for inputs and for results whose size varies;
 * batch memory is shared too, so results of fixed size are written where they belong. */
#include "_binding.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Shared memory for batches ---- */
typedef struct segment {
    struct segment *next;
    int64_t id;
    char *address;
    size_t size;
    int fd;
} segment;

/* Outlives the processes while batches are held. */
typedef struct segments {
    atomic_int references;
    pthread_mutex_t lock;
    segment *first;
    int64_t n_made;
} segments;

static void drop_segments(segments *all) {
    if (atomic_fetch_sub(&all->references, 1) == 1) {
        pthread_mutex_destroy(&all->lock);
        free(all);
    }
}

static bool map_memory(int fd, size_t size, char **address) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *address = memory == MAP_FAILED ? NULL : memory;
    return *address != NULL;
}

static void *segment_alloc(void *user, size_t size, size_t align) {
    segments *all = user;
    segment *new = calloc(1, sizeof *new);
    (void)align; /* pages are */
    if (!new) {
        return NULL;
    }
    new->size = size;
    new->fd = memfd_create("millrace", MFD_CLOEXEC);
    if (new->fd < 0 || ftruncate(new->fd, (off_t)size) < 0 ||
        !map_memory(new->fd, size, &new->address)) {
        if (new->fd >= 0) {
            close(new->fd);
        }
        free(new);
        return NULL;
    }
    pthread_mutex_lock(&all->lock);
    new->id = all->n_made++;
    new->next = all->first;
    all->first = new;
    pthread_mutex_unlock(&all->lock);
    atomic_fetch_add(&all->references, 1);
    return new->address;
}

static void segment_release(void *user, void *memory, size_t size) {
    segments *all = user;
    pthread_mutex_lock(&all->lock);
    segment **at = &all->first;
    while ((*at)->address != memory) {
        at = &(*at)->next;
    }
    segment *old = *at;
    *at = old->next;
    pthread_mutex_unlock(&all->lock);
    munmap(memory, size);
    close(old->fd);
    free(old);
    drop_segments(all);
}

/* Where memory lies, for a process that maps the segment itself. */
static bool find_segment(segments *all, const char *address, int64_t out[3]) {
    bool found = false;
    pthread_mutex_lock(&all->lock);
    for (segment *s = all->first; s && !found; s = s->next) {
        if (address >= s->address && address < s->address + s->size) {
            out[0] = s->id;
            out[1] = s->fd;
            out[2] = address - s->address;
            found = true;
        }
    }
    pthread_mutex_unlock(&all->lock);
    return found;
}

/* ---- Processes ---- */
typedef struct channel {
    int socket;
    int memory_fd;
    char *memory;
    size_t size;
    bool busy, broken;
} channel;

struct processes {
    int32_t n;
    channel *channels;
    pthread_mutex_t lock;
    pthread_cond_t idle;
    atomic_bool stopped;
    segments *segments;
};

static bool open_channel(channel *c, int socket) {
    enum { FIRST_SIZE = 1 << 20 };
    c->socket = socket;
    c->memory_fd = memfd_create("millrace-sample", MFD_CLOEXEC);
    c->size = FIRST_SIZE;
    return c->memory_fd >= 0 && ftruncate(c->memory_fd, FIRST_SIZE) == 0 &&
           map_memory(c->memory_fd, c->size, &c->memory);
}

processes *processes_new(const int *fds, int32_t n) {
    processes *all = calloc(1, sizeof *all);
    if (!all) {
        PyErr_NoMemory();
        return NULL;
    }
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->idle, NULL);
    all->channels = calloc((size_t)n, sizeof *all->channels);
    all->segments = calloc(1, sizeof *all->segments);
    bool ok = all->channels && all->segments;
    if (ok) {
        atomic_init(&all->segments->references, 1);
        pthread_mutex_init(&all->segments->lock, NULL);
    }
    for (; ok && all->n < n; all->n++) {
        ok = open_channel(&all->channels[all->n], fds[all->n]);
    }
    if (!ok) {
        PyErr_SetFromErrno(PyExc_OSError);
        processes_free(all);
        return NULL;
    }
    return all;
}

void processes_stop(processes *all) {
    pthread_mutex_lock(&all->lock);
    atomic_store(&all->stopped, true);
    pthread_cond_broadcast(&all->idle);
    pthread_mutex_unlock(&all->lock);
}

void processes_free(processes *all) {
    if (!all) {
        return;
    }
    for (int32_t i = 0; i < all->n; i++) {
        munmap(all->channels[i].memory, all->channels[i].size);
        close(all->channels[i].memory_fd);
    }
    if (all->segments) {
        drop_segments(all->segments);
    }
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->idle);
    free(all->channels);
    free(all);
}

mr_allocator processes_allocator(processes *all) {
    return (mr_allocator){segment_alloc, segment_release, all->segments};
}

static channel *find_idle(processes *all, int32_t *n_working) {
    *n_working = 0;
    for (int32_t i = 0; i < all->n; i++) {
        channel *c = &all->channels[i];
        *n_working += !c->broken;
        if (!c->busy && !c->broken) {
            return c;
        }
    }
    return NULL;
}

static channel *acquire(processes *all) {
    int32_t n_working = 0;
    pthread_mutex_lock(&all->lock);
    channel *c = find_idle(all, &n_working);
    while (!c && n_working > 0 && !atomic_load(&all->stopped)) {
        pthread_cond_wait(&all->idle, &all->lock);
        c = find_idle(all, &n_working);
    }
    if (c) {
        c->busy = true;
    }
    pthread_mutex_unlock(&all->lock);
    return c;
}

static void give_back(processes *all, channel *c, bool broken) {
    pthread_mutex_lock(&all->lock);
    c->busy = false;
    c->broken = broken;
    pthread_cond_broadcast(&all->idle);
    pthread_mutex_unlock(&all->lock);
}

/* ---- Messages: a fixed number of 64-bit words each way ---- */
enum {
    PLACE_WORDS = 4,
    WORDS = 160,
    REQUEST_HEAD = 10,
    ANSWER_HEAD = 8,
    VIEW_WORDS = 3 + MR_MAX_DIMS,
    NOWHERE = -1
};

static bool send_words(int socket, const int64_t *words) {
    const char *at = (const char *)words;
    size_t left = WORDS * sizeof *words;
    while (left > 0) {
        ssize_t n = send(socket, at, left, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Looks up now and then, to see whether the loader is being closed. */
static bool receive_words(processes *all, int socket, int64_t *words) {
    char *at = (char *)words;
    size_t left = WORDS * sizeof *words;
    while (left > 0 && !atomic_load(&all->stopped)) {
        struct pollfd wait = {.fd = socket, .events = POLLIN};
        if (poll(&wait, 1, 50) <= 0) {
            continue;
        }
        ssize_t n = recv(socket, at, left, 0);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
    return left == 0;
}

static bool resize(channel *c, size_t size) {
    munmap(c->memory, c->size);
    c->size = size;
    return map_memory(c->memory_fd, size, &c->memory);
}

static bool grow(channel *c, size_t size) {
    size_t wanted = c->size;
    while (wanted < size) {
        wanted *= 2;
    }
    return wanted == c->size || (ftruncate(c->memory_fd, (off_t)wanted) == 0 && resize(c, wanted));
}

/* The process may have made the region larger. */
static bool follow(channel *c) {
    struct stat info;
    return fstat(c->memory_fd, &info) == 0 &&
           ((size_t)info.st_size == c->size || resize(c, (size_t)info.st_size));
}

static size_t aligned(size_t size) {
    return (size + 63) & ~(size_t)63;
}

static int64_t *put_type(int64_t *word, const mr_type *type, int64_t offset) {
    *word++ = type->dtype;
    *word++ = type->n_dims;
    memcpy(word, type->dims, sizeof type->dims);
    word += MR_MAX_DIMS;
    *word++ = offset;
    return word;
}

/* Inputs one after the other at the start of the region. */
static int64_t *put_inputs(channel *c, const process_call *call, int64_t *word, size_t *used) {
    size_t total = 0;
    for (int32_t i = 0; i < call->n_in; i++) {
        total += aligned(call->in[i].size);
    }
    if (!grow(c, total)) {
        return NULL;
    }
    *used = 0;
    for (int32_t i = 0; i < call->n_in; i++) {
        if (call->in[i].size > 0) {
            memcpy(c->memory + *used, call->in[i].data, call->in[i].size);
        }
        word = put_type(word, &call->in[i].type, (int64_t)*used);
        *used += aligned(call->in[i].size);
    }
    return word;
}

/* Where each output shall be written: its place in shared batch memory and how much fits there, or
 * nowhere in particular, which is the region after the inputs. */
static void put_outputs(processes *all, const process_call *call, int64_t *word) {
    for (int32_t i = 0; i < call->n_out; i++, word += PLACE_WORDS) {
        if (!call->out[i].data || !find_segment(all->segments, call->out[i].data, word)) {
            word[0] = NOWHERE;
        }
        word[3] = (int64_t)call->out[i].size;
    }
}

static bool ask(processes *all, channel *c, const process_call *call, int64_t *words) {
    size_t used = 0;
    memset(words, 0, WORDS * sizeof *words);
    words[0] = call->function;
    words[1] = (int64_t)call->key->seed;
    words[2] = call->key->epoch;
    words[3] = (int64_t)call->key->sample;
    words[4] = call->key->op;
    words[5] = call->n_in;
    words[6] = call->n_out;
    int64_t *word = put_inputs(c, call, words + REQUEST_HEAD, &used);
    if (!word) {
        return false;
    }
    words[7] = (int64_t)used;
    words[8] = c->memory_fd;
    put_outputs(all, call, word);
    return send_words(c->socket, words) && receive_words(all, c->socket, words);
}

/* ---- Answers ---- */
static mr_status take_report(channel *c, const int64_t *words, char **report, mr_error *err) {
    size_t first = (size_t)words[1], second = (size_t)words[2];
    if (!follow(c) || first + second > c->size) {
        return mr_fail(err, MR_E_INTERNAL, "the answer of a worker process makes no sense");
    }
    mr_fail(err, MR_E_HOST, "%.*s", (int)first, c->memory);
    *report = strndup(c->memory + first, second);
    return MR_E_HOST;
}

static bool fits(const mr_type *wanted, const mr_type *found) {
    bool same = found->n_dims == wanted->n_dims && found->dtype == wanted->dtype;
    for (int32_t i = 0; same && i < wanted->n_dims; i++) {
        same = wanted->dims[i] < 0 || wanted->dims[i] == found->dims[i];
    }
    return same;
}

/* One output: check its type, and copy it unless it is in place already. */
static mr_status take_output(channel *c, const process_call *call, int32_t i, const int64_t *word,
                             mr_error *err) {
    mr_view *out = &call->out[i];
    mr_type type = {.dtype = (mr_dtype)word[0],
                    .layout = call->fields[i].type.layout,
                    .n_dims = (int32_t)word[1]};
    memcpy(type.dims, word + 2, sizeof type.dims);
    int64_t offset = word[2 + MR_MAX_DIMS], bytes = mr_type_bytes(&type);
    if (!fits(&call->fields[i].type, &type)) {
        char wanted[128], got[128];
        return mr_fail(err, MR_E_TYPE, "field %s is %s, expected %s", call->fields[i].name,
                       mr_type_text(&type, got, sizeof got),
                       mr_type_text(&call->fields[i].type, wanted, sizeof wanted));
    }
    if (offset == NOWHERE) { /* in place */
        return MR_OK;
    }
    if (!out->data) {
        size_t size = bytes > 0 ? (size_t)bytes : 1;
        if (call->capacity[i] < size) {
            free(call->memory[i]);
            call->memory[i] = malloc(size);
            call->capacity[i] = call->memory[i] ? size : 0;
        }
        *out = (mr_view){type, call->memory[i], (size_t)bytes};
    }
    if (!out->data || bytes < 0 || (size_t)offset + (size_t)bytes > c->size) {
        return mr_fail(err, MR_E_INTERNAL, "the answer of a worker process makes no sense");
    }
    memcpy(out->data, c->memory + offset, (size_t)bytes);
    return MR_OK;
}

static mr_status take_answer(channel *c, const process_call *call, const int64_t *words,
                             char **report, mr_error *err) {
    if (words[0] != 0) {
        return take_report(c, words, report, err);
    }
    if (!follow(c)) {
        return mr_fail(err, MR_E_MEMORY, "cannot map the memory of a worker process");
    }
    mr_status status = MR_OK;
    for (int32_t i = 0; status == MR_OK && i < call->n_out; i++) {
        status = take_output(c, call, i, words + ANSWER_HEAD + i * VIEW_WORDS, err);
    }
    return status;
}

mr_status processes_run(processes *all, const process_call *call, char **report, mr_error *err) {
    int64_t words[WORDS];
    channel *c = acquire(all);
    bool answered = c && ask(all, c, call, words);
    mr_status status = answered ? take_answer(c, call, words, report, err) : MR_E_CANCELLED;
    if (c) {
        give_back(all, c, !answered);
    }
    if (answered || atomic_load(&all->stopped)) {
        return status;
    }
    mr_fail(err, MR_E_HOST, "a worker process ended unexpectedly");
    mr_hint(err, "it may have been killed for lack of memory, or its main module could not be "
                 "imported: guard the program with if __name__ == \"__main__\"");
    return MR_E_HOST;
}
