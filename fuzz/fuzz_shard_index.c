/* SPDX-License-Identifier: Apache-2.0 */
/* Feeds bytes to the readers of the indices of wds2idx and tfrecord2idx: the first byte says which,
 * and whether the shard is at hand. Pieces of an index that fits lie one behind the other inside of
 * the shard. */
#include <millrace/millrace.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "sources/shard_index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

static void check_pieces(const mr_shards *s, int64_t most) {
    int64_t last = -1;
    want(s->n_samples == s->n_pieces && s->v[0].end >= 0 && s->v[0].end <= most);
    for (int64_t i = 0; i < s->n_pieces; i++) {
        want(s->starts[i] > last && s->starts[i] < s->v[0].end);
        last = s->starts[i];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { SHARD = 1 << 16 };
    static const unsigned char zeros[SHARD];
    mr_shard shard[2] = {{.path = "x"}};
    mr_shards s = {.v = shard, .capacity = 4};
    s.starts = mr_zalloc(4, sizeof *s.starts);
    if (size == 0 || !s.starts) {
        mr_free(s.starts);
        return 0;
    }
    const char *text = (const char *)data + 1;
    bool at_hand = data[0] & 2;
    bool well = data[0] & 1
                    ? mr_shard_index_parse_tfrecord(&s, text, size - 1, at_hand, SHARD)
                    : mr_shard_index_parse_tar(&s, text, size - 1, at_hand ? zeros : NULL, SHARD);
    if (well) {
        check_pieces(&s, SHARD);
    }
    mr_free(s.starts);
    return 0;
}
