/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that send each other what they keep, over a real MPI. This program starts itself by mpirun;
 * each rank writes what it was given to a file, which is compared with runs that share nothing.
 * Ranks stand for those of several machines, and do not look into each other's memory, but where a
 * run's name begins with "near_". */
#include <dlfcn.h>
#include <millrace/fabric.h>
#include <signal.h>
#include <sys/wait.h>

#include "fixture.h"
#include "plan/placement.h"
#include "test.h"

enum { FILES = 60, WORLD = 3, EPOCHS = 3, LINES = 900, PHOTOS = 36 };

static char folder[64];

/* ---- A rank ---- */
typedef struct rank {
    mr_launch launch;
    const char *folder, *what;
    FILE *out;
} rank;

static bool is(const rank *r, const char *what) {
    return strcmp(r->what, what) == 0;
}

static bool is_near(const rank *r) {
    return strncmp(r->what, "near_", 5) == 0;
}

/* A sample that is needed again soon, in the next epoch of these few, is asked for once where ranks
 * read far ahead. Without that it is known what moves. */
static bool reads_ahead(const rank *r) {
    return !is(r, "behind") && !is(r, "pushed") && !is(r, "tight") && !is(r, "local") &&
           !is(r, "copies") && strncmp(r->what, "cache", 5) != 0 &&
           strncmp(r->what, "near_cache", 10) != 0;
}

static mr_loader *open_loader(const rank *r, const mr_pipeline *pipeline, const char *fabric,
                              int64_t seed, mr_error *err) {
    mr_options options = MR_OPTIONS_INIT;
    mr_loader *loader = NULL;
    options.threads = 2;
    options.world = r->launch.world;
    options.rank = r->launch.rank;
    options.digest = true;
    options.fabric = fabric;
    options.seed = seed;
    options.batches_ahead = reads_ahead(r) ? 0 : 1;
    options.reads_in_flight = reads_ahead(r) ? 0 : 1;
    options.epochs =
        is(r, "killed") || is(r, "near_killed") ? 1000000 : 0; /* only the loss ends it */
    mr_loader_open(&loader, pipeline, &options, err);
    return loader;
}

static mr_status take_one(rank *r, mr_loader *loader, mr_error *err) {
    mr_batch *batch = NULL;
    mr_status status = mr_loader_next(loader, &batch, err);
    if (status == MR_OK) {
        for (int64_t i = 0; i < mr_batch_size(batch); i++) {
            fprintf(r->out, "%lld %lld %lld %016llx\n", (long long)mr_batch_epoch(batch),
                    (long long)mr_batch_step(batch), (long long)mr_batch_samples(batch)[i],
                    (unsigned long long)mr_batch_sample_digest(batch, i));
        }
        fflush(r->out);
        mr_batch_unref(batch);
    }
    return status;
}

static mr_status take_all(rank *r, mr_loader *loader, int64_t most, mr_error *err) {
    mr_status status = MR_OK;
    for (int64_t n = 0; status == MR_OK && n < most; n++) {
        status = take_one(r, loader, err);
    }
    return status;
}

/* Bytes that were lent where another rank keeps them. */
static int64_t bytes_seen(const mr_loader *loader) {
    mr_origin_stats origin = {.size = (uint32_t)sizeof origin};
    int64_t bytes = 0;
    for (int32_t i = 0; i < mr_loader_n_origins(loader); i++) {
        mr_loader_origin(loader, i, &origin);
        bytes += strcmp(origin.name, "node") == 0 ? origin.bytes : 0;
    }
    return bytes;
}

static void tell_figures(const mr_loader *loader, const rank *r, const char *title) {
    mr_traffic t = {.size = (uint32_t)sizeof t};
    mr_stats stats = {.size = (uint32_t)sizeof stats};
    mr_loader_stats(loader, &stats);
    mr_loader_traffic(loader, &t);
    fprintf(r->out, "%s %lld %lld %lld %lld %lld %lld %lld\n", title, (long long)stats.bytes_read,
            (long long)t.bytes_in, (long long)t.bytes_out, (long long)t.damaged,
            (long long)t.samples, (long long)t.pushed, (long long)bytes_seen(loader));
}

/* More than what was asked for with the first batch, which does not have the large file. */
static void wait_for_pushes(const mr_loader *loader) {
    enum { MOST_ASKED_FOR = 20000 * 12 / WORLD };
    mr_traffic t = {.size = (uint32_t)sizeof t};
    for (t.bytes_in = 0; t.bytes_in <= MOST_ASKED_FOR; mr_loader_traffic(loader, &t)) {
        usleep(1000);
    }
}

static void tell_delivered(const rank *r) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.%u.delivered", r->folder, r->what, r->launch.rank);
    fclose(fopen(path, "w"));
}

static void wait_for(const rank *r, uint32_t who) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s.%u.delivered", r->folder, r->what, who);
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

/* Until all ranks have delivered everything: before that a rank may still be asked for what it has
 * not read yet, and its figures would lack those reads. */
static void wait_for_all(const rank *r) {
    for (uint32_t i = 0; i < r->launch.world; i++) {
        wait_for(r, i);
    }
}

/* One of the others dies in the middle. */
static void die_at_last(const rank *r) {
    if ((is(r, "killed") || is(r, "near_killed")) && r->launch.rank == 1) {
        kill(getpid(), SIGKILL);
    }
}

/* A copy of this process comes and goes. */
static void fork_once(const rank *r) {
    pid_t child = is(r, "forked") ? fork() : -1;
    if (child == 0) {
        exit(0); /* with all that is to be done at exit */
    }
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
}

static mr_status share(rank *r, const mr_pipeline *pipeline, mr_error *err) {
    static const char *const pieces[] = {"mpi?map=0&piece=4321&linger=60",
                                         "mpi?map=0&piece=65536&linger=60",
                                         "mpi?map=0&piece=1&linger=60"};
    bool crawls = is(r, "cancelled_sending") && r->launch.rank == 1;
    const char *fabric = is(r, "paced")    ? "mpi?map=0&in_flight=2000&rate=20e6&linger=60"
                         : is(r, "pieces") ? pieces[r->launch.rank % 3]
                         : crawls ? "mpi?map=0&rate=1000&linger=60" /* something waits to be sent */
                         : is_near(r) ? "mpi?linger=60"
                                      : "mpi?map=0&linger=60";
    int64_t seed = is(r, "seeds") ? (int64_t)r->launch.rank / 2 : -1;
    bool dies = is(r, "killed") || is(r, "near_killed");
    int64_t first = dies ? 2 : 3;
    bool cancels = is(r, "cancelled") || is(r, "cancelled_sending");
    bool is_early = is(r, "early") || is(r, "near_early");
    bool ends_early = (is_early || cancels) && r->launch.rank == 1;
    mr_loader *loader = open_loader(r, pipeline, fabric, seed, err), *second = NULL;
    if (!loader) {
        return err->code;
    }
    if (is(r, "two")) {
        second = open_loader(r, pipeline, fabric, seed, err);
    }
    bool is_behind = is(r, "behind") || is(r, "pushed");
    if (is_behind && r->launch.rank == 2) {
        wait_for(r, 0);
        wait_for(r, 1);
    }
    if (is(r, "pushed") && r->launch.rank == 2) {
        wait_for_pushes(loader);
    }
    mr_status status = take_all(r, loader, first, err);
    fork_once(r);
    die_at_last(r);
    if (second) {
        FILE *out = r->out;
        r->out = fopen("/dev/null", "w");
        status = take_all(r, second, INT64_MAX, err) == MR_END ? status : MR_E_INTERNAL;
        fclose(r->out);
        r->out = out;
        mr_loader_close(second);
    }
    if (ends_early && cancels) {
        mr_loader_cancel(loader);
    }
    if (!ends_early && status == MR_OK) {
        status = take_all(r, loader, INT64_MAX, err);
    }
    if (is_behind) {
        tell_figures(loader, r, "sooner");
        tell_delivered(r);
    }
    if (!is_early && !cancels && status == MR_END) {
        tell_delivered(r);
        wait_for_all(r);
    }
    tell_figures(loader, r, "figures");
    mr_loader_close(loader);
    return status;
}

/* ---- An MPI that the program has started ---- */
enum { SERIALIZED = 2, MULTIPLE = 3 }; /* Open MPI's levels */

static void *of_mpi(const char *name) {
    void *mpi = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
    return mpi ? dlsym(mpi, name) : NULL;
}

static void start_mpi(int level) {
    void *symbol = of_mpi("MPI_Init_thread");
    int (*init)(int *, char ***, int, int *) = NULL;
    memcpy(&init, &symbol, sizeof init);
    if (init) {
        init(NULL, NULL, level, &level);
    }
}

/* It is the program's to end: what millrace had of it is over, and it is not ended twice. */
static void end_mpi(void) {
    void *symbol = of_mpi("MPI_Finalize");
    int (*finalize)(void) = NULL;
    memcpy(&finalize, &symbol, sizeof finalize);
    if (!finalize || finalize() != 0) {
        exit(4);
    }
}

/* Stores with names that are not absolute are this rank's, as if it had a node of its own. */
static void enter_node(const rank *r) {
    char path[256];
    snprintf(path, sizeof path, "%s/node.%s.%u", r->folder, r->what, r->launch.rank);
    if (mkdir(path, 0755) != 0 || chdir(path) != 0) {
        exit(3);
    }
}

static int be_rank(const char *what) {
    rank r = {.launch = {.size = (uint32_t)sizeof r.launch},
              .what = what,
              .folder = getenv("MR_PEERS_FOLDER")};
    mr_error err = MR_ERROR_INIT;
    char path[256], document[256];
    mr_launch_detect(&r.launch);
    snprintf(path, sizeof path, "%s/%s.%u", r.folder, what, r.launch.rank);
    bool differs = strncmp(what, "other_", 6) == 0 && r.launch.rank == 2;
    snprintf(document, sizeof document, "%s/%s.json", r.folder,
             differs ? what : getenv("MR_PEERS_DOCUMENT"));
    r.out = fopen(path, "w");
    mr_pipeline *pipeline = NULL;
    enter_node(&r);
    if (is(&r, "serialized") || is(&r, "started")) {
        start_mpi(is(&r, "started") ? MULTIPLE : SERIALIZED);
    }
    mr_status status = mr_pipeline_load(&pipeline, document, NULL, &err);
    status = status == MR_OK ? share(&r, pipeline, &err) : status;
    fprintf(r.out, "end %d %s %s\n", (int)status, err.text, err.hint);
    fclose(r.out);
    if (is(&r, "serialized")) { /* MPI is not ended, so mpirun ends the others after the first */
        tell_delivered(&r);
        wait_for_all(&r);
    }
    if (is(&r, "started")) {
        end_mpi();
    }
    mr_pipeline_free(pipeline);
    return 0;
}

/* ---- Runs of all ranks ---- */
static char self[4096];

/* mpirun's exit code. MPI leaves memory behind, which is not looked at, and takes locks of its own
 * in any order, in one thread. Only this machine's own addresses are used. */
static int run_ranks(const char *what, const char *document, const char *options) {
    static const char own_locks[] = "deadlock:mca_btl_vader\n";
    char command[8192];
    fixture_write(folder, "tsan", own_locks, strlen(own_locks));
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS='halt_on_error=1 suppressions=%s/tsan' "
             "MR_PEERS_FOLDER=%s MR_PEERS_DOCUMENT=%s "
             "OMPI_MCA_btl=self,vader OMPI_MCA_pml=ob1 "
             "OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_oob_tcp_if_include=lo "
             "OMPI_MCA_rmaps_base_oversubscribe=1 MR_PEERS_SCENARIO=%s "
             "mpirun --allow-run-as-root --oversubscribe -n %d %s '%s' >%s/log 2>&1",
             folder, folder, document, what, WORLD, options, self, folder);
    int code = system(command);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

typedef struct got {
    int64_t lines;
    uint64_t sum; /* over all samples with their steps and bytes */
    char *in_order;
    int64_t bytes_read, bytes_in, bytes_out, damaged, samples, pushed, seen;
    int64_t read_sooner; /* when this rank had delivered all, and others perhaps had not */
    int status;
    char error[512];
} got;

static void add_line(got *g, const char *line, size_t *size) {
    uint64_t hash = 14695981039346656037u;
    for (const char *at = line; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    }
    size_t n = strlen(line);
    g->in_order = realloc(g->in_order, *size + n + 1);
    memcpy(g->in_order + *size, line, n + 1);
    *size += n;
    g->sum += hash * (hash | 1);
    g->lines++;
}

static got read_rank(const char *what, int r) {
    char path[256], line[1024];
    got g = {.status = -999, .in_order = calloc(1, 1)};
    size_t size = 0;
    long long f[7];
    snprintf(path, sizeof path, "%s/%s.%d", folder, what, r);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "figures %lld %lld %lld %lld %lld %lld %lld", &f[0], &f[1], &f[2], &f[3],
                   &f[4], &f[5], &f[6]) == 7) {
            g.bytes_read = f[0];
            g.bytes_in = f[1];
            g.bytes_out = f[2];
            g.damaged = f[3];
            g.samples = f[4];
            g.pushed = f[5];
            g.seen = f[6];
        } else if (sscanf(line, "sooner %lld", &f[0]) == 1) {
            g.read_sooner = f[0];
        } else if (sscanf(line, "end %d %511[^\n]", &g.status, g.error) < 1) {
            add_line(&g, line, &size);
        }
    }
    if (file) {
        fclose(file);
    }
    return g;
}

/* What a rank is given where nothing is shared. */
static got run_alone(const char *document, int r, int world) {
    char path[256];
    rank own = {.launch = {.rank = (uint32_t)r, .world = (uint32_t)world}, .what = "alone"};
    mr_error err = MR_ERROR_INIT;
    mr_pipeline *pipeline = NULL;
    snprintf(path, sizeof path, "%s/alone.%d", folder, r);
    own.out = fopen(path, "w");
    snprintf(path, sizeof path, "%s/%s.json", folder, document);
    mr_pipeline_load(&pipeline, path, NULL, &err);
    mr_loader *loader = open_loader(&own, pipeline, NULL, -1, &err);
    mr_status status = take_all(&own, loader, INT64_MAX, &err);
    tell_figures(loader, &own, "figures");
    fprintf(own.out, "end %d -\n", (int)status);
    fclose(own.out);
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    return read_rank("alone", r);
}

/* ---- Data ---- */
static int64_t total_bytes, sizes[FILES];

static void write_document(const char *name, const char *source, const char *more) {
    char path[256], text[1024];
    snprintf(text, sizeof text,
             "{\"source\": {%s}, \"ops\": [], \"batch\": 12, \"seed\": 5, \"epochs\": %d, "
             "\"remainder\": \"pad\"%s}",
             source, EPOCHS, more);
    snprintf(path, sizeof path, "%s.json", name);
    fixture_write(folder, path, text, strlen(text));
}

/* Photos that are much smaller at the cache than as files, or larger, and one store for each rank.
 */
static void make_photos(void) {
    static const struct {
        const char *name, *travel;
        int size;
    } kinds[] = {{"smaller", "smaller", 8},
                 {"raw", "raw", 8},
                 {"larger", "smaller", 200},
                 {"prepared", "prepared", 200},
                 {"other_ops", "smaller", 9}};
    char path[256], text[1024];
    snprintf(path, sizeof path, "%s/photos", folder);
    mkdir(path, 0755);
    for (int i = 0; i < PHOTOS; i++) {
        snprintf(path, sizeof path, "%s/photos/%02d.jpg", folder, i);
        fixture_jpeg_of(path, i, 320, 240);
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(text, sizeof text,
                 "{\"source\": {\"files\": {\"path\": \"%s/photos\"}}, \"ops\": [\"decode_image\", "
                 "{\"resize\": {\"size\": [%d, %d]}}, {\"cache\": {\"path\": \"store\", \"size\": "
                 "\"16MB\"}}], \"batch\": 12, \"seed\": 5, \"epochs\": %d, \"share\": {\"travel\": "
                 "\"%s\"}}",
                 folder, kinds[i].size, kinds[i].size, EPOCHS, kinds[i].travel);
        bool is_other = strncmp(kinds[i].name, "other_", 6) == 0;
        snprintf(path, sizeof path, "%s%s.json", is_other ? "" : "cache_", kinds[i].name);
        fixture_write(folder, path, text, strlen(text));
    }
}

static void make_data(void) {
    char path[128], source[256];
    static char bytes[200000];
    snprintf(path, sizeof path, "%s/data", folder);
    mkdir(path, 0755);
    for (int i = 0; i < FILES; i++) {
        size_t size = i == 7 ? sizeof bytes : (size_t)(50 + 977 * i % 20000);
        memset(bytes, i, size);
        memcpy(bytes, &i, sizeof i);
        snprintf(path, sizeof path, "data/%03d.bin", i);
        fixture_write(folder, path, bytes, size);
        total_bytes += (int64_t)size;
        sizes[i] = (int64_t)size;
    }
    snprintf(path, sizeof path, "%s/rows.txt", folder);
    FILE *rows = fopen(path, "w");
    for (int i = 0; i < LINES; i++) {
        fprintf(rows, "row %d of them, with some more words to make it longer\n", i * 7919);
    }
    fclose(rows);
    snprintf(source, sizeof source, "\"files\": {\"path\": \"%s/data\", \"extensions\": []}",
             folder);
    write_document("strict", source, "");
    write_document("local", source, ", \"share\": \"local\"");
    write_document("other_share", source, ", \"share\": {\"replicas\": 2}");
    write_document("other_shuffle", source, ", \"shuffle\": false");
    write_document("copies", source, ", \"share\": {\"replicas\": 2}");
    write_document("tight", source,
                   ", \"share\": {\"memory\": \"50KB\", \"sample_bytes\": \"10KB\"}");
    snprintf(source, sizeof source,
             "\"lines\": {\"path\": [\"%s/rows.txt\"], "
             "\"block_bytes\": \"2KB\"}",
             folder);
    make_photos();
    const char *shuffle = ", \"shuffle\": {\"window\": 4, \"lanes\": 2}";
    char more[128];
    write_document("blocks", source, shuffle);
    snprintf(more, sizeof more, "%s, \"share\": \"local\"", shuffle);
    write_document("local_blocks", source, more);
}

/* ---- What the plan says ---- */
static int64_t ten_kilobytes(void *context, int64_t item) {
    (void)context;
    (void)item;
    return 10000;
}

/* Who owns and keeps the files, as in the documents above. */
static mr_placement *place(int64_t memory) {
    const int64_t capacity[WORLD] = {memory, memory, memory};
    const mr_placement_config config = {.holders = WORLD,
                                        .capacity = memory > 0 ? capacity : NULL,
                                        .items = FILES,
                                        .size = ten_kilobytes,
                                        .replicas = 1};
    mr_error err = MR_ERROR_INIT;
    mr_placement *placement = NULL;
    CHECK_INT(mr_placement_open(&placement, &config, &err), ==, MR_OK);
    return placement;
}

/* Bytes of the samples that a rank made and does not own. */
static int64_t bytes_to_move(const got *g, int32_t r) {
    mr_placement *placement = place(0);
    int64_t bytes = 0;
    long long sample;
    for (const char *at = g->in_order; sscanf(at, "%*d %*d %lld", &sample) == 1;) {
        bytes += mr_placement_at(placement, sample, 0) != r ? sizes[sample] : 0;
        at = strchr(at, '\n') + 1;
    }
    mr_placement_free(placement);
    return bytes;
}

/* What is kept once, what is not in every epoch. */
static int64_t bytes_to_read(int64_t memory) {
    mr_placement *placement = place(memory);
    int64_t bytes = 0;
    for (int64_t i = 0; i < FILES; i++) {
        bool kept = mr_placement_keeps(placement, i, mr_placement_at(placement, i, 0));
        bytes += sizes[i] * (kept ? 1 : EPOCHS);
    }
    mr_placement_free(placement);
    return bytes;
}

/* The same documents in folders with other files. */
static void make_other_data(void) {
    char path[128], source[256];
    snprintf(path, sizeof path, "%s/fewer", folder);
    mkdir(path, 0755);
    fixture_write(folder, "fewer/000.bin", "another", 7);
    snprintf(source, sizeof source, "\"files\": {\"path\": \"%s/fewer\", \"extensions\": []}",
             folder);
    write_document("other_dataset", source, "");
}

/* ---- Tests ---- */
static void check_strict(const char *what, const char *document, int64_t least, int64_t most) {
    int64_t bytes_read = 0;
    const rank kind = {.what = what};
    CHECK_INT(run_ranks(what, document, ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank(what, r), alone = run_alone(document, r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK(alone.lines > 0);
        CHECK_TEXT(shared.in_order, alone.in_order);
        CHECK_INT(shared.damaged, ==, 0);
        CHECK(shared.bytes_in > 0);
        CHECK_INT(shared.bytes_in, <=, bytes_to_move(&shared, r));
        if (!reads_ahead(&kind)) {
            CHECK_INT(shared.bytes_in, ==, bytes_to_move(&shared, r));
        }
        bytes_read += shared.bytes_read;
        free(shared.in_order);
        free(alone.in_order);
    }
    CHECK_INT(bytes_read, >=, least);
    CHECK_INT(bytes_read, <=, most);
}

TEST(strict_ranks_have_what_they_always_had_and_storage_is_read_once) {
    check_strict("strict", "strict", total_bytes, total_bytes);
}

TEST(small_windows_and_a_low_rate_change_nothing) {
    check_strict("paced", "strict", total_bytes, total_bytes);
}

/* As samples beyond 2 GB go, which an MPI cannot count. Each rank has pieces of another size. */
TEST(large_samples_go_in_pieces) {
    check_strict("pieces", "strict", total_bytes, total_bytes);
}

/* A rank that has delivered all may still have to read for one that is behind: figures that it
 * gives before that lack those reads, and all of them together are the whole dataset, once. */
TEST(a_rank_that_is_done_still_reads_for_one_that_is_behind) {
    int64_t sooner = 0;
    check_strict("behind", "strict", total_bytes, total_bytes);
    for (int r = 0; r < WORLD; r++) {
        got g = read_rank("behind", r);
        sooner += g.read_sooner;
        free(g.in_order);
    }
    CHECK_INT(sooner, <, total_bytes);
}

/* Ranks 0 and 1 are done and have foreseen all that rank 2 needs, which has asked for its first
 * batch alone. */
TEST(what_the_plan_needs_next_comes_without_being_asked_for) {
    check_strict("pushed", "strict", total_bytes, total_bytes);
    got g = read_rank("pushed", 2);
    CHECK_INT(g.pushed, >, 0);
    const char *large = strstr(g.in_order, " 7 ");
    CHECK(large && strncmp(large - 3, "0 0 7", 5) != 0);
    free(g.in_order);
}

TEST(what_has_no_room_is_read_in_every_epoch) {
    int64_t most = bytes_to_read(50000);
    CHECK_INT(most, >, 2 * total_bytes);
    check_strict("tight", "tight", most - total_bytes,
                 most); /* two that ask at once share a read */
}

/* Of files is known which move. */
static void check_set(const char *what, const char *document, int64_t size, bool of_files,
                      int64_t most_moved) {
    uint64_t sum = 0;
    int64_t lines = 0, bytes_read = 0, bytes_in = 0;
    got alone = run_alone(document, 0, 1);
    CHECK_INT(run_ranks(what, document, ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank(what, r), by_itself = run_alone(document, r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK_TEXT(shared.in_order, by_itself.in_order);
        if (of_files) {
            CHECK_INT(shared.bytes_in, ==, bytes_to_move(&shared, r));
        }
        sum += shared.sum;
        lines += shared.lines;
        bytes_read += shared.bytes_read;
        bytes_in += shared.bytes_in;
        free(shared.in_order);
        free(by_itself.in_order);
    }
    CHECK_INT(lines, ==, alone.lines);
    CHECK(sum == alone.sum);
    CHECK_INT(bytes_read, ==, size);
    CHECK_INT(bytes_in, >, 0);
    CHECK_INT(bytes_in, <=, most_moved);
    free(alone.in_order);
}

TEST(local_ranks_together_have_the_same_samples) {
    check_set("local", "local", total_bytes, true, EPOCHS * total_bytes / 2);
}

/* Bytes that moved and samples that came as they are at the cache. */
static void run_cached(const char *document, int64_t *bytes_in, int64_t *samples) {
    CHECK_INT(run_ranks(document, document, ""), ==, 0);
    *bytes_in = *samples = 0;
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank(document, r), alone = run_alone(document, r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK(alone.lines > 0);
        CHECK_TEXT(shared.in_order, alone.in_order);
        CHECK_INT(shared.damaged, ==, 0);
        *bytes_in += shared.bytes_in;
        *samples += shared.samples;
        free(shared.in_order);
        free(alone.in_order);
    }
}

TEST(samples_travel_as_they_are_at_the_cache_where_that_is_smaller) {
    int64_t raw, as_files, smaller, as_samples;
    run_cached("cache_raw", &raw, &as_files);
    run_cached("cache_smaller", &smaller, &as_samples);
    CHECK_INT(as_files, ==, 0);
    CHECK_INT(as_samples, >, 0);
    CHECK_INT(smaller, <, raw);
}

TEST(prepared_samples_travel_whatever_their_size) {
    int64_t bytes, as_files, prepared, as_samples;
    run_cached("cache_larger", &bytes, &as_files);
    run_cached("cache_prepared", &prepared, &as_samples);
    CHECK_INT(as_files, ==, 0); /* "smaller": files are */
    CHECK_INT(as_samples, >, 0);
    CHECK_INT(prepared, >, as_samples * 200 * 200 * 3);
}

/* With two copies a rank of three has two thirds of all; what it lacks it asks for in every epoch.
 */
TEST(copies_are_kept_and_storage_is_still_read_once) {
    int64_t bytes_read = 0, bytes_in = 0, once = 0;
    CHECK_INT(run_ranks("copies", "copies", ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank("copies", r), alone = run_alone("copies", r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK_TEXT(shared.in_order, alone.in_order);
        bytes_read += shared.bytes_read;
        bytes_in += shared.bytes_in;
        once += bytes_to_move(&shared, r);
        free(shared.in_order);
        free(alone.in_order);
    }
    CHECK_INT(bytes_read, ==, total_bytes);
    CHECK_INT(bytes_in, <, once); /* what would move with one copy */
}

static int64_t size_of_rows(void) {
    char path[128];
    struct stat info = {0};
    snprintf(path, sizeof path, "%s/rows.txt", folder);
    stat(path, &info);
    return (int64_t)info.st_size;
}

/* A rank asks for a block that others own at most once a visit; the cut between two lanes may go
 * through a block, which then has two. How often two visits share one message is a matter of time.
 */
static int64_t most_blocks_moved(void) {
    enum { LONGEST_BLOCK = 2048 + 80 };
    return (int64_t)EPOCHS * (WORLD - 1) * (size_of_rows() + LONGEST_BLOCK);
}

TEST(blocks_travel_too) {
    int64_t bytes_read = 0, bytes_in = 0;
    CHECK_INT(run_ranks("blocks", "blocks", ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank("blocks", r), alone = run_alone("blocks", r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK_TEXT(shared.in_order, alone.in_order);
        bytes_read += shared.bytes_read;
        bytes_in += shared.bytes_in;
        free(shared.in_order);
        free(alone.in_order);
    }
    CHECK_INT(bytes_read, ==, size_of_rows());
    CHECK_INT(bytes_in, <=, most_blocks_moved());
}

TEST(local_ranks_share_blocks) {
    check_set("local_blocks", "local_blocks", size_of_rows(), false, most_blocks_moved());
}

/* What each of the others is given, whatever becomes of rank 1. */
static void check_others(const char *what) {
    CHECK_INT(run_ranks(what, "strict", ""), ==, 0);
    for (int r = 0; r < WORLD; r += 2) {
        got shared = read_rank(what, r), alone = run_alone("strict", r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK_TEXT(shared.in_order, alone.in_order);
        free(shared.in_order);
        free(alone.in_order);
    }
}

TEST(a_rank_that_ends_early_is_done_without) {
    check_others("early");
}

TEST(a_rank_that_is_cancelled_is_done_without) {
    check_others("cancelled");
}

/* It does not wait until all is sent that was asked of it, either. */
TEST(a_rank_that_is_cancelled_while_it_sends_is_done_without) {
    check_others("cancelled_sending");
}

TEST(two_loaders_of_a_process_do_not_meet) {
    check_strict("two", "strict", total_bytes, total_bytes);
}

TEST(a_forked_child_takes_nothing_with_it) {
    check_strict("forked", "strict", total_bytes, total_bytes);
}

static void check_refused(const char *what, const char *document, const char *words) {
    run_ranks(what, document, "");
    for (int r = 0; r < WORLD; r++) {
        got g = read_rank(what, r);
        CHECK_INT(g.status, <, 0);
        CHECK_INT(g.lines, ==, 0);
        CHECK_HAS(g.error, words);
        free(g.in_order);
    }
}

TEST(ranks_with_different_seeds_are_all_refused) {
    check_refused("seeds", "strict", "rank 2 has another seed than rank 0");
}

TEST(ranks_with_different_documents_are_all_refused) {
    check_refused("other_ops", "cache_smaller", "rank 2 has another pipeline than rank 0");
    check_refused("other_shuffle", "strict", "rank 2 has another shuffle than rank 0");
    check_refused("other_share", "strict", "rank 2 has another share than rank 0");
}

TEST(ranks_with_different_datasets_are_all_refused) {
    make_other_data();
    check_refused("other_dataset", "strict", "rank 2 has another dataset than rank 0");
}

TEST(an_mpi_without_room_for_threads_is_refused) {
    check_refused("serialized", "strict", "MPI_THREAD_MULTIPLE");
}

static void check_killed(const char *what) {
    run_ranks(what, "strict", "--enable-recovery");
    for (int r = 0; r < WORLD; r += 2) {
        got g = read_rank(what, r);
        CHECK_INT(g.status, ==, MR_E_IO);
        CHECK_HAS(g.error, "rank 1 (process ");
        CHECK_HAS(g.error, "is gone");
        free(g.in_order);
    }
}

TEST(a_rank_that_is_killed_ends_the_others_with_its_name) {
    check_killed("killed");
}

/* ---- Ranks of one machine, which see what the others keep ---- */
/* Nothing travels but words; storage is read once. */
static void check_near(const char *what, const char *document, int64_t size) {
    int64_t bytes_read = 0, seen = 0;
    CHECK_INT(run_ranks(what, document, ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank(what, r), alone = run_alone(document, r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK(alone.lines > 0);
        CHECK_TEXT(shared.in_order, alone.in_order);
        CHECK_INT(shared.damaged, ==, 0);
        CHECK_INT(shared.bytes_in, ==, 0);
        CHECK_INT(shared.bytes_out, ==, 0);
        bytes_read += shared.bytes_read;
        seen += shared.seen;
        free(shared.in_order);
        free(alone.in_order);
    }
    CHECK_INT(bytes_read, ==, size);
    CHECK_INT(seen, >, 0);
}

TEST(near_ranks_see_what_others_keep) {
    check_near("near_strict", "strict", total_bytes);
    check_near("near_local", "local", total_bytes);
    check_near("near_copies", "copies", total_bytes);
}

TEST(near_ranks_see_blocks) {
    check_near("near_blocks", "blocks", size_of_rows());
    check_near("near_local_blocks", "local_blocks", size_of_rows());
}

/* What is not kept is not seen: it goes by messages. */
TEST(near_ranks_are_sent_what_has_no_room) {
    int64_t bytes_in = 0, seen = 0;
    CHECK_INT(run_ranks("near_tight", "tight", ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank("near_tight", r), alone = run_alone("tight", r, WORLD);
        CHECK_TEXT(shared.in_order, alone.in_order);
        bytes_in += shared.bytes_in;
        seen += shared.seen;
        free(shared.in_order);
        free(alone.in_order);
    }
    CHECK_INT(bytes_in, >, 0);
    CHECK_INT(seen, >, 0);
}

/* Each try has stores of its own, empty ones. */
static int64_t seen_at_cache(const char *document, int tries) {
    char what[64];
    int64_t seen = 0;
    snprintf(what, sizeof what, "near_%s_%d", document, tries);
    CHECK_INT(run_ranks(what, document, ""), ==, 0);
    for (int r = 0; r < WORLD; r++) {
        got shared = read_rank(what, r), alone = run_alone(document, r, WORLD);
        CHECK_INT(shared.status, ==, MR_END);
        CHECK_TEXT(shared.in_order, alone.in_order);
        CHECK_INT(shared.damaged, ==, 0);
        seen += shared.seen;
        free(shared.in_order);
        free(alone.in_order);
    }
    return seen;
}

/* Samples as they are at the cache are seen, too; files that they may take the place of travel.
 * Which samples are there in time to be seen is a matter of speed, so there are several tries. */
TEST(near_ranks_see_samples_as_they_are_at_the_cache) {
    static const char *const documents[] = {"cache_smaller", "cache_prepared", "cache_raw"};
    enum { TRIES = 8 };
    for (int i = 0; i < 3; i++) {
        int64_t seen = 0;
        for (int tries = 0; tries < TRIES && seen == 0; tries++) {
            seen = seen_at_cache(documents[i], tries);
        }
        CHECK_INT(seen, >, 0);
    }
}

/* What it has read by then can still be seen. */
TEST(a_near_rank_that_ends_early_is_done_without) {
    check_others("near_early");
}

TEST(a_near_rank_that_is_killed_ends_the_others_with_its_name) {
    check_killed("near_killed");
}

/* As mpi4py and Horovod do. */
TEST(an_mpi_that_the_program_has_started_is_used_and_left_to_it) {
    check_strict("started", "strict", total_bytes, total_bytes);
}

/* torchrun and the like give ranks, but no MPI. */
TEST(ranks_without_mpirun_are_told_so) {
    mr_error err = MR_ERROR_INIT;
    char path[256];
    mr_pipeline *pipeline = NULL;
    rank r = {.launch = {.rank = 0, .world = 4}, .what = "alone"};
    snprintf(path, sizeof path, "%s/strict.json", folder);
    mr_pipeline_load(&pipeline, path, NULL, &err);
    CHECK(!open_loader(&r, pipeline, "mpi", -1, &err));
    CHECK_HAS(err.text, "not started by mpirun");
    CHECK(!open_loader(&r, pipeline, "mpi?speed=3", -1, &err));
    CHECK_HAS(err.text, "cannot be understood");
    mr_pipeline_free(pipeline);
}

static int run_tests(int argc, char **argv);
#define main run_tests
TEST_MAIN()
#undef main

static bool can_run(void) {
    char module[8192];
    snprintf(module, sizeof module, "%s", self);
    *strrchr(module, '/') = '\0';
    strcat(module, "/../millrace_mpi_openmpi.so");
    return access(module, R_OK) == 0 && system("mpirun --version 2>/dev/null | grep -q Open") == 0;
}

int main(int argc, char **argv) {
    const char *scenario = getenv("MR_PEERS_SCENARIO");
    if (scenario) {
        return be_rank(scenario);
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    if (!can_run()) {
        printf("no Open MPI here: nothing was tested\n");
        return 77;
    }
    snprintf(folder, sizeof folder, "%s", fixture_folder());
    if (chdir(folder) != 0) {
        return 1;
    }
    make_data();
    int code = run_tests(argc, argv);
    if (!getenv("MR_KEEP_FOLDER")) {
        fixture_remove(folder);
    }
    return code;
}
