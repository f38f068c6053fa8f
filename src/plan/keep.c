/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c - see keep.h.
 *
 * Costs are nanoseconds for each byte of a decoded image: estimates, from a prototype's figures.
 * The choice depends on their ratios alone.
 */
#include "plan/keep.h"

static const double whole_ns = 1.5;  /* decoding all of it */
static const double part_ns = 1.0;   /* the part that a random crop shows, without an index */
static const double row_ns = 0.8;    /* the same, with an index */
static const double write_ns = 0.45; /* checksum, segment, page cache */
static const double find_ns = 0.12;  /* from the page cache, checked */
static const double disk_ns = 1.0;   /* a disk of 1 GB/s, for all threads together */

static double larger(double a, double b) {
    return a > b ? a : b;
}

static bool fits(const mr_keep_facts *f, int64_t bytes) {
    return (double)f->samples * (double)f->image_bytes <= (double)bytes;
}

/* The store's pages share the memory with the files' and with the training. */
double mr_keep_images_cost(const mr_keep_facts *f) {
    double first = (whole_ns + write_ns) / f->threads;
    double later = larger(find_ns / f->threads, fits(f, f->memory / 2) ? 0 : disk_ns);
    return (double)f->image_bytes * (first + later * (double)(f->epochs - 1));
}

double mr_keep_files_cost(const mr_keep_facts *f) {
    return (double)f->image_bytes * (part_ns + row_ns * (double)(f->epochs - 1)) / f->threads;
}

mr_keep_choice mr_keep_choose(const mr_keep_facts *f) {
    bool pays =
        f->image_bytes > 0 && fits(f, f->room) && mr_keep_images_cost(f) < mr_keep_files_cost(f);
    return f->is_kept || pays ? MR_KEEP_IMAGES : f->is_far ? MR_KEEP_FILES : MR_KEEP_NO_FILES;
}
