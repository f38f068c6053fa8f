/* SPDX-License-Identifier: Apache-2.0 */
/* The verdict on constructed situations: what holds the run up, what to change first, and whether
 * the prediction follows from the figures. */
#include "test.h"

#include "trace/verdict.h"

static const mr_op_figure image_ops[] = {
    {.name = "decode_image", .seconds = 14, .bytes_out = 300000},
    {.name = "random_resized_crop", .seconds = 3, .bytes_out = 150000, .random = true},
    {.name = "normalize", .seconds = 2, .bytes_out = 600000, .random = false},
};

/* Ten seconds of a run with 2 threads on 2 CPUs that are busy all the time, and a consumer that
 * takes whatever comes. Each situation changes a few of the figures. */
static mr_figures busy_run(void) {
    return (mr_figures){.seconds = 10,
                        .samples = 10000,
                        .made = 10000,
                        .batches = 100,
                        .threads = 2,
                        .cpus = 2,
                        .batch = 100,
                        .dataset_samples = 1000,
                        .batches_ahead = 2,
                        .batch_bytes = 60e6,
                        .wait = 9.9,
                        .deliver = 0.1,
                        .work = 19.8,
                        .cpu = 19.5,
                        .read_seconds = 0.0005,
                        .reads_in_flight = 0.5,
                        .reads_most = 32,
                        .check_rate = 1.5e9,
                        .read_bytes = 100000,
                        .sample_p50 = 0.0018,
                        .sample_longest = 0.009,
                        .ops = image_ops,
                        .n_ops = 3};
}

static mr_verdict judge(const mr_figures *figures) {
    mr_verdict verdict;
    mr_verdict_make(&verdict, figures);
    return verdict;
}

static void expect(const mr_figures *figures, mr_bound bound, mr_advice advice) {
    mr_verdict v = judge(figures);
    CHECK_INT(v.bound, ==, bound);
    CHECK_INT(v.advice, ==, advice);
    CHECK(v.evidence[0] != '\0');
}

/* 10,000 rows of 10 row groups, and little else to do than to unpack them. */
TEST(blocks_that_take_long_to_unpack) {
    mr_figures f = busy_run();
    f.n_ops = 0;
    f.work = 4;
    f.unpack = 15.5;
    f.reads = 10;
    expect(&f, MR_BOUND_UNPACK, MR_ADVISE_CODEC);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "unpack-bound");
    CHECK_TEXT(mr_bound_name(v.bound), "unpack");
    CHECK_HAS(v.evidence, "takes 78 % of the workers' time");
    CHECK_HAS(v.change, "if unpacking cost nothing: predicted 4444 samples/s"); /* 2 / 0.45 ms */
    CHECK_INT(v.model.storage, ==, 32 / 0.0005 * 1000); /* a read brings 1,000 samples */
    char text[4096];
    mr_verdict_explain(&v, &f, text, sizeof text);
    CHECK_HAS(text, "unpacking blocks       15.500 s   77.5 %");
    CHECK_HAS(text, "32 reads in flight / 0.500 ms a read, 1000 samples each");
    f.threads = 1;
    expect(&f, MR_BOUND_UNPACK, MR_ADVISE_THREADS);
    f.threads = 2;
    f.ops = (const mr_op_figure[]){{.name = "decode_image", .seconds = 16}};
    f.n_ops = 1;
    f.work = 19.8;
    f.unpack = 15.5; /* an op takes longer */
    expect(&f, MR_BOUND_OP, MR_ADVISE_CPUS);
}

TEST(a_stream_that_has_too_little) {
    mr_figures f = busy_run();
    f.work = f.cpu = 1;
    f.wait_work = 18.8;
    f.entries = 10000;
    f.starved = 9;
    expect(&f, MR_BOUND_STREAM, MR_ADVISE_NOTHING);
    CHECK_TEXT(judge(&f).title, "stream-bound");
    f.starved = 1; /* most of the waiting has other reasons */
    CHECK(judge(&f).bound != MR_BOUND_STREAM);
}

TEST(a_run_that_is_behind_its_stream) {
    mr_figures f = busy_run();
    f.entries = 10000;
    f.behind = 4321;
    CHECK(judge(&f).bound != MR_BOUND_STREAM);
    CHECK_HAS(judge(&f).evidence, "behind the stream by 4321 entries");
    f.behind = -1;
    CHECK(!strstr(judge(&f).evidence, "behind"));
}

TEST(slow_disk) {
    mr_figures f = busy_run();
    f.work = f.cpu = 5;
    f.wait_read = 14.8;
    f.read_seconds = 0.031;
    f.reads_in_flight = 31;
    expect(&f, MR_BOUND_STORAGE, MR_ADVISE_READS);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "storage-bound");
    CHECK_INT(v.predicted, ==, 2 / (5.2 / 10000)); /* threads alone: 20 s less 14.8 s of waiting */
}

TEST(slow_network) {
    mr_figures f = busy_run();
    f.work = f.cpu = 5;
    f.wait_read = 14.8;
    f.wait_peer = 14;
    expect(&f, MR_BOUND_NETWORK, MR_ADVISE_SHARE);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "network-bound");
    CHECK_TEXT(mr_bound_name(v.bound), "network");
    CHECK_HAS(v.evidence, "70 %");
    f.wait_peer = 7; /* less than half of it */
    expect(&f, MR_BOUND_STORAGE, MR_ADVISE_READS);
}

/* 10,000 samples in 10 s by 1,000 requests a second, of which workers wait for most. */
static mr_figures far_run(void) {
    mr_figures f = busy_run();
    f.work = f.cpu = 5;
    f.wait_read = 14.8;
    f.requests = f.asked = f.made;
    f.requests_in_flight = 20;
    f.requests_most = 64;
    f.first_byte = 0.019;
    f.transfer = 0.001;
    f.request_bytes = 100000;
    return f;
}

TEST(latency_of_servers) {
    mr_figures f = far_run();
    expect(&f, MR_BOUND_LATENCY, MR_ADVISE_REQUESTS);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "latency-bound");
    CHECK_TEXT(mr_bound_name(v.bound), "latency");
    CHECK_HAS(v.evidence, "19.0 ms, 20.0 of at most 64 requests are in flight, 100.0 MB/s");
    CHECK_HAS(v.change, "with 40 requests in flight: predicted 1905 samples/s");
    f.requests_in_flight = 60; /* all that may be */
    expect(&f, MR_BOUND_LATENCY, MR_ADVISE_OBJECTS);
    CHECK_HAS(judge(&f).change, "many samples into one object");
}

TEST(bandwidth_of_servers) {
    mr_figures f = far_run();
    f.first_byte = 0.002;
    f.transfer = 0.018;
    expect(&f, MR_BOUND_BANDWIDTH, MR_ADVISE_OBJECTS);
    CHECK_TEXT(judge(&f).title, "bandwidth-bound");
    CHECK_HAS(judge(&f).evidence, "100.0 MB/s with 20.0 requests in flight, 90 %");
    CHECK_HAS(judge(&f).change, "more requests would share the same line");
    CHECK(mr_model_requests(&f, 40) < 1.06 * mr_model_requests(&f, 20));
}

TEST(a_server_that_does_no_more) {
    mr_figures f = far_run();
    f.retries = 501; /* of 10,000 requests */
    expect(&f, MR_BOUND_SERVER, MR_ADVISE_OBJECTS);
    CHECK_HAS(judge(&f).evidence, "failed 501 of 10000 requests");
    f.retries = 499;
    expect(&f, MR_BOUND_LATENCY, MR_ADVISE_REQUESTS);
    f.retries = 0;
    f.busy = 600;
    expect(&f, MR_BOUND_SERVER, MR_ADVISE_OBJECTS);
    CHECK_HAS(judge(&f).evidence, "said 600 times that they are busy");
    f.busy = 0;
    f.narrowed = 3;
    f.requests_most = 21;
    expect(&f, MR_BOUND_SERVER, MR_ADVISE_OBJECTS);
    CHECK_HAS(judge(&f).evidence, "more than 21 requests at once brought nothing");
    CHECK_TEXT(judge(&f).title, "server-bound");
}

TEST(servers_that_keep_up_hold_nothing_up) {
    mr_figures f = far_run();
    f.work = f.cpu = 19;
    f.wait_read = 0.5;
    CHECK_INT(judge(&f).bound, ==, MR_BOUND_OP);
}

TEST(the_arithmetic_says_what_more_requests_bring) {
    mr_figures f = far_run();
    mr_verdict v = judge(&f);
    char text[8192];
    CHECK(mr_verdict_explain(&v, &f, text, sizeof text) < (int)sizeof text);
    CHECK_HAS(text, "10000 requests to servers, 20.0 in flight");
    CHECK_HAS(text, "    20       1000 samples/s   (this run's)");
    CHECK_HAS(text, "    40       1905 samples/s");
}

TEST(slow_op_on_all_cpus_is_cached) {
    mr_figures f = busy_run();
    f.cpu = -1; /* not known */
    expect(&f, MR_BOUND_OP, MR_ADVISE_CACHE);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "decode-bound");
    CHECK_HAS(v.evidence, "decode_image takes 71 %");
    CHECK_HAS(v.change, "cache after decode_image: 300 MB");
    /* 2 ms less 1.4 ms of decoding and 20 us between samples, more 9 us to find 300 kB and go on,
     * and 0.2 ms to check them, on 2 CPUs */
    CHECK_INT(v.predicted, ==, 2 / 0.000789);
}

/* ---- Caches ---- */
static const mr_op_figure same_ops[] = {
    {.name = "decode_image", .seconds = 10, .bytes_out = 1000000, .passed_on = 500000},
    {.name = "resize", .seconds = 6, .bytes_out = 150000},
    {.name = "normalize", .seconds = 0.4, .bytes_out = 600000},
};

TEST(a_cache_goes_where_it_gives_most_for_its_room) {
    mr_figures f = busy_run();
    mr_cached cached;
    f.ops = same_ops;
    f.cpu = -1;
    f.check_rate = 15e9;
    /* after decode_image: 2 ms - 1.02 ms + 9 us + 0.1 ms */
    CHECK(mr_model_cached(&f, 1, &cached));
    CHECK_INT(cached.rate, ==, 2 / 0.001089);
    CHECK_INT(1e9 * cached.saved + 0.5, ==, 1020000);
    CHECK_INT(1e9 * cached.added + 0.5, ==, 109000);
    /* after normalize: 2 ms - 1.66 ms + 49 us, hardly more than after resize for 4 times the bytes
     */
    CHECK(mr_model_cached(&f, 3, &cached));
    CHECK_INT(cached.rate, ==, 2 / 0.000389);
    CHECK_HAS(judge(&f).change, "cache after resize: 150 MB");
    CHECK_INT(judge(&f).predicted, ==, 2 / 0.000399);
    mr_op_figure cut_off[3];
    memcpy(cut_off, same_ops, sizeof cut_off);
    cut_off[1].partly = true;
    f.ops = cut_off;
    CHECK_HAS(judge(&f).change, "cache after resize: at least 150 MB");
}

TEST(what_differs_every_epoch_cannot_be_cached) {
    mr_figures f = busy_run();
    mr_cached cached;
    CHECK(mr_model_cached(&f, 1, &cached));
    CHECK(!mr_model_cached(&f, 2, &cached));
    bool at_least = false;
    CHECK_INT(mr_model_uncached(&f, &at_least), ==, 0);
}

/* Half of the samples are in the store; each of the others takes 1.4 ms of decoding and is kept. */
static mr_figures half_full(mr_op_figure ops[3]) {
    mr_figures f = busy_run();
    ops[0] = (mr_op_figure){.name = "decode_image", .seconds = 7, .runs = 5000, .bytes_out = 3e5};
    ops[1] = (mr_op_figure){.name = "cache", .runs = 10000, .bytes_out = 3e5, .cache = true};
    ops[2] = (mr_op_figure){.name = "random_crop", .seconds = 4, .runs = 10000, .random = true};
    f.ops = ops;
    f.cpu = -1;
    f.store_write = 0.5;
    f.store_read = 1.6;
    f.store_hits = 5000;
    f.hit_seconds = 0.000206;
    f.hit_bytes = 300000;
    return f;
}

TEST(a_cache_that_is_there_is_predicted_full_and_away) {
    mr_op_figure ops[3];
    mr_figures f = half_full(ops);
    mr_cached cached;
    CHECK(mr_model_cached(&f, 0, &cached));
    CHECK_INT(cached.ops, ==, 1);
    CHECK_INT(cached.bytes, ==, 300000);
    CHECK_INT(cached.rate, ==, 2 / (0.002 - 0.00093 + 0.000213)); /* hits as this run saw them */
    bool at_least = true;
    CHECK_INT(mr_model_uncached(&f, &at_least), ==, 2 / (0.002 - 0.00021 + 0.00072));
    CHECK(!at_least);
    ops[1].fused = true; /* the crop is taken from what is kept */
    CHECK_INT(mr_model_uncached(&f, &at_least), ==, 2 / (0.002 - 0.00021 + 0.00072));
    CHECK(at_least);
    CHECK_INT(judge(&f).advice, ==, MR_ADVISE_FILL);
    ops[0].runs = 0; /* everything came out of the store: who knows what making it takes */
    CHECK_INT(mr_model_uncached(&f, &at_least), ==, 0);
}

TEST(threads_that_read_need_cpus_too) {
    mr_figures f = busy_run();
    f.threads = 1;
    f.work = f.cpu = 10;
    f.deliver = 0;
    f.readers_cpu = 2;
    CHECK_INT(mr_model_make(&f, 1).rate, ==, 1000);
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 2 / 0.0012); /* and not 2000 */
}

TEST(slow_op_that_differs_every_epoch_needs_cpus) {
    static const mr_op_figure ops[] = {{.name = "elastic", .seconds = 19, .random = true}};
    mr_figures f = busy_run();
    f.ops = ops;
    f.n_ops = 1;
    expect(&f, MR_BOUND_OP, MR_ADVISE_CPUS);
    CHECK_TEXT(judge(&f).title, "elastic-bound");
    CHECK_INT(judge(&f).predicted, ==, 2000);
}

TEST(slow_consumer) {
    mr_figures f = busy_run();
    f.wait = 0.1;
    f.consume = 9.8;
    f.work = 8;
    f.wait_work = 11.8;
    expect(&f, MR_BOUND_CONSUMER, MR_ADVISE_CONSUMER);
    CHECK_TEXT(judge(&f).title, "consumer-bound");
    f.samples = 9000; /* the last batches of epochs are smaller */
    CHECK_INT(judge(&f).model.consumer, ==, 9000 / 9.9);
    f.made = 1000; /* the end of a run, which was made long before */
    CHECK_HAS(judge(&f).evidence, "the loader could give 900");
    CHECK_HAS(judge(&f).change, "2 threads would do");
}

TEST(lock_bound_map) {
    static const mr_op_figure ops[] = {{.name = "decode_image", .seconds = 2},
                                       {.name = "map", .seconds = 17, .host = true}};
    mr_figures f = busy_run();
    f.ops = ops;
    f.n_ops = 2;
    f.wait_host = 7.5;
    f.cpu = 12.3;
    expect(&f, MR_BOUND_HOST, MR_ADVISE_PROCESSES);
    mr_verdict v = judge(&f);
    CHECK_TEXT(v.title, "Python-bound");
    CHECK_HAS(v.change, "processes=2");
    CHECK_INT(v.model.host, ==, 10000 / 9.5);
    CHECK_INT(v.predicted, ==, 1600); /* 12.5 s of CPU for 10,000 samples, on two CPUs */
    f.cpu = 6;                        /* also on a busy machine */
    f.preempted = 3000;
    expect(&f, MR_BOUND_HOST, MR_ADVISE_PROCESSES);
    f.cpu = 12.3;
    f.preempted = 0;
    f.wait = 0; /* and where the consumer waits for the lock instead of for batches */
    f.consume = f.seconds;
    CHECK_INT(judge(&f).bound, ==, MR_BOUND_HOST);
}

/* 10 ms of sleep in a function of Python, which gives the lock up. */
TEST(a_function_that_gives_the_lock_up) {
    static const mr_op_figure ops[] = {{.name = "resize", .seconds = 3},
                                       {.name = "map", .seconds = 16.5, .host = true}};
    mr_figures f = busy_run();
    f.ops = ops;
    f.n_ops = 2;
    f.samples = f.made = 1650;
    f.cpu = 3.3;
    f.paused = 1700;
    mr_verdict v = judge(&f);
    CHECK_INT(v.bound, ==, MR_BOUND_OP);
    CHECK_INT(v.advice, ==, MR_ADVISE_THREADS);
    CHECK_HAS(v.change, "more threads than CPUs");
    CHECK_INT(v.model.host, ==, 500); /* 3.3 s of CPU time, and not 16.5 s */
    CHECK_INT(mr_model_make(&f, 1).rate, <, mr_model_make(&f, 2).rate);
    f.cpu = -1; /* not known: at least what the run did */
    CHECK_INT(judge(&f).model.host, ==, 165);
}

TEST(too_few_threads) {
    mr_figures f = busy_run();
    f.cpus = 8;
    expect(&f, MR_BOUND_OP, MR_ADVISE_THREADS);
    CHECK_INT(judge(&f).predicted, ==, 4000);
    f.consume = 5; /* 100 samples in 50 ms and 1 ms: 4 of the 8 CPUs feed it */
    f.wait = 4.9;
    CHECK_HAS(judge(&f).change, "4 threads instead of 2");
}

TEST(one_straggler_file) {
    mr_figures f = busy_run();
    f.work = 10;
    f.wait_work = 9;
    f.cpu = 10;
    f.sample_longest = 4;
    f.longest_name = "cat/huge.jpg";
    f.straggler_wait = 8;
    expect(&f, MR_BOUND_OP, MR_ADVISE_STRAGGLER);
    CHECK_HAS(judge(&f).change, "cat/huge.jpg");
    CHECK_INT(judge(&f).predicted, ==, 2 / 0.0011); /* and not 5000: the threads' limit */
    f.longest_seen = 50;                            /* in 50 epochs slow every time, or once */
    f.longest_slow = 50;
    CHECK_INT(judge(&f).advice, ==, MR_ADVISE_STRAGGLER);
    f.longest_slow = 1;
    CHECK_INT(judge(&f).advice, !=, MR_ADVISE_STRAGGLER);
    f.longest_seen = f.longest_slow = 1;
    CHECK_INT(judge(&f).advice, ==, MR_ADVISE_STRAGGLER);
    f.cpu = 6.8; /* the thread was taken off its CPU for longer than the sample took */
    f.preempted = 1000;
    CHECK_INT(judge(&f).advice, !=, MR_ADVISE_STRAGGLER);
}

TEST(a_straggler_that_nobody_waited_for_in_vain_is_none) {
    mr_figures f = busy_run(); /* threads are busy all the time: 1000 samples/s is what they give */
    f.sample_longest = 4;
    f.straggler_wait = 9.8;
    mr_verdict v = judge(&f);
    CHECK_INT(v.advice, !=, MR_ADVISE_STRAGGLER);
    CHECK_INT(v.predicted, <, 4000);
}

/* ---- A busy machine ---- */
static mr_figures crowded_run(void) {
    mr_figures f = busy_run();
    f.cpu = 6.4;
    f.preempted = 3000;
    f.paused = 10;
    return f;
}

TEST(other_programs_took_the_cpus) {
    mr_figures f = crowded_run();
    f.sample_longest = 0.4;
    f.straggler_wait = 9;
    expect(&f, MR_BOUND_CROWDED, MR_ADVISE_ALONE);
    mr_verdict v = judge(&f);
    CHECK_TEXT(mr_bound_name(v.bound), "crowded");
    CHECK_HAS(v.evidence, "got 32 % of the CPU time they wanted"); /* 6.4 s of 20 s less 0.1 s */
    CHECK_HAS(v.change, "without other programs, or with fewer threads");
    CHECK_INT(v.predicted, ==, 2 / 0.00065);       /* CPU time, with the consumer's */
    CHECK_INT(mr_model_make(&f, 1).rate, ==, 500); /* others go on: no faster than two */
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 1000);
    char text[8192];
    mr_verdict_explain(&v, &f, text, (int)sizeof text);
    CHECK_HAS(text, "other programs taking as much of the CPUs");
}

TEST(threads_off_their_cpus_for_other_reasons) {
    mr_figures f = crowded_run();
    f.paused = 4000; /* they left by themselves: to sleep, or for a disk */
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
    f = crowded_run();
    f.preempted = 50; /* 13 s are more than others take in 50 turns */
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
    f = crowded_run();
    f.threads = 8; /* on 2 CPUs: they took them from each other */
    f.work = 79;
    f.cpu = 19;
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
    f = crowded_run();
    f.elsewhere = 13; /* processes of the loader's own had them */
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
    f = crowded_run();
    f.cpu = 10.5;
    f.wait = 5;
    f.consume = 4.9; /* the consumer had one */
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
    f = crowded_run();
    f.cpu = -1;
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_CROWDED);
}

TEST(a_trace_with_holes_does_not_tell) {
    mr_figures f = busy_run();
    f.lost = 0.61;
    expect(&f, MR_BOUND_UNKNOWN, MR_ADVISE_NOTHING);
    CHECK_HAS(judge(&f).evidence, "61 % of the spans");
    f.lost = 0.01;
    CHECK_INT(judge(&f).bound, !=, MR_BOUND_UNKNOWN);
}

TEST(cold_store) {
    mr_figures f = busy_run();
    f.store_write = 8;
    f.store_wait = 1;
    expect(&f, MR_BOUND_STORE, MR_ADVISE_FILL);
    CHECK_HAS(judge(&f).change, "let it fill");
    f.refused = 40; /* its disk is full: it will not fill */
    expect(&f, MR_BOUND_STORE, MR_ADVISE_STORE);
    CHECK_HAS(judge(&f).change, "refused 40 samples");
    f.store_write = 0.5;
    f.store_read = 9;
    expect(&f, MR_BOUND_STORE, MR_ADVISE_STORE);
    CHECK_HAS(judge(&f).change, "faster disk");
}

TEST(a_cache_behind_an_array) {
    static const mr_op_figure ops[] = {{.name = "cache", .cache = true, .bytes_out = 3000},
                                       {.name = "normalize", .seconds = 4}};
    mr_figures f = busy_run();
    f.store_read = 9;
    f.ops = ops;
    f.n_ops = 2;
    expect(&f, MR_BOUND_STORE, MR_ADVISE_STORE); /* of files, which are read */
    f.read_seconds = f.reads_most = 0;
    expect(&f, MR_BOUND_STORE, MR_ADVISE_NO_CACHE);
}

TEST(a_function_without_version_is_not_cached) {
    mr_op_figure ops[] = {{.name = "map", .seconds = 19, .bytes_out = 3000, .opaque = true}};
    mr_figures f = busy_run();
    f.ops = ops;
    f.n_ops = 1;
    expect(&f, MR_BOUND_OP, MR_ADVISE_VERSION);
    CHECK_HAS(judge(&f).change, "version=");
    ops[0].opaque = false;
    expect(&f, MR_BOUND_OP, MR_ADVISE_CACHE);
}

TEST(tiny_samples) {
    static const mr_op_figure ops[] = {{.name = "cast", .seconds = 4}};
    mr_figures f = busy_run();
    f.samples = f.made = 1e7;
    f.ops = ops;
    f.n_ops = 1;
    f.work = 10;
    f.read_seconds = f.reads_most = 0;
    expect(&f, MR_BOUND_OVERHEAD, MR_ADVISE_PACK);
}

TEST(memory_starved) {
    mr_figures f = busy_run();
    f.major_faults = 20000;
    f.cpu = 3;
    expect(&f, MR_BOUND_MEMORY, MR_ADVISE_MEMORY);
}

TEST(too_few_batches_ahead) {
    mr_figures f = busy_run();
    f.work = 9;
    f.wait_work = 10;
    f.consume = 4;
    f.wait = 5.9;
    expect(&f, MR_BOUND_MEMORY, MR_ADVISE_AHEAD);
}

TEST(balanced) {
    mr_figures f = busy_run();
    f.wait = 0.2;
    f.consume = 9.7;
    f.work = 18;
    f.wait_work = 1.8;
    expect(&f, MR_BOUND_BALANCED, MR_ADVISE_NOTHING);
    CHECK_TEXT(judge(&f).change, "");
}

TEST(too_short_to_tell) {
    mr_figures f = busy_run();
    f.batches = 1;
    expect(&f, MR_BOUND_UNKNOWN, MR_ADVISE_NOTHING);
    f = (mr_figures){0};
    expect(&f, MR_BOUND_UNKNOWN, MR_ADVISE_NOTHING);
}

/* The model says 1000 samples/s of the run itself, which did 800: so with others. */
TEST(what_waking_takes_is_taken_with_other_threads_too) {
    mr_figures f = busy_run();
    f.cpu = -1;
    double two = mr_model_make(&f, 2).rate, one = mr_model_make(&f, 1).rate;
    f.samples *= 0.8;
    CHECK_INT(mr_model_threads(&f, 2), ==, 0.8 * two);
    CHECK_INT(mr_model_threads(&f, 1), ==, 0.8 * one);
    f.samples *= 2; /* more than the stations give: batches were ahead */
    CHECK_INT(mr_model_threads(&f, 1), ==, one);
}

TEST(threads_beyond_the_cpus_bring_nothing) {
    mr_figures f = busy_run();
    CHECK_INT(mr_model_make(&f, 1).rate, ==,
              1 / 0.00195); /* CPU time: alone, nobody is in its way */
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 1000);
    CHECK_INT(mr_model_make(&f, 64).rate, ==, 1000);
}

/* Rows of 3 KB, one thread of two CPUs: what the consumer uses inside of the loader is taken from
 * the second worker, and threads beyond the CPUs cost switches. */
TEST(a_consumer_of_small_batches_needs_cpus_too) {
    mr_figures f = busy_run();
    f.threads = 1;
    f.n_ops = 0;
    f.samples = f.made = 1e7;
    f.work = f.cpu = 9;
    f.wait_work = 1;
    f.read_seconds = f.reads_most = 0;
    f.deliver = 0.1;
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 2 / 9.1e-7); /* 0.1 s of delivering */
    f.consumer_cpu = 1;
    CHECK_INT(mr_model_make(&f, 1).rate, ==, 1 / 9e-7);
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 2 / 10e-7);
    CHECK_INT(mr_model_make(&f, 4).rate, ==, 2 / 12e-7);
    f.threads = 4; /* it is in the workers' time already */
    f.wait_work = 31;
    CHECK_INT(mr_model_make(&f, 4).rate, ==, 2 / 10e-7);
}

/* ---- Loaders of others ---- */
static mr_figures foreign_run(void) {
    mr_figures f = busy_run();
    f.foreign = true;
    f.workers = 2;
    f.reads_most = 0;
    return f;
}

TEST(workers_that_start_every_epoch) {
    mr_figures f = foreign_run();
    f.starts = 4;
    f.start = 5;
    expect(&f, MR_BOUND_HOST, MR_ADVISE_PROCESSES);
    mr_verdict v = judge(&f);
    CHECK_HAS(v.change, "persistent_workers=True: predicted 2000");
    f.start = 1; /* not what it waits for */
    CHECK_TEXT(judge(&f).title, "decode_image-bound");
}

TEST(a_program_that_makes_its_samples_itself) {
    mr_figures f = foreign_run();
    f.workers = 0;
    f.threads = 1;
    f.work = f.wait = 6;
    f.consume = f.absent = 4;
    f.cpu = -1;
    expect(&f, MR_BOUND_HOST, MR_ADVISE_PROCESSES);
    CHECK_HAS(judge(&f).change, "num_workers=2: predicted 2439"); /* its training: 4.1 s */
}

TEST(batches_that_are_ready_and_not_there) {
    mr_figures f = foreign_run();
    f.handover = 6;
    f.batches = 100;
    CHECK_TEXT(judge(&f).title, "queue-bound");
    CHECK_HAS(judge(&f).change, "predicted 2500");
    CHECK_HAS(judge(&f).evidence, "a queue between processes.");
    f.pinning = 2;
    CHECK_HAS(judge(&f).evidence, "processes, and 20.00 ms for each into pinned memory.");
}

TEST(collating_and_prefetching) {
    mr_figures f = foreign_run();
    f.work = 10;
    f.seal = 9.8;
    CHECK_TEXT(judge(&f).title, "collate-bound");
    f = foreign_run();
    f.wait_work = 10;
    f.work = f.cpu = 9.8;
    f.batches_ahead = 4;
    CHECK_TEXT(judge(&f).title, "short of batches ahead");
    CHECK_HAS(judge(&f).change, "prefetch_factor=4");
}

TEST(steps_of_others) {
    mr_figures f = foreign_run();
    CHECK_TEXT(judge(&f).title, "decode_image-bound");
    CHECK_HAS(judge(&f).change, "make decode_image cheaper, or do it once");
    f.fill = 15;
    CHECK_TEXT(judge(&f).title, "bound by its dataset");
    f.cpus = 4;
    CHECK_HAS(judge(&f).change, "num_workers=4: predicted 2000");
    f = foreign_run();
    f.threads = f.workers = 8;
    f.work = 79;
    f.preempted = 4000;
    f.paused = 10;
    CHECK_TEXT(judge(&f).title, "too many workers");
}

/* Processes have no memory in common: more of them than CPUs cost each other CPU time. */
TEST(more_worker_processes_than_cpus) {
    mr_figures f = foreign_run();
    f.n_ops = 0;
    f.reads_most = 0;
    f.samples = f.made = 10000;
    f.consume = f.deliver = f.consumer_cpu = 0;
    f.work = f.cpu = 20; /* of two workers on two CPUs: 2 ms for each */
    f.wait_work = 0;
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 1000);
    double four = mr_model_make(&f, 4).rate, eight = mr_model_make(&f, 8).rate;
    CHECK_INT(four, ==, 2 / 0.00216); /* +8 % where there are twice as many as CPUs */
    CHECK_INT(eight, ==, 2 / 0.00248);
    CHECK_INT(mr_model_make(&f, 64).rate, ==, eight); /* nobody has measured it */
    f.threads = f.workers = 4;                        /* their times have it in them already */
    f.cpu = 21.6;
    f.work = 40;
    CHECK_INT(mr_model_make(&f, 4).rate, ==, four);
    CHECK_INT(mr_model_make(&f, 2).rate, ==, 1000);
    f.foreign = false; /* threads share what they work on */
    f.threads = 2;
    f.work = f.cpu = 20;
    CHECK_INT(mr_model_make(&f, 4).rate, ==, 1000);
}

TEST(a_slow_sample_that_holds_the_order) {
    mr_figures f = foreign_run();
    f.sample_longest = 1;
    f.sample_p50 = 0.01;
    f.longest_seen = f.longest_slow = 3;
    f.straggler_wait = 0.8 * f.wait;
    f.wait_work = 10; /* the other workers may not go on */
    f.work = f.cpu = 9.8;
    f.longest_name = "large.jpg";
    CHECK_TEXT(judge(&f).title, "held up by stragglers");
    CHECK_HAS(judge(&f).change, "look at large.jpg, or raise prefetch_factor");
    f.straggler_wait = 0;
    CHECK_TEXT(judge(&f).title, "short of batches ahead");
}

TEST(a_lock_that_other_threads_have) {
    mr_figures f = foreign_run();
    f.handover = 6;
    f.beside = 0.9 * f.wait;
    CHECK_TEXT(judge(&f).title, "held up by Python's lock");
    CHECK_HAS(judge(&f).change, "in a process of their own; if taking batches cost nothing");
    f.handover = 0; /* they compute while no batch is ready: nobody waits for them */
    CHECK_TEXT(judge(&f).title, "decode_image-bound");
}

TEST(files_that_memory_does_not_hold) {
    mr_figures f = foreign_run();
    f.cpu = 5;
    f.paused = 20000;
    f.preempted = 100;
    f.disk_bytes = 100e3 * f.made;
    CHECK_TEXT(judge(&f).title, "storage-bound: files are not in the page cache");
    CHECK_HAS(judge(&f).evidence, "100 KB of each come from a disk");
    f.disk_bytes = 100 * f.made; /* it waits for something else */
    CHECK_TEXT(judge(&f).title, "decode_image-bound");
}

TEST(the_explanation_shows_its_numbers) {
    mr_figures f = busy_run();
    mr_verdict v = judge(&f);
    char text[8192];
    int length = mr_verdict_explain(&v, &f, text, (int)sizeof text);
    CHECK_INT(length, ==, strlen(text));
    CHECK_HAS(text, "min(2 threads, 2 CPUs) / 2.000 ms");
    CHECK_HAS(text, "2 CPUs / 1.960 ms of CPU time");
    CHECK_HAS(text, "(this run's)");
    CHECK_HAS(text, "between ops             0.800 s    4.0 %"); /* 19.8 s less 19 s of ops */
    CHECK_HAS(text, "after decode_image");
    CHECK_HAS(text, "300 kB a sample, 300 MB in all; 2.000 - 1.420 + 0.209 ms of a thread");
    CHECK_INT(mr_verdict_explain(&v, &f, text, 10), ==, length); /* as snprintf */
    CHECK_INT(strlen(text), ==, 9);
}

TEST_MAIN()
