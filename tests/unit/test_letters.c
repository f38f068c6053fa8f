/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is the same in capitals. */
#include <string.h>

#include "core/letters.h"
#include "test.h"

TEST(only_the_letters_from_a_to_z_have_capitals) {
    for (int c = 0; c < 256; c++) {
        char small = mr_small_letter((char)c);
        CHECK(small == (char)(c >= 'A' && c <= 'Z' ? c + 32 : c));
    }
    CHECK(mr_same_word("KIND.TIF", "kind.tif") && mr_same_word("", ""));
    CHECK(!mr_same_word("@[`{", "`{@["));
    CHECK(!mr_same_word("\xC3\x84", "\xC3\xA4")); /* capital and small a with two dots */
}

TEST(a_text_is_as_long_as_the_other) {
    CHECK(!mr_same_word("tif", "tiff") && !mr_same_word("tiff", "tif"));
    CHECK(mr_same_letters("TIFF", "tif", 3) && !mr_same_letters("TIFF", "tif", 4));
    CHECK(mr_same_letters("http", "HTTP", 9) && !mr_same_letters("ht", "HTTP", 4));
}

TEST(endings_and_parts) {
    CHECK(mr_ends_in_letters("A.TIF", ".tif") && mr_ends_in_letters(".tif", ".TIF"));
    CHECK(!mr_ends_in_letters("tif", ".tif") && mr_ends_in_letters("x", ""));
    const char *text = "annotatiANNOTATION";
    CHECK(mr_find_letters(text, "annotation") == text + 8);
    CHECK(mr_find_letters(text, "TION") == text + 14);
    CHECK(mr_find_letters(text, "masks") == NULL && mr_find_letters("", "a") == NULL);
    CHECK(mr_find_letters(text, "") == text);
}

TEST_MAIN()
