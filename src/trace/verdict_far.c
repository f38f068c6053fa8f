/* SPDX-License-Identifier: Apache-2.0 */
/* verdict_far.c - what about servers holds a run up that waits for their bytes: the time until
 * answers begin, the bytes themselves, or a server that does no more at once. What more requests
 * would bring follows from which of them it is. */
#include "trace/verdict_words.h"

/* From this share of requests on, failures are the reason and not an accident. */
static const double many_failures = 0.05;
/* Less in flight than this share of what may be: nobody asks for more. */
static const double nearly_all = 0.7;

static double megabytes(const mr_figures *f) {
    return mr_divide(f->request_bytes * f->requests, f->seconds) / 1e6;
}

static void advise_objects(mr_verdict *v, const mr_figures *f, const char *first) {
    advise(v, MR_ADVISE_OBJECTS, mr_model_kept(f),
           "%skeep the objects on a disk of this machine (MILLRACE_OBJECTS); from the second epoch "
           "on, if reading cost nothing",
           first);
}

static bool fails_or_is_busy(const mr_figures *f) {
    return f->retries + f->busy > many_failures * f->asked;
}

/* More requests only made each of them slower. */
static bool does_no_more(const mr_figures *f) {
    return f->narrowed > 0 && f->first_byte > f->transfer &&
           f->requests_in_flight >= nearly_all * f->requests_most;
}

static bool is_server(mr_verdict *v, const mr_figures *f) {
    if (!fails_or_is_busy(f) && !does_no_more(f)) {
        return false;
    }
    conclude(v, MR_BOUND_SERVER, "server-bound");
    if (fails_or_is_busy(f)) {
        evidence(v,
                 "Workers wait %.0f %% of their time for bytes of servers, which failed %.0f of "
                 "%.0f requests and said %.0f times that they are busy.",
                 percent(f->wait_read, mr_thread_time(f)), f->retries, f->asked, f->busy);
    } else {
        evidence(v,
                 "Workers wait %.0f %% of their time for bytes of servers; more than %.0f requests "
                 "at once brought nothing, their first byte takes %.1f ms.",
                 percent(f->wait_read, mr_thread_time(f)), f->requests_most, 1e3 * f->first_byte);
    }
    advise_objects(v, f, "more requests would bring nothing: ask a server that does more, or ");
    return true;
}

static bool is_bandwidth(mr_verdict *v, const mr_figures *f) {
    if (f->transfer < f->first_byte) {
        return false;
    }
    conclude(v, MR_BOUND_BANDWIDTH, "bandwidth-bound");
    evidence(
        v,
        "Workers wait %.0f %% of their time for bytes of servers: %.1f MB/s with %.1f requests "
        "in flight, %.0f %% of a request's time is the transfer.",
        percent(f->wait_read, mr_thread_time(f)), megabytes(f), f->requests_in_flight,
        percent(f->transfer, f->transfer + f->first_byte));
    advise_objects(v, f, "more requests would share the same line: ");
    return true;
}

static void is_latency(mr_verdict *v, const mr_figures *f) {
    double twice = 2 * f->requests_in_flight;
    conclude(v, MR_BOUND_LATENCY, "latency-bound");
    evidence(v,
             "Workers wait %.0f %% of their time for bytes of servers: the first byte takes %.1f "
             "ms, %.1f of at most %.0f requests are in flight, %.1f MB/s in all.",
             percent(f->wait_read, mr_thread_time(f)), 1e3 * f->first_byte, f->requests_in_flight,
             f->requests_most, megabytes(f));
    if (f->requests_in_flight < nearly_all * f->requests_most) {
        advise(v, MR_ADVISE_REQUESTS, mr_model_requests(f, twice),
               "ask for more ahead: more batches ahead than %d, or more bytes; with %.0f requests "
               "in flight",
               f->batches_ahead, twice);
    } else {
        advise_objects(v, f, "put many samples into one object (millrace pack), or ");
    }
}

bool mr_verdict_far(mr_verdict *v, const mr_figures *f) {
    if (f->requests <= 0 || f->wait_read < culprit * mr_thread_time(f)) {
        return false;
    }
    if (!is_server(v, f) && !is_bandwidth(v, f)) {
        is_latency(v, f);
    }
    return true;
}
