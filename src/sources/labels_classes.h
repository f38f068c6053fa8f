/* SPDX-License-Identifier: Apache-2.0 */
/* labels_classes.h - numbers of classes as a user gave them, for the columns of a list or table. */
#ifndef MR_SOURCES_LABELS_CLASSES_H
#define MR_SOURCES_LABELS_CLASSES_H

#include "sources/labels_sheet.h"

/* Where `classes` (classes.h; NULL: none) names classes, columns of names get their numbers. A name
 * that is none of them is an error with its line; so are classes for what has no names. */
mr_status mr_labels_number_classes(const mr_label_sheet *s, mr_labels *l, const char *classes,
                                   mr_error *err);

#endif
