/* SPDX-License-Identifier: Apache-2.0 */
/* labels_survey.h - what the cells of a column are: the type that all of them have. A type that
 * only most of them have would give the others a meaning nobody wrote. */
#ifndef MR_SOURCES_LABELS_SURVEY_H
#define MR_SOURCES_LABELS_SURVEY_H

#include "sources/labels_sheet.h"

typedef enum mr_value_kind { MR_VALUE_WHOLE, MR_VALUE_NUMBER, MR_VALUE_NAME } mr_value_kind;

/* What is known of a column after some of its cells. */
typedef struct mr_survey {
    mr_value_kind kind;
    bool any, split, files;
    bool ended;    /* all of them look like names of files */
    bool slashed;  /* all of them have folders before them */
    bool is_found; /* some of them are files */
    bool beside;   /* the first of these lies beside the table */
    int64_t first_line, parts, least, most, width, width_line, found_line;
} mr_survey;

/* Looks at a whole column; quoted numbers become numbers where all are. */
mr_status mr_survey_column(mr_label_sheet *s, int32_t column, const mr_labels_origin *from,
                           mr_survey *v, mr_error *err);

bool mr_survey_is_files(const mr_survey *v); /* its cells are names of files */
mr_type mr_survey_type(const mr_survey *v);  /* of its values, where it is not */

#endif
