/* SPDX-License-Identifier: Apache-2.0 */
/* claim.c - see claim.h. Open-file-description locks: POSIX's own would be lost when any other part
 * of the process closes the file. */
#include "store/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mr_claims_open(const mr_place *place) {
    int fd = openat(place->dir, "claims", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
                    mr_place_mode(place));
    if (fd >= 0 && place->group) {
        (void)fchmod(fd, mr_place_mode(place));
    }
    return fd;
}

static int set_lock(int claims, const mr_store_key *key, short kind) {
    uint64_t place;
    memcpy(&place, key->bytes + MR_KEY_BYTES - sizeof place, sizeof place);
    struct flock lock = {.l_type = kind,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)(place >> 2), /* a file's last byte is at 2^63 - 2 */
                         .l_len = 1};
    int done;
    do {
        done = fcntl(claims, F_OFD_SETLK, &lock);
    } while (done != 0 && errno == EINTR);
    return done == 0 ? 0 : errno;
}

/* Where locking fails for another reason than an owner, the sample is made without a claim. */
bool mr_claim_take(int claims, const mr_store_key *key) {
    int failed = set_lock(claims, key, F_WRLCK);
    return failed != EAGAIN && failed != EACCES;
}

void mr_claim_drop(int claims, const mr_store_key *key) {
    set_lock(claims, key, F_UNLCK);
}
