/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the reader of saved states. What it accepts must be a state that can be written,
 * and that reads back and writes again as the same text; what it refuses must say why. Since a
 * fuzzer hardly ever guesses the check, the bytes also become the numbers of a state. */
#include <stdlib.h>
#include <string.h>

#include "plan/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_round_trip(const mr_state *state) {
    size_t room = mr_state_bytes(state);
    char *text = malloc(room), *again = malloc(room);
    mr_state back;
    want(text && again && mr_state_write(state, text, room, NULL) == MR_OK);
    want(mr_state_read(&back, text, strlen(text), NULL) == MR_OK);
    want(mr_state_match(state, &back, NULL) == MR_OK);
    want(mr_state_write(&back, again, room, NULL) == MR_OK);
    want(strcmp(text, again) == 0);
    mr_state_free(&back);
    free(text);
    free(again);
}

static void check_numbers(const uint8_t *data) {
    int64_t numbers[4];
    memcpy(numbers, data, sizeof numbers);
    mr_state state = {.pipeline = "0123456789abcdef0123456789abcdef",
                      .dataset = "00000000000000000000000000000000",
                      .seed = numbers[0],
                      .shuffle = numbers[0] & 1,
                      .samples = numbers[1],
                      .epoch = numbers[2],
                      .position = numbers[3]};
    char text[MR_STATE_MAX];
    if (mr_state_write(&state, text, sizeof text, NULL) == MR_OK) {
        check_round_trip(&state);
        state.is_stream = true;
        state.step = numbers[3];
        state.rehearsal = (unsigned char *)numbers;
        state.rehearsal_size = 1 + (uint64_t)numbers[0] % sizeof numbers;
        check_round_trip(&state);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mr_state state;
    mr_error err = MR_ERROR_INIT;
    if (mr_state_read(&state, (const char *)data, size, &err) == MR_OK) {
        check_round_trip(&state);
        mr_state_free(&state);
    } else {
        want(err.code == MR_E_STATE && err.text[0] != '\0' && err.hint[0] != '\0');
    }
    if (size >= 32) {
        check_numbers(data);
    }
    return 0;
}
