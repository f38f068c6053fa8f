/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of tar files that are made here, byte by byte; whole shards are compared with Python's
 * tarfile in tests/python/test_sources.py. */
#include <stdio.h>
#include <string.h>

#include "codecs/tar.h"
#include "test.h"

enum { BLOCK = MR_TAR_BLOCK };

static unsigned char archive[64 * BLOCK];
static size_t length;
static mr_tar_entry found;
static mr_error err;

static void add_header(const char *name, char type, const char *size) {
    unsigned char *header = archive + length;
    unsigned sum = 0;
    memset(header, 0, BLOCK);
    memcpy(header, name, strlen(name));
    memcpy(header + 124, size, strlen(size));
    header[156] = (unsigned char)type;
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    memset(header + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++) {
        sum += header[i];
    }
    snprintf((char *)header + 148, 8, "%06o", sum);
    length += BLOCK;
}

static void add(const char *name, char type, const char *text) {
    char size[16];
    size_t n = strlen(text);
    snprintf(size, sizeof size, "%011o", (unsigned)n);
    add_header(name, type, size);
    memset(archive + length, 0, BLOCK);
    memcpy(archive + length, text, n);
    length += n > 0 ? BLOCK : 0;
}

static void restart(void) {
    length = 0;
    err = (mr_error)MR_ERROR_INIT;
}

static mr_status first(void) {
    return mr_tar_next(archive, length, 0, &found, &err);
}

TEST(entries_follow_each_other) {
    restart();
    add("a/b.jpg", '0', "picture");
    add("a/b.cls", '0', "");
    CHECK_INT(first(), ==, MR_OK);
    CHECK_TEXT(found.name, "a/b.jpg");
    CHECK(found.is_file);
    CHECK_INT(found.data, ==, BLOCK);
    CHECK_INT(found.size, ==, 7);
    CHECK_INT(found.next, ==, 2 * BLOCK);
    CHECK_INT(mr_tar_next(archive, length, found.next, &found, &err), ==, MR_OK);
    CHECK_TEXT(found.name, "a/b.cls");
    CHECK_INT(found.size, ==, 0);
    CHECK_INT(mr_tar_next(archive, length, found.next, &found, &err), ==, MR_END);
}

TEST(long_names_and_sizes_come_before) {
    restart();
    add("././@LongLink", 'L', "a/very/long/name.txt");
    add("short", '0', "text");
    CHECK_INT(first(), ==, MR_OK);
    CHECK_TEXT(found.name, "a/very/long/name.txt");
    CHECK_INT(found.offset, ==, 0);
    CHECK_INT(found.data, ==, 3 * BLOCK);
    restart();
    add("x", 'x', "14 path=p.txt\n9 size=3\n");
    add("short", '0', "text");
    CHECK_INT(first(), ==, MR_OK);
    CHECK_TEXT(found.name, "p.txt");
    CHECK_INT(found.size, ==, 3);
}

static void check_refused(mr_status code, const char *says, int64_t at) {
    err = (mr_error)MR_ERROR_INIT;
    CHECK_INT(first(), ==, code);
    CHECK_HAS(err.text, says);
    CHECK_INT(err.offset, ==, at);
}

TEST(damage_names_its_byte) {
    restart();
    add("a", '0', "text");
    archive[3]++;
    check_refused(MR_E_CORRUPT, "checksum", 0);
    restart();
    add("a", '0', "text");
    length = BLOCK + 3;
    check_refused(MR_E_CORRUPT, "longer than what is left", 0);
    length = BLOCK + 4;
    check_refused(MR_E_CORRUPT, "cut off after", 0);
    length = 100;
    check_refused(MR_E_CORRUPT, "cut off", 0);
    restart();
    add("a/../../b", '0', "text");
    check_refused(MR_E_CORRUPT, "leads out", 0);
    restart();
    add_header("a", '0', "\x80\x01\x01\x01\x80\x01\x01\x01\x01\x01\x01\x01");
    check_refused(MR_E_CORRUPT, "below 2^63", 0);
    restart();
    add_header("a", '0', "777777777777");
    check_refused(MR_E_CORRUPT, "longer than what is left", 0);
    restart();
    add_header("a", '0', "12x");
    check_refused(MR_E_CORRUPT, "not a number", 0);
    restart();
    add("x", 'x', "99 path=p.txt\n");
    check_refused(MR_E_CORRUPT, "pax record", BLOCK);
    restart();
    add("x", 'L', "name");
    check_refused(MR_E_CORRUPT, "after a long name", 2 * BLOCK);
    restart();
    add("x", 'S', "name");
    check_refused(MR_E_UNSUPPORTED, "sparse", 0);
}

static void check_part(const char *name, const char *key, const char *extension) {
    mr_tar_part part;
    restart();
    add(name, '0', "");
    CHECK_INT(first(), ==, MR_OK);
    bool has = mr_tar_part_of(&found, &part);
    CHECK_INT(has, ==, key != NULL);
    if (has && key) {
        CHECK_INT(part.key_length, ==, strlen(key));
        CHECK_TEXT(part.extension, extension);
    }
}

TEST(keys_and_extensions) {
    check_part("a.jpg", "a", "jpg");
    check_part("a.seg.png", "a", "seg.png");
    check_part("d.x/a.jpg", "d.x/a", "jpg");
    check_part("d.x/a", NULL, NULL);
    check_part(".a.jpg", NULL, NULL);
    check_part("a.", NULL, NULL);
    check_part("__meta__/a.jpg", NULL, NULL);
    check_part("__a.jpg__", NULL, NULL);
    check_part("__a.jpg", "__a", "jpg");
    check_part("d/__a__/b.jpg", "d/__a__/b", "jpg");
    check_part("___/b.jpg", "___/b", "jpg");
}

TEST_MAIN()
