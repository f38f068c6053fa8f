/* SPDX-License-Identifier: Apache-2.0 */
/* keep.h - what a store should keep of photos of which every epoch wants another part. Pure.
 *
 * Decoded images spare the decoder, cost a whole decode in the first epoch, and take five times as
 * many bytes as their files; once they do not fit in memory, a disk has to bring them in every
 * epoch. Files with an index of their rows (codecs/jpeg_index.h) cost next to nothing, and spare
 * the decoder what lies above the part. */
#ifndef MR_PLAN_KEEP_H
#define MR_PLAN_KEEP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_keep_facts {
    int64_t samples;
    int64_t image_bytes; /* of a decoded image, on average; 0: not known */
    int64_t epochs;      /* asked for */
    int64_t room;        /* of the store, in bytes */
    int64_t memory;      /* of the machine, that may hold pages of files */
    uint32_t threads;
    bool is_far;  /* the files lie on another machine */
    bool is_kept; /* the store has the decoded images already */
} mr_keep_facts;

typedef enum mr_keep_choice { MR_KEEP_IMAGES, MR_KEEP_FILES, MR_KEEP_NO_FILES } mr_keep_choice;

/* MR_KEEP_NO_FILES: the index alone, since the files are as near as the store. */
mr_keep_choice mr_keep_choose(const mr_keep_facts *facts);

/* Nanoseconds a sample over all epochs, by the model that chooses. */
double mr_keep_images_cost(const mr_keep_facts *facts);
double mr_keep_files_cost(const mr_keep_facts *facts);

#endif
