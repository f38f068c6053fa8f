/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the readers of what journals have: feedback of a trainer, decisions, and choices
 * of a policy. What is accepted is written as the same bytes. */
#include <stdlib.h>
#include <string.h>

#include "plan/choices.h"
#include "plan/feedback.h"
#include "plan/rate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_choices(const uint8_t *data, size_t size) {
    mr_choices *choices = NULL;
    if (mr_choices_load(&choices, data, size, NULL) == MR_OK) {
        unsigned char *bytes = malloc(size);
        want(bytes && mr_choices_bytes(choices) == size);
        mr_choices_save(choices, bytes);
        want(memcmp(bytes, data, size) == 0);
        free(bytes);
    }
    mr_choices_free(choices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_said *said = NULL;
    mr_rate_decision decision;
    unsigned char again[MR_RATE_ENTRY_BYTES];
    if (mr_said_load(&said, data, size, NULL) == MR_OK) {
        unsigned char *bytes = malloc(size);
        want(bytes && mr_said_bytes(said) == size);
        mr_said_save(said, bytes);
        want(memcmp(bytes, data, size) == 0);
        free(bytes);
    }
    mr_said_free(said);
    if (mr_rate_entry_load(&decision, data, size, NULL) == MR_OK) {
        mr_rate_entry_save(&decision, again);
        want(memcmp(again, data, sizeof again) == 0);
    }
    check_choices(data, size);
    return 0;
}
