/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - what the page shows besides figures. */
#ifndef MR_TRACE_PAGE_H
#define MR_TRACE_PAGE_H

#include "trace/summary.h"

/* Spans for the timeline: all of them where they are few, else those of the beginning and of the
 * longest wait. NULL: no memory. */
json_t *mr_timeline_json(const mr_summary *summary);

/* Adds thumbnails of the slowest samples to `page`, of those that are files below `folder` by their
 * names or by the ends of them. Nothing else is opened. */
mr_status mr_pictures_add(const char *folder, json_t *page, const json_t *slowest, mr_error *err);

/* Files of src/trace/page, made part of the library by the build; ended by a zero byte. */
extern const char mr_page_html[], mr_page_css[], mr_page_js[];

#endif
