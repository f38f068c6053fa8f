/* SPDX-License-Identifier: Apache-2.0 */
/* crc32c.h - the checksum of TFRecord files. */
#ifndef MR_CODECS_CRC32C_H
#define MR_CODECS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t mr_crc32c(const void *data, size_t size);        /* the best way of this CPU */
uint32_t mr_crc32c_scalar(const void *data, size_t size); /* the reference */

/* As TFRecord writes it: a file with checksums in it can have a checksum again. */
static inline uint32_t mr_crc32c_masked(const void *data, size_t size) {
    uint32_t crc = mr_crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

#endif
