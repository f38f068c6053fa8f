/* SPDX-License-Identifier: Apache-2.0 */
/* millrace.h - the whole public interface, in reading order; this file is the manual.
 *
 * millrace turns a dataset into ready batches for training, by one law:
 *
 *     batch(step) = f(dataset, pipeline, seed, epoch, step, world, rank)
 *
 * and of nothing else: not the number of threads, not timing, not the CPU. So a run can be
 * repeated, resumed at any step, and continued on another number of ranks, byte for byte.
 *
 * The shortest program (examples/loop.c is this one, complete):
 *
 *     mr_pipeline *pipeline;
 *     mr_loader *loader;
 *     mr_batch *batch;
 *     mr_error err = MR_ERROR_INIT;
 *     mr_pipeline_load(&pipeline, "pipeline.json", NULL, &err);
 *     mr_loader_open(&loader, pipeline, NULL, &err);
 *     while (mr_loader_next(loader, &batch, &err) == MR_OK) {
 *         const mr_array *image = mr_batch_array(batch, 0);
 *         ...
 *         mr_batch_unref(batch);
 *     }
 *     mr_loader_close(loader);
 *     mr_pipeline_free(pipeline);
 *
 * Ownership. *_load, *_parse and *_open give the caller an object to end with *_free or *_close,
 * which accept NULL. Everything returned as `const T *` is borrowed and lives as long as the
 * object it came from. Batches are counted: mr_batch_unref gives one back, from any thread, also
 * after the loader is closed.
 *
 * Threads. Different objects may be used from different threads at once. A pipeline is immutable
 * and may be shared. A loader belongs to one consumer at a time; mr_loader_cancel and
 * mr_loader_stats may be called from any thread meanwhile. Batches may be read, referenced and
 * given back from any thread.
 *
 * Structs. Those that the caller owns and that may grow begin with their size as the caller was
 * compiled with it: a program built with an older header goes on working, since what its structs
 * lack is neither read nor written. What the library lends (const T *) may grow at its end. Small
 * values that go in lists or into other structs (mr_type, mr_field, mr_view, mr_key, mr_parcel,
 * mr_entry, mr_error, mr_log, mr_allocator, mr_record_clock) stay as they are.
 *
 * Failure. Functions return mr_status and fill the caller's mr_error, which may be NULL. On
 * failure no output argument is changed. The library never prints, exits or aborts. It has no
 * global state and installs no signal handler, with one exception: while a store is open (op
 * cache), the process has a table of its stores, and a handler of SIGBUS and SIGSEGV that passes on
 * what is not its own.
 *
 * Caveats.
 *   fork     A loader's threads do not exist in a forked child: there mr_loader_next returns
 *            MR_E_FORKED, and mr_loader_close frees nothing that the parent still uses. Open
 *            loaders after forking.
 *   signals  System calls that a signal interrupts are continued. mr_loader_next does not return
 *            for a signal; a handler may set a flag, another thread may call mr_loader_cancel.
 *            Worker threads block all signals but those of their own faults.
 *   NFS      Files are opened by name for each sample. A file replaced by another between two
 *            epochs is read as it then is; the digest shows it. Listing trusts what the server
 *            says at mr_loader_open.
 *   mmap     Samples in files are read, not mapped: a file that shrinks while it is read is an
 *            error that names it, never SIGBUS. The array source maps its one file; see there.
 *   memory   mr_stats.memory_bound is the most that dense fields of batches in flight, blocks and
 *            read-ahead will hold. On top come ragged fields, whose size nobody knows beforehand,
 *            batches that the consumer keeps beyond the current one (each may keep the columns of
 *            a whole block, where these are lent: see source.h), for each thread the
 *            intermediate images of the sample it works on, which decode_image's max_pixels
 *            limits, and for each store MR_STORE_QUEUE_BYTES of samples that wait to be
 *            written, with one more for each thread.
 *            Overcommit and cgroup limits are the operating system's: past them the process is
 *            killed, not told.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <millrace/source.h>
#include <millrace/op.h>
#include <millrace/trace.h>
#include <millrace/record.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MR_VERSION_MAJOR 0
#define MR_VERSION_MINOR 1
#define MR_VERSION_PATCH 0

MR_API const char *mr_version(void); /* "0.1.0" */

/* The error as a good compiler would print it, over several lines, ending in a newline:
 *     error: cannot decode: premature end of JPEG data
 *       file: photos/cat/17.jpg (sample 204, byte 1832)
 *       op: decode_image
 *       hint: ...
 * Returns the length that was needed, as snprintf does. */
MR_API size_t mr_error_format(const mr_error *err, char *buffer, size_t size);

/* ---- 0. Plug-ins ----------------------------------------------------------------------------
 * Ops from a shared library, by explicit path only: a pipeline document is data and cannot name
 * one. Must outlive every pipeline parsed with its ops. */
typedef struct mr_plugin mr_plugin;

MR_API mr_status mr_plugin_open(mr_plugin **out, const char *path, mr_error *err);
MR_API const mr_op_class *const *mr_plugin_ops(const mr_plugin *plugin); /* NULL-terminated */
MR_API void mr_plugin_close(mr_plugin *plugin);

/* ---- 1. Pipelines ---------------------------------------------------------------------------
 * A pipeline is a value: a JSON document, checked against the tables of its source and ops.
 * Parsing reads no data but headers that types stand in (the array source's). extra_ops (NULL
 * allowed) is a NULL-terminated array of op tables beside the built-in ones. */
typedef struct mr_pipeline mr_pipeline;

MR_API mr_status mr_pipeline_parse(mr_pipeline **out, const char *json, size_t size,
                                   const mr_op_class *const *extra_ops, mr_error *err);
/* The same with more tables beside the built-in ones: a binding's own. Both lists are ended by NULL
 * and may be NULL; the tables must outlive the pipeline. Tables that were built with an older
 * header, of a smaller size, are taken too: what they lack they do without. */
typedef struct mr_tables {
    uint32_t size; /* sizeof(mr_tables) */
    const mr_op_class *const *ops;
    const mr_source_class *const *sources;
} mr_tables;

MR_API mr_status mr_pipeline_parse_with(mr_pipeline **out, const char *json, size_t size,
                                        const mr_tables *tables, mr_error *err);
MR_API mr_status mr_pipeline_load(mr_pipeline **out, const char *path,
                                  const mr_op_class *const *extra_ops, mr_error *err);
MR_API void mr_pipeline_free(mr_pipeline *pipeline);

/* The document with every default written out and keys in a fixed order. */
MR_API const char *mr_pipeline_json(const mr_pipeline *pipeline);

/* Whether it follows a stream, whose end is not known. */
MR_API bool mr_pipeline_is_stream(const mr_pipeline *pipeline);

/* 32 hexadecimal digits: what determines the bytes (source kind, ops, their parameters and
 * versions, fields), not where the data lies nor seed, batch and epochs. */
MR_API const char *mr_pipeline_fingerprint(const mr_pipeline *pipeline);

/* Settings of the document, as given or by default. */
typedef struct mr_settings {
    int64_t batch; /* samples per step, over all ranks together */
    int64_t seed;
    int64_t epochs;
    bool shuffle;
    bool fuse;
    int32_t remainder; /* mr_remainder */
    int32_t on_error;  /* mr_on_error */
    mr_strings fields; /* names asked for; empty: all that are not optional */
    int32_t threads;   /* mr_threads_kind */
} mr_settings;

typedef enum mr_threads_kind {
    MR_THREADS_CPUS, /* one for each CPU */
    MR_THREADS_ADAPT /* MR_THREADS_AUTO */
} mr_threads_kind;

typedef enum mr_remainder {
    MR_KEEP, /* the last batch is short; with several ranks some may get none */
    MR_DROP, /* samples that do not fill a batch are left out */
    MR_PAD,  /* the last batch is filled up from the start of the epoch's order */
    MR_EVEN  /* the last batch is short, and filled up in this way until all ranks have as many */
} mr_remainder;

typedef enum mr_on_error {
    MR_ON_ERROR_FAIL, /* a bad sample ends the run with an error that names it */
    MR_ON_ERROR_SKIP  /* it is replaced by another, chosen by the law, counted and listed */
} mr_on_error;

MR_API const mr_settings *mr_pipeline_settings(const mr_pipeline *pipeline);

/* What a sample looks like after the source (stage 0) and after each op (stage k). */
typedef struct mr_stage {
    const char *name;   /* of the source or op */
    const char *params; /* JSON object, complete */
    const char *field;  /* the field it works on */
    mr_type out;
} mr_stage;

MR_API int32_t mr_pipeline_n_stages(const mr_pipeline *pipeline);
MR_API const mr_stage *mr_pipeline_stage(const mr_pipeline *pipeline, int32_t i);

/* What is allowed but probably not meant, as sentences; NULL when there are no more. A loader says
 * them in its log. */
MR_API const char *mr_pipeline_warning(const mr_pipeline *pipeline, int32_t i);

/* Fields of a sample as delivered. */
MR_API int32_t mr_pipeline_n_fields(const mr_pipeline *pipeline);
MR_API const mr_field *mr_pipeline_field(const mr_pipeline *pipeline, int32_t i);

/* ---- 2. Batches -----------------------------------------------------------------------------
 * One array per field, 64-byte aligned, with a leading axis over the samples. */
typedef struct mr_batch mr_batch;

typedef struct mr_array {
    const char *name;
    mr_dtype dtype;
    int32_t n_dims; /* dense: 1 + the sample's; ragged: 1 */
    int64_t dims[MR_MAX_DIMS + 1];
    void *data;
    size_t size; /* bytes of data */

    /* Ragged fields (a dimension varies from sample to sample): sample i is
     * data[offsets[i] .. offsets[i + 1]), counted in elements, of shape
     * shapes[i * sample_dims .. + sample_dims). NULL for dense fields. */
    const int64_t *offsets;
    const int64_t *shapes;
    int32_t sample_dims;
    mr_layout layout;
} mr_array;

/* A batch whose rows stand in a Parquet file in their order may have been lent its fields from
 * their row group (nothing is copied): then it keeps those columns whole, also the rows of other
 * batches. Who keeps a few batches of many row groups for long copies what it needs. */
MR_API void mr_batch_ref(mr_batch *batch);
MR_API void mr_batch_unref(mr_batch *batch); /* NULL allowed */

MR_API int64_t mr_batch_size(const mr_batch *batch);  /* samples */
MR_API int64_t mr_batch_valid(const mr_batch *batch); /* samples that are not padding; they lead */
MR_API int64_t mr_batch_epoch(const mr_batch *batch);
MR_API int64_t mr_batch_step(const mr_batch *batch);           /* within the epoch */
MR_API const int64_t *mr_batch_samples(const mr_batch *batch); /* dataset index of each sample */

MR_API int32_t mr_batch_n_arrays(const mr_batch *batch);
MR_API const mr_array *mr_batch_array(const mr_batch *batch, int32_t i);
MR_API const mr_array *mr_batch_find(const mr_batch *batch, const char *name); /* or NULL */

/* Draws a batch as a contact sheet, a PNG file: its image field as the model will see it (numbers
 * other than bytes are spread over black to white), each cell with its label and index. */
typedef struct mr_sheet {
    uint32_t size;   /* sizeof(mr_sheet) */
    int32_t columns; /* 0: chosen */
    int32_t cell;    /* pixels of a cell's longer side; 0: the image's own, at most 256 */
    const char *const *classes; /* (optional) names to show in place of labels */
    int64_t n_classes;
} mr_sheet;

MR_API mr_status mr_batch_sheet(const mr_batch *batch, const mr_sheet *sheet, const char *path,
                                mr_error *err);

/* 32 hexadecimal digits over types, shapes and bytes, if mr_options.digest asked for it, else "".
 * Made of the digests of its samples. */
MR_API const char *mr_batch_digest(const mr_batch *batch);
MR_API uint64_t mr_batch_sample_digest(const mr_batch *batch, int64_t i);

/* ---- 3. Loaders -----------------------------------------------------------------------------
 * A loader is a pipeline at work: the dataset is open, threads run, batches come in order. */
typedef struct mr_loader mr_loader;

typedef enum mr_io_kind {
    MR_IO_AUTO,  /* io_uring where the kernel allows it, else threads */
    MR_IO_URING, /* io_uring or an error */
    MR_IO_PREAD  /* a pool of reading threads */
} mr_io_kind;

/* Seeds stand in JSON documents, where whole numbers are exact up to here. */
#define MR_AHEAD_MAX 1024 /* batches */
#define MR_THREADS_AUTO UINT32_MAX
#define MR_SEED_MAX ((INT64_C(1) << 53) - 1)

/* What a policy can see. */
typedef struct mr_policy_view {
    int64_t step;
    int64_t size; /* of the buffer, at most */
    int64_t n;    /* samples in it */
    const int64_t *samples, *labels;
} mr_policy_view;

typedef struct mr_options {
    uint32_t size;    /* sizeof(mr_options): MR_OPTIONS_INIT sets it */
    uint32_t threads; /* 0: one per CPU this process may use, or as the pipeline's "threads" says.
                         MR_THREADS_AUTO: at most so many, adapted while it runs, with reads,
                         batches and bytes ahead where those are 0 */
    uint32_t world;   /* number of ranks; 0 counts as 1 */
    uint32_t rank;
    int64_t seed;   /* -1: the pipeline's; at most MR_SEED_MAX */
    int64_t batch;  /* 0: the pipeline's. Over all ranks; a multiple of world */
    int64_t epochs; /* 0: the pipeline's; the run ends after epoch `epochs` - 1 */

    const char *state; /* (optional) a saved state to go on from */
    size_t state_size;

    bool digest;              /* compute digests of samples and batches */
    bool poison;              /* fill batch memory with garbage before use: for tests */
    uint32_t batches_ahead;   /* batches being made beside the one consumed; 0: chosen */
    uint32_t reads_in_flight; /* 0: 32. Independent of `threads` */
    int64_t read_ahead_bytes; /* 0: 64 MB. Most that read-ahead holds, but always one file */
    mr_io_kind io;
    const char *disable_cpu;       /* (optional) features that sources, ops and codecs do not use,
                                      "avx2,avx512": for tests. Orders, draws and hashes choose for
                                      themselves, and have one result */
    const mr_allocator *allocator; /* (optional) for batch memory, pinned memory for instance;
                                      its memory must stay valid until the last batch is gone */
    mr_log log;                    /* (optional) warnings: skipped entries, bad samples */
    int64_t first_epoch;           /* where a run without a saved state starts */
    const char *trace;             /* (optional) a file of its own to write spans to: see trace.h */
    const char *journal;           /* (streams) folder for what the clock decides; NULL: none */
    bool replay;                   /* decide as the journal says and write nothing to it */
    const char *fabric; /* (optional) "redis://HOST": bytes that others have are taken from
                           there, and they are offered ours; "mpi": ranks send each other what they
                           keep; see docs/fabric.md */
    /* For tests and benchmarks: files as if from storage that takes so long to open one and gives
     * bytes at such a rate, over all reads together; 0: as fast as it is. Files are read by a pool
     * of threads then. What is mapped, and stores, are not slowed down. */
    int64_t storage_bytes_per_second;
    int64_t storage_open_ns;
    const struct mr_policy *policy; /* (streams) for the policy "custom"; copied */
    bool by_epoch; /* nothing of an epoch is made before its first batch is asked for: for hosts
                      whose datasets change between epochs. Not of streams */
    bool no_names; /* a trace has no names of files, folders and classes */
} mr_options;

#define MR_OPTIONS_INIT                                                                            \
    { .size = (uint32_t)sizeof(mr_options), .seed = -1 }

/* Lists the dataset, starts threads. The pipeline must outlive the loader. options may be NULL. */
MR_API mr_status mr_loader_open(mr_loader **out, const mr_pipeline *pipeline,
                                const mr_options *options, mr_error *err);

/* MR_OK: *out is the next batch, to be given back with mr_batch_unref. MR_END: all epochs are
 * over. Blocks meanwhile. A failure is final: later calls return the same error. */
MR_API mr_status mr_loader_next(mr_loader *loader, mr_batch **out, mr_error *err);

/* The same, but returns MR_LATER if there is no batch within this time; then ask again. For callers
 * that must look after other things meanwhile, signals for instance. */
MR_API mr_status mr_loader_next_within(mr_loader *loader, int64_t nanoseconds, mr_batch **out,
                                       mr_error *err);

/* Makes a blocked and every later mr_loader_next return MR_E_CANCELLED. Any thread. */
MR_API void mr_loader_cancel(mr_loader *loader);

/* Ends threads and frees the loader, at any time. Batches that were handed out stay valid. */
MR_API void mr_loader_close(mr_loader *loader);

/* Of a stream that is followed nobody knows: -1. */
MR_API int64_t mr_loader_n_samples(const mr_loader *loader);  /* in the dataset */
MR_API int64_t mr_loader_n_steps(const mr_loader *loader);    /* of a whole epoch, for this rank */
MR_API int64_t mr_loader_steps_left(const mr_loader *loader); /* of the run, for this rank */
MR_API const char *mr_loader_fingerprint(const mr_loader *loader); /* of the dataset */

/* The name of class i of a field: a folder's, or a list's. "" is the field label, or where there is
 * none, the only field that has classes. NULL: past the last one, or the field has no classes. */
MR_API const char *mr_loader_class(const mr_loader *loader, const char *field, int64_t i);

/* Digest of all batches delivered so far, in order; 32 hexadecimal digits into `out`. */
MR_API void mr_loader_digest(const mr_loader *loader, char out[33]);

/* ---- 4. State -------------------------------------------------------------------------------
 * The state after the last delivered batch: a JSON document of less than MR_STATE_MAX bytes (with
 * rehearsal more: mr_loader_state_bytes) that carries fingerprints, seed, epoch and position, and,
 * where the buffer has mr_loader_state_bytes, the names of classes (of up to 64 KB together). It
 * fits any world size and any batch size: position counts samples of the global order. A state that
 * does not fit the pipeline, dataset or seed is refused with MR_E_STATE and says what differs. */
#define MR_STATE_MAX 1024

MR_API mr_status mr_loader_save(const mr_loader *loader, char *buffer, size_t size,
                                mr_error *err); /* terminated text */

/* Room that mr_loader_save needs now, at most. */
MR_API size_t mr_loader_state_bytes(const mr_loader *loader);

/* The same in two parts, for who would copy it once more: into `buffer`, which has that room, all
 * of it but the text of the member "rehearsal", which may be megabytes and is lent, *n letters,
 * until the next call for this loader. *n is -1 where a state has no such member. */
MR_API mr_status mr_loader_save_apart(const mr_loader *loader, char *buffer, const char **letters,
                                      int64_t *n, mr_error *err);

/* Writes text to a file so that it is whole or the old one stays: temporary name, sync, rename. */
MR_API mr_status mr_file_replace(const char *path, const char *text, size_t size, mr_error *err);

/* Reads a whole file of at most `limit` bytes; *out is ended by a zero byte (not counted) and is
 * freed with mr_free. */
MR_API mr_status mr_file_load(const char *path, size_t limit, char **out, size_t *size,
                              mr_error *err);
MR_API void mr_free(void *memory);

/* A policy of one's own for "rehearse": {"policy": "custom"}. What it decides is written to the
 * journal, which must be there: a replay asks nobody. The consumer's thread calls it. */
typedef struct mr_policy {
    uint32_t size; /* sizeof(mr_policy) */
    void *user;

    /* At a step, what is in the buffer, by place, and n samples that are offered to it, each with a
     * random key of its own: places[i] becomes where sample i goes. A place below the number that
     * are in it (each new place counts from then on) is another's, which leaves; that number itself
     * is a new place, unless the buffer is full; -1: it is not kept. */
    mr_status (*place)(void *user, const struct mr_policy_view *view, const int64_t *samples,
                       const int64_t *labels, const uint64_t *keys, int64_t n, int64_t *places,
                       mr_error *err);

    /* Which n places are shown again, one for each slot, by a random key for each. `weights` are 1
     * unless they are set. */
    mr_status (*draw)(void *user, const struct mr_policy_view *view, const uint64_t *keys,
                      int64_t n, int64_t *places, double *weights, mr_error *err);
} mr_policy;

/* How a run stands to the stream that it follows. */
typedef struct mr_stream_stats {
    uint32_t size;       /* sizeof(mr_stream_stats), set by the caller */
    int64_t entries;     /* that this rank has read */
    int64_t bytes;       /* of them */
    int64_t missing;     /* damaged or gone */
    int64_t waiting;     /* read, and of no step yet */
    int64_t behind;      /* in the stream, and of no step yet; -1: the source cannot tell */
    int64_t newest;      /* the time of the newest entry that was read; 0: none was */
    int64_t replayed;    /* samples shown again, in delivered batches of this rank */
    int64_t left_out;    /* by thinning and dropping */
    int64_t filled;      /* steps in which old samples took the place of new ones */
    int64_t kept;        /* samples in the rehearsal buffer */
    int64_t starved_ns;  /* time that the consumer waited because the stream had too little */
    int64_t spilled;     /* entries that were written to the folder of "spill" */
    int64_t spill_bytes; /* that its files take now */
    int64_t received;    /* entries whose bytes other ranks sent, and those bytes */
    int64_t received_bytes;
    int64_t sent; /* likewise, to other ranks */
    int64_t sent_bytes;
} mr_stream_stats;

/* MR_E_PARAM: it follows none. Asks the source, so it may take a moment; any thread. */
MR_API mr_status mr_loader_stream(const mr_loader *loader, mr_stream_stats *out);

/* What a trainer says of samples that it was given, whatever batch they were in; of those that the
 * rehearsal buffer does not have, nothing is kept. It is written to the journal, which must be
 * there, and holds from the next step on that is planned: some batches ahead. Said once after a
 * batch; the consumer's. */
typedef struct mr_feedback {
    uint32_t size; /* sizeof(mr_feedback) */
    int64_t n;
    const int64_t *samples;
    const double *values; /* (optional) for the policy "priority": 0 to 65535, such as losses */
    const float *extra;   /* (optional) `width` numbers for each, which come back with the sample in
                             the field "extra": logits, say */
    int64_t width;
} mr_feedback;
MR_API mr_status mr_loader_feed_back(mr_loader *loader, const mr_feedback *feedback, mr_error *err);

/* Runs again what the run of a journal delivered (see mr_options.journal), and compares it with the
 * digests that are noted there. MR_E_STATE: something differs. extra_ops may be NULL; threads 0: as
 * for a loader. */
typedef struct mr_replay_result {
    uint32_t size; /* sizeof(mr_replay_result), set by the caller */
    int64_t steps, samples;
    int64_t compared; /* digests */
    char digest[33];  /* of all batches */
} mr_replay_result;
MR_API mr_status mr_replay(const char *folder, const mr_op_class *const *extra_ops,
                           uint32_t threads, mr_replay_result *out, mr_error *err);

/* What a run would do and hold, without running: the data is opened as a loader opens it, but
 * nothing of it is read and no thread is started. options may be NULL. */
typedef struct mr_outlook {
    uint32_t size;        /* sizeof(mr_outlook), set by the caller */
    int64_t samples;      /* of an epoch, after views; -1: a stream, which has no end */
    int64_t steps;        /* of this rank and epoch; -1 likewise */
    int64_t memory_bound; /* as in mr_stats */
    int64_t blocks; /* of several samples that are read; 0: samples are single, or in memory */
    int64_t blocks_bound; /* of those that are alive at once */
    int64_t shuffled;     /* blocks whose samples are shuffled together; 0: none are */
    int32_t lanes;        /* that the shuffle takes samples of in turn */

    /* How good the shuffle of one source is: blocks that a batch has samples of, and how many it
     * would have if all blocks were shuffled together. 0: samples are single, or sources mixed. */
    double blocks_met, blocks_met_full;
} mr_outlook;
MR_API mr_status mr_pipeline_outlook(const mr_pipeline *pipeline, const mr_options *options,
                                     mr_outlook *out, mr_error *err);

/* ---- 5. Statistics -------------------------------------------------------------------------- */
typedef struct mr_stats {
    uint32_t size; /* sizeof(mr_stats), set by the caller */
    uint32_t threads;
    int64_t samples;      /* delivered */
    int64_t batches;      /* delivered */
    int64_t skipped;      /* bad samples replaced, in delivered batches */
    int64_t bytes_read;   /* by the reads that finished */
    int64_t wait_ns;      /* that mr_loader_next spent waiting */
    int64_t memory_bound; /* bytes: see Caveats */
    int64_t batch_bytes;  /* of one dense batch */
    uint32_t batches_ahead;
    uint32_t reads_in_flight;
    uint32_t morsel;          /* samples per ticket */
    const char *io;           /* "io_uring", "pread" or "none" */
    const char *cpu;          /* features in use, "avx2" */
    uint32_t threads_working; /* of `threads`: fewer where MR_THREADS_AUTO gave some back */
    bool adapts;              /* MR_THREADS_AUTO; batches_ahead and reads_in_flight are of now */
    int64_t changes;          /* of those numbers so far */
    int64_t blocks_bound; /* of blocks of several samples, read or to be read; 0: there are none */
    int64_t blocks_alive; /* of them, now: planned, read, unpacked, and not yet given back */
    int64_t blocks_most;  /* that were at once */
} mr_stats;

MR_API void mr_loader_stats(const mr_loader *loader, mr_stats *out);

/* Where the bytes of blocks came from, in the order in which it was asked; the files come last. */
typedef struct mr_origin_stats {
    uint32_t size;    /* sizeof(mr_origin_stats), set by the caller */
    const char *name; /* "store", "memory", "peers", "fabric", "objects" (kept ones), "object" (by a
                         server), "files" */
    int64_t asked, found; /* blocks */
    int64_t bytes; /* that it gave; what caches find in a store counts there (mr_cache_stats) */

    /* of servers; else 0 */
    int64_t requests, retries, hedges; /* all; after a failure; for another that hung */
    int32_t in_flight, width;          /* now; how many there may be */
    double first_byte;                 /* seconds until an answer begins, a moving mean */
    int64_t received;                  /* bytes by requests, up to now */
    int64_t busy;                      /* answers that the server is: 429, 503 */
    int64_t narrowed;                  /* how often more requests at once brought nothing */
} mr_origin_stats;

MR_API int32_t mr_loader_n_origins(const mr_loader *loader);
MR_API mr_status mr_loader_origin(const mr_loader *loader, int32_t i, mr_origin_stats *out);

/* The loader's fabric: what was asked of it and offered to it. MR_LATER: there is none. */
typedef struct mr_traffic {
    uint32_t size;                    /* sizeof(mr_traffic), set by the caller */
    int64_t asked, found, bytes_in;   /* values */
    int64_t samples;                  /* of them, as they are at the cache op */
    int64_t damaged;                  /* came, but not as they were put */
    int64_t offered, kept, bytes_out; /* values */
    int64_t full;                     /* refused for want of memory there */
    int64_t dropped;                  /* not offered for want of room here */
    int64_t failures;                 /* connections that were refused, lost or too slow */
    int32_t servers, up;
    int64_t messages; /* between ranks: that went out, of all kinds; else 0 */
    int64_t pushed;   /* of those found: that came before they were asked for; else 0 */
} mr_traffic;

MR_API mr_status mr_loader_traffic(const mr_loader *loader, mr_traffic *out);

/* The caches of the pipeline, in its order. What was found is this loader's; what was stored and
 * evicted is the process's, for all its loaders that share the store. */
typedef struct mr_cache_stats {
    uint32_t size;    /* sizeof(mr_cache_stats), set by the caller */
    int32_t op;       /* place in the pipeline */
    const char *path; /* of the store; NULL: it could not be opened */
    int64_t hits, misses;
    int64_t waits;      /* for samples that somebody else was making */
    int64_t bytes_read; /* by hits */
    int64_t stored, bytes_stored;
    int64_t evicted;
    int64_t refused;  /* made and not stored: the store is full, or failing */
    int64_t damaged;  /* found damaged, and made again */
    const char *kept; /* "samples"; "index": what the decoder knows of them; "nothing": another
                         cache pays more; NULL: no store. hits and misses are of these */
} mr_cache_stats;

/* A store has a thread that writes; at most so many bytes wait for it. flush waits until what the
 * caches keep so far is written or refused, and counted. It gives up where nothing was written for
 * 30 seconds: the disk is stuck then, and what the store lacks is made again. Closing the loader
 * flushes too, and after that waits for the write that is under way, for as long as that takes. */
#define MR_STORE_QUEUE_BYTES 256000000u
MR_API void mr_loader_flush(mr_loader *loader);

MR_API int32_t mr_loader_n_caches(const mr_loader *loader);
MR_API mr_status mr_loader_cache(const mr_loader *loader, int32_t i, mr_cache_stats *out);

/* Bad samples that were replaced in delivered batches, oldest first; at most the first 1,000 are
 * kept, all are counted. */
typedef struct mr_skip {
    uint32_t size; /* sizeof(mr_skip), set by the caller */
    int64_t epoch, step, sample, replacement;
    const mr_error *error; /* borrowed until the loader closes */
} mr_skip;

MR_API int64_t mr_loader_n_skips(const mr_loader *loader); /* kept */
MR_API mr_status mr_loader_skip(const mr_loader *loader, int64_t i, mr_skip *out);

/* ---- 6. Stores ------------------------------------------------------------------------------
 * What the op cache keeps, looked at from outside. `params` is a JSON object of that op's
 * parameters, of which path, tier and group say which store; NULL or "{}": the user's own. */
typedef struct mr_store_info {
    uint32_t size; /* sizeof(mr_store_info), set by the caller */
    char path[4096];
    int64_t limit;      /* bytes it may take */
    int64_t file_bytes; /* bytes it takes on disk */
    int64_t entries, bytes;
} mr_store_info;

/* The entries of one pipeline's way to a cache. */
typedef struct mr_store_way {
    const char *text; /* "files > decode_image {} > resize {...}"; "" where nobody noted it */
    char prefix[17];  /* for mr_store_clear */
    int64_t entries, bytes;
    int64_t hits, misses; /* of all loaders that were closed */
    int64_t made, used;   /* seconds since 1970; 0: never noted */
} mr_store_way;

typedef struct mr_store_visitor {
    uint32_t size;                                    /* sizeof(mr_store_visitor) */
    void (*way)(void *user, const mr_store_way *way); /* (optional) */
    bool (*progress)(void *user, int64_t done_bytes, int64_t damaged); /* (optional) false: stop */
    void *user;
    void (*note)(void *user, const char *text); /* (optional) what was damaged and is made again */
} mr_store_visitor;

MR_API mr_status mr_store_stat(const char *params, const mr_store_visitor *visitor,
                               mr_store_info *out, mr_error *err);

/* Reads every value and checks it. Those that are damaged or missing are counted and made again
 * when they are next asked for. An index that is damaged is made again from the values when a store
 * is opened, and counted. */
MR_API mr_status mr_store_verify(const char *params, const mr_store_visitor *visitor,
                                 int64_t *checked, int64_t *damaged, mr_error *err);

/* Deletes the entries of one way, or, with NULL, the store: then nobody may be using it. */
MR_API mr_status mr_store_clear(const char *params, const char *prefix, int64_t *deleted,
                                mr_error *err);

/* The store in which bytes of objects on servers are kept: the environment's, or the document's;
 * "": none. Valid until either changes. */
MR_API const char *mr_pipeline_objects(const mr_pipeline *pipeline);

/* The prefix of a pipeline's cache; i counts stages as mr_pipeline_stage does. MR_E_PARAM: that
 * stage is no cache. */
MR_API mr_status mr_pipeline_cache_prefix(const mr_pipeline *pipeline, int32_t i, char out[17]);

/* ---- 7. Tables ------------------------------------------------------------------------------
 * What this build can do. Everything the command and the bindings know, they know from here. */
MR_API int32_t mr_n_ops(void);
MR_API const mr_op_class *mr_op_at(int32_t i);          /* sorted by name */
MR_API const mr_op_class *mr_op_find(const char *name); /* or NULL */
MR_API int32_t mr_n_sources(void);
MR_API const mr_source_class *mr_source_at(int32_t i);
MR_API const mr_source_class *mr_source_find(const char *name);
MR_API const mr_param *mr_settings_params(void); /* rows of the document's own keys */
MR_API const mr_param *mr_rehearse_params(void); /* of its "rehearse" */
MR_API const mr_param *mr_pace_params(void);     /* of its "pace" */
MR_API const mr_param *mr_share_params(void);    /* of its "share" */
MR_API const mr_param *mr_bucket_params(void);   /* of its "bucket" */
MR_API const mr_param *mr_servers_params(void);  /* of its "servers" */

/* Parts left out of this build: what, and which library would bring it. */
typedef struct mr_missing {
    const char *kind; /* "op", "source" or "codec" */
    const char *name;
    const char *needs; /* "libwebp" */
} mr_missing;

MR_API int32_t mr_n_missing(void);
MR_API const mr_missing *mr_missing_at(int32_t i);

/* Runs one op by itself, without a pipeline: for tests and tools. params is a JSON
 * object or NULL. *out gets a type and memory to be freed with mr_free. disable_cpu as in
 * mr_options. */
MR_API mr_status mr_op_apply(const mr_op_class *op, const char *params, const mr_key *key,
                             const mr_view *in, const char *disable_cpu, mr_view *out,
                             mr_error *err);

/* Runs an op on an example's input and gives the digest of what comes out. */
MR_API mr_status mr_op_example_digest(const mr_op_class *op, const mr_example *example,
                                      char out[33], mr_error *err);

#ifdef __cplusplus
}
#endif
#endif
