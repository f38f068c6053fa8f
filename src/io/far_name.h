/* SPDX-License-Identifier: Apache-2.0 */
/* far_name.h - names of objects that lie on servers, wherever a path may stand: "https://host/a",
 * "http://host/a", "s3://bucket/key", and "gs://bucket/key" or whatever else somebody outside reads
 * for us (a gateway: see docs/far.md).
 *
 * A name may say which version of the object is meant, in a fragment, which no server ever sees:
 *
 *     s3://bucket/train-0001.tar#size=104857600&tag=%22d41d8cd98f00b204%22
 *
 * Opening a dataset gives its objects such names ("pins" them), so that the version goes wherever
 * the name goes: into extents, fingerprints and the names of what is stored. A document may be
 * written with them too. Pure: nothing here looks anything up. */
#ifndef MR_IO_FAR_NAME_H
#define MR_IO_FAR_NAME_H

#include <millrace/types.h>

/* A version. The tag is the server's ETag as it stands, or, where there is none, "@" and the time
 * of the last change; "": the size is all there is. */
typedef struct mr_far_pin {
    int64_t size; /* -1: there is no pin */
    char tag[160];
} mr_far_pin;

bool mr_is_far(const char *path);
bool mr_is_s3(const char *path);
bool mr_is_foreign(const char *path); /* far, and only a gateway can read it */
bool mr_has_bucket(
    const char *path); /* s3 or foreign: it is scheme://bucket/key, and has listings */
size_t mr_far_scheme(const char *path); /* the length of "s3" in "s3://..."; 0: it has none */

size_t mr_far_bare(const char *path);    /* the length of the name without its pin */
size_t mr_path_public(const char *path); /* what of a path, far or not, may be shown: no query */
void mr_far_pin_of(const char *path, mr_far_pin *out);
bool mr_far_same_version(const mr_far_pin *a, const mr_far_pin *b);

/* The name (without a pin, `length` bytes of it) with this pin, freed with free; NULL: no memory.
 */
char *mr_far_pinned(const char *path, size_t length, const mr_far_pin *pin);

/* 128 bits that name the object's bytes for everybody; false: it is not pinned by a tag. */
bool mr_far_identity(const char *path, uint64_t out[2]);

/* Bucket and key of a name that has them; the key may be "", and has no end of its own: it has
 * *key_length bytes. False: it is none. */
bool mr_s3_parts(const char *path, char bucket[64], const char **key, size_t *key_length);

/* Appends text to out, from *at on, with everything percent-encoded but letters, digits, "-._~" and
 * what `also` has. False: no room. */
bool mr_far_encode(char *out, size_t size, size_t *at, const char *text, size_t length,
                   const char *also);

/* Decodes in place; returns the new length. What is not an encoded byte stays as it is. */
size_t mr_far_decode(char *text, size_t length);

#endif
