/* SPDX-License-Identifier: Apache-2.0 */
/* The row index of JPEGs in a store: made when photos are first decoded, used by later crops, and
 * whatever happens to it, the bytes are those of a run without it. Which cache "auto" chooses. */
#include "cache_rig.h"
#include "test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PHOTOS = 40, EPOCHS = 3 };

static char data_folder[128], store[160];

static void begin(void) {
    snprintf(data_folder, sizeof data_folder, "%s", rig_photos(PHOTOS));
    snprintf(store, sizeof store, "%s-store", data_folder);
}

static void end(void) {
    fixture_remove(store);
    fixture_remove(data_folder);
}

/* first: an op before the decoder; second: one behind it; more: keys of the document. */
static const char *pipeline(const char *first, const char *second, const char *more) {
    static char json[2048];
    snprintf(json, sizeof json,
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [%s \"decode_image\", %s "
             "{\"random_crop\": {\"size\": 9}}, \"random_flip\"], \"batch\": 8, \"epochs\": %d, "
             "\"seed\": 5%s}",
             data_folder, first, second, EPOCHS, more);
    return json;
}

static const char *cache(const char *keep) {
    static char text[512];
    snprintf(text, sizeof text,
             "{\"cache\": {\"path\": \"%s\", \"size\": \"64MB\", \"keep\": \"%s\"}},", store, keep);
    return text;
}

static const char *document_cache(const char *size) {
    static char text[512];
    snprintf(text, sizeof text, ", \"cache\": {\"path\": \"%s\", \"size\": \"%s\"}", store, size);
    return text;
}

static rig_result check_run(const char *json, const char *digest) {
    rig_result result = rig_run(json);
    CHECK_INT(result.status, ==, MR_END);
    CHECK_TEXT(result.digest, digest);
    if (result.status != MR_END) {
        fprintf(stderr, "%s\n", result.error);
    }
    return result;
}

static rig_result without_store(void) {
    return rig_run(pipeline("", "", ""));
}

/* A part within the first row of MCUs teaches nothing, so some photos have no index at first. */
static void check_made(const rig_result *run) {
    CHECK_INT(run->caches[0].misses, >=, PHOTOS);
    CHECK_INT(run->caches[0].misses, <, PHOTOS * 2);
    CHECK_INT(run->caches[0].hits + run->caches[0].misses, ==, EPOCHS * PHOTOS);
}

static void check_used(const rig_result *run) {
    CHECK_INT(run->caches[0].hits, >=, EPOCHS * PHOTOS - PHOTOS / 4);
}

TEST(an_index_is_made_once_and_used_by_every_later_crop) {
    begin();
    rig_result off = without_store();
    rig_result cold = check_run(pipeline(cache("index"), "", ""), off.digest);
    check_made(&cold);
    CHECK_TEXT(cold.caches[0].kept, "index");
    CHECK_INT(cold.caches[0].stored, >, PHOTOS * 3 / 4);
    CHECK_INT(cold.caches[0].bytes_stored, <, cold.caches[0].stored * 300);
    rig_result warm = check_run(pipeline(cache("index"), "", ""), off.digest);
    check_used(&warm);
    end();
}

TEST(bytes_are_kept_with_their_index) {
    begin();
    rig_result off = without_store();
    rig_result cold = check_run(pipeline(cache("samples"), "", ""), off.digest);
    CHECK_INT(cold.caches[0].misses, ==, PHOTOS);
    CHECK_INT(cold.caches[0].stored, >, PHOTOS + PHOTOS * 3 / 4);
    CHECK_TEXT(cold.caches[0].kept, "samples");
    rig_result index = check_run(pipeline(cache("index"), "", ""), off.digest); /* the same one */
    check_used(&index);
    end();
}

/* ---- Mixes ---- */
/* Its first child has no cache, and other ops before the decoder's place in the second. */
static const char *mix(const char *first) {
    static char json[2048];
    snprintf(json, sizeof json,
             "{\"source\": {\"mix\": {\"children\": [{\"source\": {\"files\": {\"path\": \"%s\"}}, "
             "\"ops\": [\"decode_image\", {\"random_crop\": {\"size\": 9}}, \"random_flip\"]}, "
             "{\"source\": {\"files\": {\"path\": \"%s\"}}, "
             "\"ops\": [%s \"decode_image\", {\"random_crop\": {\"size\": 9}}]}], \"round\": 8}}, "
             "\"batch\": 8, \"epochs\": %d, \"seed\": 5}",
             data_folder, data_folder, first, EPOCHS);
    return json;
}

TEST(a_child_of_a_mix_has_an_index) {
    begin();
    rig_result off = rig_run(mix(""));
    rig_result cold = check_run(mix(cache("index")), off.digest);
    CHECK_INT(cold.n_caches, ==, 1);
    CHECK_INT(cold.caches[0].op, ==, 3);
    CHECK_TEXT(cold.caches[0].kept, "index");
    check_made(&cold);
    rig_result warm = check_run(mix(cache("index")), off.digest);
    check_used(&warm);
    end();
}

/* ---- Damage ---- */
static bool segment_path(char *out, size_t size) {
    DIR *listing = opendir(store);
    bool found = false;
    for (struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        found = dot && strcmp(dot, ".seg") == 0;
        if (found) {
            snprintf(out, size, "%s/%s", store, entry->d_name);
        }
    }
    if (listing) {
        closedir(listing);
    }
    return found;
}

/* Every 97th byte, from another one on each time: no record comes through all of it. */
TEST(a_damaged_index_costs_no_pixel) {
    begin();
    rig_result off = without_store();
    check_run(pipeline(cache("index"), "", ""), off.digest);
    int64_t damaged = 0;
    for (int from = 0; from < 24; from++) {
        char path[512];
        CHECK(segment_path(path, sizeof path));
        rig_damage(path, 64 + from * 41, INT64_MAX, 97 * 7);
        rig_result result = check_run(pipeline(cache("index"), "", ""), off.digest);
        damaged += result.caches[0].damaged;
    }
    CHECK_INT(damaged, >, PHOTOS);
    end();
}

/* The identity of a file is that of its bytes, but an index does not rely on it. */
TEST(an_index_of_other_bytes_is_nothing) {
    begin();
    char path[256];
    check_run(pipeline(cache("index"), "", ""), without_store().digest);
    for (int i = 0; i < PHOTOS; i++) {
        snprintf(path, sizeof path, "%s/class%d/%03d.jpg", data_folder, i % 3, i);
        fixture_jpeg(path, i + 1);
    }
    rig_nap(80);
    rig_result off = without_store();
    rig_result result = check_run(pipeline(cache("index"), "", ""), off.digest);
    check_made(&result);
    end();
}

/* ---- The choice ---- */
TEST(auto_keeps_images_where_they_fit_and_pay) {
    begin();
    rig_result off = without_store();
    rig_result cold = check_run(pipeline("", "", document_cache("64MB")), off.digest);
    CHECK_INT(cold.n_caches, ==, 2);
    CHECK_TEXT(cold.caches[0].kept, "nothing");
    CHECK_TEXT(cold.caches[1].kept, "samples");
    CHECK_INT(cold.caches[1].hits, ==, (EPOCHS - 1) * PHOTOS);
    end();
}

/* As many again, of a megabyte each: the store has no room for their images. */
TEST(auto_keeps_the_index_where_images_do_not_fit) {
    begin();
    char path[256];
    for (int i = 0; i < PHOTOS; i++) {
        snprintf(path, sizeof path, "%s/class0/more%03d.jpg", data_folder, i);
        fixture_jpeg_of(path, i, 700, 500);
    }
    rig_nap(80);
    rig_result off = without_store();
    rig_result cold = check_run(pipeline("", "", document_cache("16MB")), off.digest);
    CHECK_TEXT(cold.caches[0].kept, "index");
    CHECK_TEXT(cold.caches[1].kept, "nothing");
    /* What a run puts is written behind; the next one finds it. */
    rig_result warm = check_run(pipeline("", "", document_cache("16MB")), off.digest);
    CHECK_INT(cold.caches[0].stored, >, PHOTOS);
    CHECK_INT(warm.caches[0].hits, >, EPOCHS * PHOTOS);
    end();
}

TEST(auto_has_one_place_where_images_have_one_size) {
    begin();
    const char *resize = "{\"resize\": {\"size\": [12, 12]}},";
    rig_result off = rig_run(pipeline("", resize, ""));
    rig_result cold = check_run(pipeline("", resize, document_cache("64MB")), off.digest);
    CHECK_INT(cold.n_caches, ==, 1);
    CHECK_TEXT(cold.caches[0].kept, "samples");
    end();
}

TEST(dct_scale_takes_auto) {
    begin();
    char json[1024];
    for (int with = 0; with < 2; with++) {
        static char digest[33];
        snprintf(json, sizeof json,
                 "{\"source\": {\"files\": {\"path\": \"%s\"}}, \"ops\": [{\"decode_image\": "
                 "{\"dct_scale\": true}}, {\"random_resized_crop\": {\"size\": 4}}], \"batch\": "
                 "8, \"epochs\": 2%s}",
                 data_folder, with ? document_cache("64MB") : "");
        rig_result result = rig_run(json);
        CHECK_INT(result.status, ==, MR_END);
        if (with) {
            CHECK_TEXT(result.digest, digest);
            CHECK_TEXT(result.caches[0].kept, "index");
        } else {
            memcpy(digest, result.digest, sizeof digest);
        }
    }
    end();
}

TEST_MAIN()
