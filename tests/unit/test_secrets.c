/* SPDX-License-Identifier: Apache-2.0 */
/* Documents as traces have them: whatever could be a password or a signature is covered, and all
 * else is as it was. */
#include "test.h"

#include <millrace/millrace.h>
#include "core/secrets.h"

static void check(const char *document, const char *wanted) {
    char *covered = mr_secrets_covered(document);
    CHECK_TEXT(covered ? covered : "(null)", wanted);
    mr_free(covered);
}

TEST(addresses_lose_names_and_passwords) {
    check("{\"a\":\"redis://me:hunter2@host:1/2\"}", "{\"a\":\"redis://...@host:1/2\"}");
    check("{\"a\":\"redis://:hunter2@host\"}", "{\"a\":\"redis://...@host\"}");
    check("{\"a\":\"redis+unix://:hunter2@/run/r.sock?db=1\"}",
          "{\"a\":\"redis+unix://...@/run/r.sock?db=1\"}");
    check("[[{\"a\":[\"x\",\"redis://u:p@h\"]}]]", "[[{\"a\":[\"x\",\"redis://...@h\"]}]]");
}

TEST(signed_addresses_end_before_their_query) {
    check("[\"https://h/a?X-Amz-Signature=1\"]", "[\"https://h/a?...\"]");
    check("[\"HTTP://h/a?b\"]", "[\"HTTP://h/a?...\"]");
}

TEST(options_and_keys_that_name_a_secret_are_covered) {
    check("{\"options\":[\"sasl.password=hunter2\",\"ssl.key.PASSPHRASE=x=y\",\"a=b\"]}",
          "{\"options\":[\"sasl.password=...\",\"ssl.key.PASSPHRASE=...\",\"a=b\"]}");
    check("{\"Password\":\"x\",\"client_secret\":\"x\",\"token\":\"x\",\"tokens\":3}",
          "{\"Password\":\"...\",\"client_secret\":\"...\",\"token\":\"...\",\"tokens\":3}");
}

TEST(all_else_stays) {
    check("{\"batch\":4,\"path\":\"/data/a@b?c=d\",\"url\":\"s3://bucket/"
          "a@b\",\"on\":[true,null,0.5]}",
          "{\"batch\":4,\"path\":\"/data/a@b?c=d\",\"url\":\"s3://bucket/"
          "a@b\",\"on\":[true,null,0.5]}");
    CHECK(mr_secrets_covered("{") == NULL);
}

TEST_MAIN()
