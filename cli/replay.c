/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - millrace replay: runs again what a training on a stream saw. */
#include <stdio.h>

#include "command.h"
#include "errors.h"
#include "plugins.h"
#include "ranks.h"
#include "text.h"

typedef struct replay_values {
    const char *journal;
    int64_t threads;
    mr_files plugins;
} replay_values;

static void print_result(const mr_replay_result *result) {
    char steps[32], samples[32];
    printf("%s steps, %s samples: as they were\n",
           mr_text_count(steps, sizeof steps, result->steps),
           mr_text_count(samples, sizeof samples, result->samples));
    printf("  digest       %s\n", result->digest);
    printf("  compared     %lld %s of the journal\n", (long long)result->compared,
           mr_text_plural(result->compared, "digest", "digests"));
}

static int run_replay(const void *given) {
    const replay_values *values = given;
    mr_plugins plugins = {0};
    mr_replay_result result = {.size = sizeof result};
    mr_error err = MR_ERROR_INIT;
    mr_status status = mr_plugins_open(&plugins, &values->plugins, &err);
    if (status == MR_OK) {
        status = mr_replay(values->journal, plugins.ops, (uint32_t)values->threads, &result, &err);
    }
    if (status == MR_OK) {
        print_result(&result);
    }
    mr_plugins_close(&plugins);
    return status == MR_OK ? MR_EXIT_OK : mr_error_print(&err);
}

static const mr_option_row operands[] = {
    {.name = "JOURNAL",
     .kind = MR_OPTION_FILE,
     .offset = offsetof(replay_values, journal),
     .doc = "The folder that the run was given as its journal."},
    {.name = NULL},
};

static const mr_option_row options[] = {
    MR_THREADS_ROW(replay_values),
    MR_PLUGIN_ROW(replay_values),
    {.name = NULL},
};

const mr_command mr_command_replay = {
    .name = "replay",
    .summary = "Run again what a run on a stream delivered, and compare digests.",
    .doc =
        "The journal has the pipeline, the seed and what the clock decided; the stream must still "
        "have the entries. Ends with an error where a byte differs (docs/streams.md).",
    .operands = operands,
    .options = options,
    .values_size = sizeof(replay_values),
    .run = run_replay,
};
