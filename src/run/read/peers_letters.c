/* SPDX-License-Identifier: Apache-2.0 */
/* peers_letters.c - messages that wait to be sent, and answers to those who wait. */
#include "run/read/peers_parts.h"

#include <stdlib.h>
#include <string.h>
#include "core/memory.h"

/* ---- Letters; with the lock held ---- */
static void put_in_line(mr_peers *x, letter *l) {
    line *to = l->goods ? &x->parcels : &x->words;
    l->next = NULL;
    *(to->first ? to->last : &to->first) = l;
    to->last = &l->next;
    x->counts.letters++;
    pthread_cond_signal(&x->mail);
}

/* What may be left unsaid: signs of life, samples that were offered, and what nobody asked for. */
static void say_later(mr_peers *x, int32_t to, kind what) {
    const uint32_t due = 1u << DONE | 1u << BYE | 1u << BYE_TOO | 1u << LOST | 1u << BLIND;
    if (what == GIVE || what == THERE || what == NOT_HERE) {
        x->peers[to].unsaid |= 1u << NOT_HERE;
    } else {
        x->peers[to].unsaid |= due & 1u << what;
    }
    pthread_cond_signal(&x->mail);
}

bool mr_letters_post(mr_peers *x, int32_t to, const head *what, void *body, size_t size, goods *g) {
    bool is_due = !x->peers[to].left || what->kind == BYE_TOO;
    letter *l = is_due ? mr_zalloc(1, sizeof *l) : NULL;
    if (!l) {
        mr_goods_release(g);
        if (is_due) {
            say_later(x, to, what->kind);
        }
        return false;
    }
    l->message = (mr_link_message){.peer = to, .body = body, .size = size, .token = l};
    memcpy(l->message.head, what, sizeof *what);
    l->goods = g;
    put_in_line(x, l);
    return true;
}

static head word_of(kind what, int64_t item) {
    return (head){.magic = MAGIC, .kind = what, .item = item};
}

void mr_letters_post_word(mr_peers *x, int32_t to, kind what, int64_t item) {
    const head h = word_of(what, item);
    x->lost = what == LOST ? (int32_t)item : x->lost;
    (void)mr_letters_post(x, to, &h, NULL, 0, NULL);
}

/* Who hears that this rank leaves waits for nothing more of it; who sees the goods is told so. */
bool mr_letters_post_goods(mr_peers *x, int32_t to, kind what, int64_t item, goods *g) {
    if (x->leaving) {
        return false;
    }
    if (what == GIVE && g->is_common && atomic_load(&x->peers[to].sees)) {
        mr_letters_post_word(x, to, THERE, item);
        return true;
    }
    const head h = {.magic = MAGIC,
                    .kind = what,
                    .item = item,
                    .hash = {g->hash.low, g->hash.high},
                    .form = g->form};
    atomic_fetch_add(&g->references, 1);
    bool posted = mr_letters_post(x, to, &h, mr_goods_bytes(g), g->size, g);
    if (posted) {
        x->counts.sent++;
        x->counts.bytes_out += (int64_t)g->size;
        x->offered += what == KEEP ? (int64_t)g->size : 0;
    }
    return posted;
}

void mr_letters_post_unsaid(mr_peers *x) {
    for (int32_t r = 0; r < x->config.world; r++) {
        peer *p = &x->peers[r];
        for (int what = ASK; !p->is_spare_out && p->unsaid && what <= THERE; what++) {
            if (!(p->unsaid & 1u << what)) {
                continue;
            }
            const head h = word_of((kind)what, what == LOST ? x->lost : -1);
            p->spare = (letter){.message = {.peer = r, .token = &p->spare}, .is_spare = true};
            memcpy(p->spare.message.head, &h, sizeof h);
            p->unsaid &= ~(1u << what);
            p->is_spare_out = true;
            put_in_line(x, &p->spare);
        }
    }
}

void mr_letters_end(mr_peers *x, letter *l) {
    if (l->is_spare) {
        x->peers[l->message.peer].is_spare_out = false;
        return;
    }
    if (l->goods) {
        mr_goods_release(l->goods);
    } else {
        free(l->message.body);
    }
    mr_free(l);
}

letter *mr_letters_take(line *from) {
    letter *l = from->first;
    from->first = l ? l->next : NULL;
    return l;
}

void mr_letters_drop_goods(mr_peers *x) {
    for (letter *l; (l = mr_letters_take(&x->parcels)) != NULL;) {
        mr_letters_end(x, l);
    }
}

void mr_letters_free(mr_peers *x) {
    mr_letters_drop_goods(x);
    for (letter *l; (l = mr_letters_take(&x->words)) != NULL;) {
        mr_letters_end(x, l);
    }
}

/* ---- Loads ---- */
/* One extent that is a whole file, or extents of known lengths. */
bool mr_load_fits_goods(const mr_load *load, size_t size) {
    size_t total = 0;
    if (load->n_extents == 1 && load->extents[0].length < 0) {
        return (int64_t)size <= load->extents[0].limit;
    }
    for (int32_t i = 0; i < load->n_extents; i++) {
        total += (size_t)load->extents[i].length;
    }
    return total == size;
}

/* Both sides come to the same answer. */
bool mr_extents_can_travel(const mr_extent *extents, int32_t n) {
    for (int32_t i = 0; n > 1 && i < n; i++) {
        if (extents[i].length < 0) {
            return false;
        }
    }
    return n > 0;
}

static void lend_extents(mr_load *load, char *at) {
    for (int32_t i = 0; i < load->n_extents; i++) {
        load->bytes[i] = (mr_bytes){at, (size_t)load->extents[i].length};
        at += load->extents[i].length;
    }
}

mr_answer mr_load_lend(mr_load *load, form as, char *bytes, size_t size) {
    bool is_record = as == RECORD;
    if (is_record ? !load->abroad.known : !mr_load_fits_goods(load, size)) {
        return MR_ANSWER_NOT_HERE;
    }
    load->lent = true;
    load->record_size = is_record ? size : 0;
    if (is_record || load->n_extents == 1) {
        load->bytes[0] = (mr_bytes){bytes, size};
    } else {
        lend_extents(load, bytes);
    }
    return is_record ? MR_ANSWER_KEPT : MR_ANSWER_HERE;
}

mr_answer mr_load_lend_goods(mr_load *load, goods *g) {
    mr_answer answer = mr_load_lend(load, g->form, mr_goods_bytes(g), g->size);
    if (answer != MR_ANSWER_NOT_HERE) {
        atomic_fetch_add(&g->references, 1);
    }
    return answer;
}

void mr_peers_answer(mr_peers *x, int64_t item, waiter *list, goods *g, const mr_error *failure) {
    while (list) {
        waiter *next = list->next;
        mr_load *load = list->load;
        if (list->peer >= 0) {
            pthread_mutex_lock(&x->lock);
            if (g) {
                mr_letters_post_goods(x, list->peer, GIVE, item, g);
            } else {
                mr_letters_post_word(x, list->peer, NOT_HERE, item);
            }
            pthread_mutex_unlock(&x->lock);
        } else if (failure) {
            mr_load_fail(load, failure->code, failure);
            mr_load_answer(load, MR_ANSWER_FAILED);
        } else {
            mr_load_answer(load, g ? mr_load_lend_goods(load, g) : MR_ANSWER_NOT_HERE);
        }
        mr_free(list);
        list = next;
    }
}

void mr_peers_begin_answering(mr_peers *x) { /* with the lock held */
    x->answering++;
}

void mr_peers_end_answering(mr_peers *x) {
    pthread_mutex_lock(&x->lock);
    x->answering--;
    pthread_cond_broadcast(&x->calm);
    pthread_mutex_unlock(&x->lock);
}
