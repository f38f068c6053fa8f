/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_document.c - "bucket" of a pipeline document: a field by itself, or an object. */
#include "plan/bucket_document.h"

#include <millrace/millrace.h>

#include "core/error.h"
#include "core/params.h"
#include "plan/bucket.h"

static const mr_param bucket_rows[] = {
    {.name = "field",
     .kind = MR_PARAM_STRING,
     .offset = offsetof(mr_bucket_terms, field),
     .fallback = "\"\"",
     .doc = "The field of the source that says how long a sample is: by its value, where it is a "
            "single number, else by its length (of a file or a text, bytes). Empty: the first."},
    {.name = "size",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_bucket_terms, size),
     .fallback = "0",
     .min = 0,
     .max = 1 << 24,
     .doc = "Samples of like length that come together; 0: a batch of the document."},
    {.name = "groups",
     .kind = MR_PARAM_INT,
     .offset = offsetof(mr_bucket_terms, groups),
     .fallback = "100",
     .min = 1,
     .max = 1 << 24,
     .doc = "How many times `size` samples are sorted together: more of them, and lengths are "
            "more alike, and orders less random."},
    {.name = "lanes",
     .kind = MR_PARAM_BOOL,
     .offset = offsetof(mr_bucket_terms, lanes),
     .fallback = "false",
     .doc = "Sort each lane of the shuffle by itself, where lanes divide `size`: ranks then read "
            "their own blocks alone, and groups are less alike, for a lane has fewer samples."},
    {.name = NULL},
};

const mr_param *mr_bucket_params(void) {
    return bucket_rows;
}

static mr_status refuse(mr_error *err) {
    mr_error_at_json(err, "$.bucket");
    mr_fail(err, MR_E_TYPE, "bucket must be the name of a field or an object");
    mr_hint(err, "write \"bucket\": {\"field\": \"tokens\", \"groups\": 100}; see docs/shuffle.md");
    return MR_E_TYPE;
}

mr_status mr_bucket_terms_read(mr_bucket_terms *out, json_t *value, mr_error *err) {
    if (!value) {
        return MR_OK;
    }
    if (!json_is_string(value) && !json_is_object(value)) {
        return refuse(err);
    }
    json_t *object =
        json_is_object(value) ? json_incref(value) : json_pack("{s:O}", "field", value);
    if (!object) {
        return mr_fail_memory(err, 64);
    }
    mr_status status = mr_params_fill(bucket_rows, object, "$.bucket", "bucket", NULL, out, err);
    json_decref(object);
    out->given = true;
    return status;
}

void mr_bucket_terms_free(mr_bucket_terms *terms) {
    mr_params_free(bucket_rows, terms);
}

json_t *mr_bucket_terms_json(const mr_bucket_terms *terms) {
    return mr_params_json(bucket_rows, terms);
}

mr_status mr_bucket_stretch(const mr_bucket_terms *terms, int64_t batch, int64_t *group,
                            int64_t *stretch, mr_error *err) {
    *group = terms->size > 0 ? terms->size : batch;
    *stretch = *group * terms->groups; /* both below 2^25 */
    if (*stretch > MR_MAX_STRETCH) {
        mr_error_at_json(err, "$.bucket.groups");
        mr_fail(err, MR_E_LIMIT, "%lld groups of %lld samples are more than %lld",
                (long long)terms->groups, (long long)*group, (long long)MR_MAX_STRETCH);
        mr_hint(err, "ask for fewer groups");
        return MR_E_LIMIT;
    }
    return MR_OK;
}
