/* SPDX-License-Identifier: Apache-2.0 */
/* labels_column.h - a column of a sheet as typed values. */
#ifndef MR_SOURCES_LABELS_COLUMN_H
#define MR_SOURCES_LABELS_COLUMN_H

#include "sources/labels_survey.h"

mr_status mr_label_column_make(mr_label_sheet *s, int32_t column, const mr_labels_origin *from,
                               mr_label_column *out, mr_error *err);

/* One of files: the sheet's texts become the column's. */
mr_status mr_label_column_keep_texts(mr_label_sheet *s, int32_t column, bool beside,
                                     mr_label_column *out, mr_error *err);

#endif
