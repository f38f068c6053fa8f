/* SPDX-License-Identifier: Apache-2.0 */
/* nearest.c - edit distance with swaps of neighbours, over words of at most 31 letters. */
#include "nearest.h"

#include <stddef.h>
#include <string.h>

enum { LONGEST = 31 };

static int least(int a, int b) {
    return a < b ? a : b;
}

/* Cost of the first i letters of a against the first j of b; rows i - 1 and i - 2 are known. */
static int cost(const char *a, const char *b, int i, int j, int rows[][LONGEST + 1]) {
    int best = least(rows[i - 1][j], rows[i][j - 1]) + 1;
    best = least(best, rows[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = least(best, rows[i - 2][j - 2] + 1);
    }
    return best;
}

static int distance(const char *a, const char *b) {
    int rows[LONGEST + 1][LONGEST + 1];
    int a_length = (int)strlen(a), b_length = (int)strlen(b);
    for (int i = 0; i <= a_length; i++) {
        for (int j = 0; j <= b_length; j++) {
            rows[i][j] = i == 0 || j == 0 ? i + j : cost(a, b, i, j, rows);
        }
    }
    return rows[a_length][b_length];
}

const char *mr_nearest_word(const char *word, const char *(*next)(void *user), void *user) {
    size_t length = strlen(word);
    int best_distance = 1 + (int)length / 3;
    const char *best = NULL;
    if (length == 0 || length > LONGEST) {
        return NULL;
    }
    for (const char *known = next(user); known; known = next(user)) {
        int d = strlen(known) <= LONGEST ? distance(word, known) : best_distance;
        if (d < best_distance || (d == best_distance && !best)) {
            best_distance = d;
            best = known;
        }
    }
    return best;
}
