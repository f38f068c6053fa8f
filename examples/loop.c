/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c - the shortest complete program: takes every batch of a pipeline.
 *
 *     cc loop.c $(pkg-config --cflags --libs millrace) -o loop
 *     ./loop pipeline.json
 */
#include <millrace/millrace.h>

#include <inttypes.h>
#include <stdio.h>

static int report(const mr_error *err) {
    char text[2048];
    mr_error_format(err, text, sizeof text);
    fputs(text, stderr);
    return 1;
}

int main(int argc, char **argv) {
    mr_pipeline *pipeline = NULL;
    mr_loader *loader = NULL;
    mr_batch *batch = NULL;
    mr_error err = MR_ERROR_INIT;
    int64_t samples = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: loop PIPELINE.json\n");
        return 2;
    }
    mr_status status = mr_pipeline_load(&pipeline, argv[1], NULL, &err);
    if (status == MR_OK) {
        status = mr_loader_open(&loader, pipeline, NULL, &err);
    }
    while (status == MR_OK && (status = mr_loader_next(loader, &batch, &err)) == MR_OK) {
        const mr_array *image = mr_batch_array(batch, 0);
        samples += image->dims[0]; /* train on image->data here */
        mr_batch_unref(batch);
    }
    mr_loader_close(loader);
    mr_pipeline_free(pipeline);
    if (status < 0) {
        return report(&err);
    }
    printf("%" PRId64 " samples\n", samples);
    return 0;
}
