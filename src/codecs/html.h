/* SPDX-License-Identifier: Apache-2.0 */
/* html.h - web pages, before a parser goes through them. */
#ifndef MR_CODECS_HTML_H
#define MR_CODECS_HTML_H

#include <stddef.h>
#include <stdint.h>

/* Copies a page in UTF-8 without what gives no text: attributes but "hidden", what is in comments,
 * scripts and styles. Elements and texts are the same to any parser. From the first place on where
 * parsers may differ about where something ends all is copied. `to` has room for `size` bytes, and
 * may be `from`. Returns how many were written. */
size_t mr_html_bare(uint8_t *to, const uint8_t *from, size_t size);

#endif
