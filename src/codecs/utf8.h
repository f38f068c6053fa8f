/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.h - whether bytes are UTF-8. */
#ifndef MR_CODECS_UTF8_H
#define MR_CODECS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The place of the first byte that is not UTF-8 (nor a surrogate's, nor beyond U+10FFFF), or size.
 */
size_t mr_utf8_check(const uint8_t *text, size_t size);

#endif
