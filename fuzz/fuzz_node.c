/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a rank look into memory of another rank of its machine in which anything may stand: that
 * rank shows its files, and then words of its index, tags and bytes are changed. Whatever stands
 * there, all loads are answered, and what is lent lies in that memory and is as long as its file
 * may be.
 *
 * A change of the input: which word (two bytes), how, by what. */
#include "../tests/peers_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void want(bool condition) {
    if (!condition) {
        abort();
    }
}

enum { CHANGE = 4 };

static void show_all(peers_rig *r, mr_peers *one) {
    for (int64_t i = 0; i < RIG_FILES; i++) {
        goods *g = mr_locality_owner(r->locality, i) == 1 ? mr_node_take(one, RIG_SIZE) : NULL;
        if (g) {
            *g = (goods){.references = 1, .is_common = true, .size = RIG_SIZE};
            rig_content(i, mr_goods_bytes(g));
            g->hash = mr_hash(mr_goods_bytes(g), RIG_SIZE);
            mr_node_show(one, i, g);
        }
    }
}

/* A distance to a tag, a number near what stood there, or anything large. */
static void change(mr_common *common, const uint8_t *at) {
    uint64_t *words = (uint64_t *)(void *)common->data;
    uint64_t *word = &words[(size_t)(at[0] | at[1] << 8) % (common->used / sizeof *words)];
    const uint64_t by = at[3];
    *word = at[2] % 4 == 0   ? by * MR_COMMON_ALIGN
            : at[2] % 4 == 1 ? *word + by
            : at[2] % 4 == 2 ? *word ^ by << 56
                             : common->size - by;
}

static void check_load(const peers_rig *r, const mr_load *load) {
    const mr_common_view *view = &r->peers->peers[1].view;
    const char *bytes = load->bytes[0].data;
    if (!mr_load_is_settled(load) || !load->lent || load->origin != 2) {
        return;
    }
    size_t n = load->bytes[0].size, sum = 0;
    want(bytes >= view->data && n <= view->size && bytes <= view->data + (view->size - n));
    for (size_t i = 0; i < n; i++) {
        sum += (unsigned char)bytes[i];
    }
    want(sum <= n * 255);
}

static void look(peers_rig r, const uint8_t *data, size_t size) {
    mr_common_name ignored;
    static mr_peers one;
    one = (mr_peers){
        .maps = true,
        .config = {.children = &r.children, .locality = r.locality, .rank = 1, .world = RIG_WORLD}};
    mr_node_open(&one, &ignored);
    show_all(&r, &one);
    for (size_t i = 0; i + CHANGE <= size; i += CHANGE) {
        change(&one.common, data + i);
    }
    r.url = "mpi?linger=0";
    r.common_of_one = &one.common;
    want(mr_tracks_init(&r.tracks, 4, 0, 1, 0) && rig_open_peers(&r));
    rig_ask(&r, RIG_FILES);
    mr_peer_origin.stop(r.peers);
    mr_peer_origin.end(r.peers);
    while (mr_intake_ask_one(&r.intake)) {
    }
    for (int i = 0; i < RIG_FILES; i++) {
        want(mr_load_is_settled(&r.loads[i]) || r.loads[i].is_answered);
        check_load(&r, &r.loads[i]);
    }
    rig_close_peers(&r);
    mr_tracks_free(&r.tracks);
    mr_node_close(&one);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static peers_rig data_of_all; /* files and plan stay */
    static bool is_open;
    if (!is_open) {
        want(rig_open_data(&data_of_all, ""));
        is_open = true;
    }
    look(data_of_all, data, size < 4096 ? size : 4096);
    return 0;
}
