/* SPDX-License-Identifier: Apache-2.0 */
/* labels_choice.h - what the columns of a list or table are for. */
#ifndef MR_SOURCES_LABELS_CHOICE_H
#define MR_SOURCES_LABELS_CHOICE_H

#include "sources/labels_sheet.h"

typedef enum mr_label_use {
    MR_USE_NONE,   /* an index that some program wrote */
    MR_USE_NAMES,  /* the files' names */
    MR_USE_FIELD,  /* a field */
    MR_USE_UNREAD, /* nobody chose it */
} mr_label_use;

/* Fills `uses`, by column. Fields have names that fields may have, each its own; names in `columns`
 * are those of columns. */
mr_status mr_labels_choose(const mr_label_sheet *s, const mr_labels_origin *from,
                           mr_label_use *uses, mr_error *err);

int32_t mr_labels_count_uses(const mr_label_sheet *s, const mr_label_use *uses, mr_label_use use);

#endif
