/* SPDX-License-Identifier: Apache-2.0 */
/* The files source: order, labels, lists, and the odd things folders hold. */
#include "fixture.h"
#include "test.h"

#include "io/file.h"
#include <fcntl.h>

/* Opens the source alone. */
typedef struct opened {
    mr_pipeline *pipeline;
    mr_loader *loader;
    mr_error err;
    char log[2048];
} opened;

static void collect_log(void *user, const char *text) {
    char *log = user;
    size_t used = strlen(log);
    snprintf(log + used, 2048 - used, "%s\n", text);
}

static opened open_files(const char *params) {
    opened o = {.err = MR_ERROR_INIT};
    char json[1024];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {%s}}, \"batch\": 100, \"shuffle\": false, \"fields\": "
             "[\"path\", \"label\"]}",
             params);
    o.pipeline = fixture_pipeline(json);
    mr_options options = MR_OPTIONS_INIT;
    options.threads = 1;
    options.log = (mr_log){collect_log, o.log};
    mr_loader_open(&o.loader, o.pipeline, &options, &o.err);
    return o;
}

static void close_files(opened *o) {
    mr_loader_close(o->loader);
    mr_pipeline_free(o->pipeline);
}

/* "path=label path=label ..." of the whole dataset. */
static void list_samples(opened *o, char *out, size_t size) {
    mr_batch *batch = NULL;
    out[0] = '\0';
    if (!o->loader || mr_loader_next(o->loader, &batch, &o->err) != MR_OK) {
        return;
    }
    const mr_array *path = mr_batch_find(batch, "path"), *label = mr_batch_find(batch, "label");
    for (int64_t i = 0; i < mr_batch_size(batch); i++) {
        size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%.*s=%lld", i ? " " : "",
                 (int)(path->offsets[i + 1] - path->offsets[i]),
                 (const char *)path->data + path->offsets[i],
                 (long long)((const int64_t *)label->data)[i]);
    }
    mr_batch_unref(batch);
}

static void make(const char *folder, const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    char command[600];
    snprintf(command, sizeof command, "mkdir -p '%s'", path);
    CHECK_INT(system(command), ==, 0);
    *slash = '/';
    fixture_write(folder, name, "x", 1);
}

static char samples[4096], params[512];

TEST(order_and_labels) {
    char *folder = fixture_folder();
    make(folder, "b/2.jpg");
    make(folder, "b/1.JPG");
    make(folder, "a/deep/er/3.png");
    make(folder, "a/note.txt");
    make(folder, "a b/4.webp");
    make(folder, ".hidden/5.jpg");
    make(folder, "b/._6.jpg");
    make(folder, "lost.jpg");
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "a b/4.webp=1 a/deep/er/3.png=0 b/1.JPG=2 b/2.jpg=2");
    CHECK_HAS(o.log, "1 files beside the class folders were left out");
    close_files(&o);
    snprintf(params, sizeof params, "\"path\": \"%s/\", \"extensions\": [\".txt\"]", folder);
    o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "a/note.txt=0");
    close_files(&o);
    fixture_remove(folder);
}

TEST(a_class_without_samples_keeps_its_number) {
    char *folder = fixture_folder();
    make(folder, "a/1.jpg");
    make(folder, "b/note.txt");
    make(folder, "c/2.jpg");
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "a/1.jpg=0 c/2.jpg=2");
    CHECK_HAS(o.log, "class folder b has no samples; it keeps label 1");
    close_files(&o);
    fixture_remove(folder);
}

TEST(a_flat_folder_has_one_class) {
    char *folder = fixture_folder();
    make(folder, "2.jpg");
    make(folder, "1.jpg");
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "1.jpg=0 2.jpg=0");
    close_files(&o);
    fixture_remove(folder);
}

TEST(links_are_followed_and_loops_are_not) {
    char *folder = fixture_folder(), path[128];
    make(folder, "a/1.jpg");
    snprintf(path, sizeof path, "%s/b", folder);
    CHECK_INT(symlink("a", path), ==, 0);
    snprintf(path, sizeof path, "%s/a/loop", folder);
    CHECK_INT(symlink("..", path), ==, 0);
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "a/1.jpg=0 b/1.jpg=1");
    CHECK_HAS(o.log, "a/loop/: a link back to a folder it lies in");
    close_files(&o);
    fixture_remove(folder);
}

TEST(names_that_are_not_utf8) {
    char *folder = fixture_folder();
    make(folder, "a/\xff\xfe.jpg");
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "a/\xff\xfe.jpg=0");
    close_files(&o);
    fixture_remove(folder);
}

TEST(a_list_of_paths_and_labels) {
    char *folder = fixture_folder();
    make(folder, "one two.jpg");
    make(folder, "b.jpg");
    fixture_write(folder, "numbers.txt", "b.jpg 7\r\n\none two.jpg\t-3\n", 25);
    fixture_write(folder, "names.txt", "b.jpg zebra\none two.jpg ape\nb.jpg ape", 37);
    fixture_write(folder, "broken.txt", "b.jpg 7\nb.jpg\n", 14);
    snprintf(params, sizeof params, "\"list\": \"%s/numbers.txt\"", folder);
    opened o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "b.jpg=7 one two.jpg=-3");
    close_files(&o);
    snprintf(params, sizeof params, "\"path\": \"%s\", \"list\": \"%s/names.txt\"", folder, folder);
    o = open_files(params);
    list_samples(&o, samples, sizeof samples);
    CHECK_TEXT(samples, "b.jpg=1 one two.jpg=0 b.jpg=0");
    close_files(&o);
    fixture_write(folder, "typo.txt", "b.jpg 1\nb.jpg O\n", 16);
    snprintf(params, sizeof params, "\"list\": \"%s/typo.txt\"", folder);
    o = open_files(params);
    CHECK_HAS(o.err.text, "typo.txt has \"O\" for label, where line 1 has a number");
    close_files(&o);
    fixture_write(folder, "large.txt", "b.jpg 99999999999999999999\n", 27);
    snprintf(params, sizeof params, "\"list\": \"%s/large.txt\"", folder);
    o = open_files(params);
    CHECK_HAS(o.err.text, "does not fit");
    close_files(&o);
    snprintf(params, sizeof params, "\"list\": \"%s/broken.txt\"", folder);
    o = open_files(params);
    CHECK(o.loader == NULL);
    CHECK_HAS(o.err.text, "broken.txt has no label");
    close_files(&o);
    fixture_remove(folder);
}

TEST(the_fingerprint_follows_names_and_labels_not_places) {
    char *folder = fixture_folder(), first[33];
    char other[64];
    make(folder, "a/1.jpg");
    make(folder, "b/2.jpg");
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    memcpy(first, mr_loader_fingerprint(o.loader), 33);
    close_files(&o);
    snprintf(other, sizeof other, "%s-moved", folder);
    CHECK_INT(rename(folder, other), ==, 0);
    snprintf(params, sizeof params, "\"path\": \"%s\"", other);
    o = open_files(params);
    CHECK_TEXT(mr_loader_fingerprint(o.loader), first);
    close_files(&o);
    make(other, "b/3.jpg");
    o = open_files(params);
    CHECK(strcmp(mr_loader_fingerprint(o.loader), first) != 0);
    close_files(&o);
    fixture_remove(other);
}

TEST(what_is_not_there) {
    char *folder = fixture_folder();
    opened o = open_files("\"path\": \"/nonexistent-folder\"");
    CHECK_INT(o.err.code, ==, MR_E_NOT_FOUND);
    CHECK_HAS(o.err.text, "/nonexistent-folder");
    close_files(&o);
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    o = open_files(params);
    CHECK_HAS(o.err.text, "no samples found");
    close_files(&o);
    o = open_files("\"list\": \"/nonexistent-list\"");
    CHECK_INT(o.err.code, ==, MR_E_NOT_FOUND);
    close_files(&o);
    fixture_remove(folder);
}

TEST(a_folder_that_may_not_be_read) {
    char *folder = fixture_folder(), path[128];
    make(folder, "a/1.jpg");
    snprintf(path, sizeof path, "%s/a", folder);
    chmod(path, 0);
    snprintf(params, sizeof params, "\"path\": \"%s\"", folder);
    opened o = open_files(params);
    if (geteuid() != 0) { /* root may read everything */
        CHECK_INT(o.err.code, ==, MR_E_IO);
        CHECK_HAS(o.err.text, "/a/");
    }
    close_files(&o);
    chmod(path, 0755);
    fixture_remove(folder);
}

/* ---- Files underneath ---- */
TEST(a_file_that_shrinks_is_an_error) {
    char *folder = fixture_folder(), path[128], bytes[100];
    mr_open_extent open;
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/f", folder);
    memset(bytes, 'x', sizeof bytes);
    fixture_write(folder, "f", bytes, sizeof bytes);
    const mr_extent extent = {.path = path, .length = -1, .limit = 1000},
                    small = {.path = path, .length = -1, .limit = 99};
    CHECK_INT(mr_extent_open(&extent, &open, &err), ==, MR_OK);
    CHECK_INT(truncate(path, 40), ==, 0);
    CHECK_INT(mr_extent_read(&open, bytes, &err), ==, MR_E_CORRUPT);
    CHECK_INT(err.offset, ==, 40);
    mr_extent_close(&open);
    fixture_write(folder, "f", bytes, sizeof bytes);
    CHECK_INT(mr_extent_open(&small, &open, &err), ==, MR_E_LIMIT);
    fixture_remove(folder);
}

TEST(replacing_a_file_is_whole_or_not_at_all) {
    char *folder = fixture_folder(), path[128], *text = NULL;
    size_t size = 0;
    mr_error err = MR_ERROR_INIT;
    snprintf(path, sizeof path, "%s/state", folder);
    CHECK_INT(mr_file_replace(path, "old", 3, &err), ==, MR_OK);
    CHECK_INT(mr_file_replace(path, "newer", 5, &err), ==, MR_OK);
    CHECK_INT(mr_file_load(path, 100, &text, &size, &err), ==, MR_OK);
    CHECK_TEXT(text, "newer");
    mr_free(text);
    char link[128];
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK_INT(symlink("state", link), ==, 0);
    CHECK_INT(mr_file_replace(link, "through", 7, &err), ==, MR_OK);
    CHECK_INT(mr_file_load(path, 100, &text, &size, &err), ==, MR_OK);
    CHECK_TEXT(text, "through");
    mr_free(text);
    snprintf(link, sizeof link, "%s/fifo", folder);
    CHECK_INT(mkfifo(link, 0600), ==, 0);
    CHECK_INT(mr_file_replace(link, "x", 1, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "not a regular file");
    CHECK_INT(mr_file_replace("/nonexistent-folder/state", "x", 1, &err), ==, MR_E_IO);
    CHECK_HAS(err.text, "/nonexistent-folder/state");
    fixture_remove(folder);
}

TEST_MAIN()
