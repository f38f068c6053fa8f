/* SPDX-License-Identifier: Apache-2.0 */
/* angle.c - see angle.h. */
#include "core/angle.h"

#include <math.h>

/* x less the nearest multiple of pi / 2, in two parts, and that multiple. */
typedef struct reduced {
    double high, low; /* |high| <= pi / 4; low is what high does not hold */
    int quarter;      /* 0 .. 3 */
} reduced;

static reduced reduce(double x) {
    static const double half_pi_high = 0x1.921fb544p+0; /* 33 bits: its multiples are exact */
    static const double half_pi_low = 0x1.0b4611a626331p-34;
    double k = nearbyint(x * 0x1.45f306dc9c883p-1);
    double rest = x - k * half_pi_high, fine = k * half_pi_low;
    double high = rest - fine;
    return (reduced){high, (rest - high) - fine, (int)((long)k & 3)};
}

/* Taylor by Horner: at pi / 4 the first term left out is below 2^-60. */
static double sine(const reduced *r) {
    double x = r->high, square = x * x, sum = 0.0;
    for (int i = 17; i >= 5; i -= 2) {
        sum = square * (1.0 - sum) / (double)(i * (i - 1));
    }
    double tail = -(x * square) / 6.0 * (1.0 - sum);
    return x + (tail + r->low * (1.0 - square / 2.0));
}

static double cosine(const reduced *r) {
    double x = r->high, square = x * x, sum = 0.0;
    for (int i = 18; i >= 6; i -= 2) {
        sum = square * (1.0 - sum) / (double)(i * (i - 1));
    }
    double half = square / 2.0, main = 1.0 - half, lost = (1.0 - main) - half;
    double tail = square * square / 24.0 * (1.0 - sum);
    return main + (lost + (tail - x * r->low));
}

double mr_exact_sin(double x) {
    reduced r = reduce(x);
    double value = r.quarter & 1 ? cosine(&r) : sine(&r);
    return r.quarter & 2 ? -value : value;
}

double mr_exact_cos(double x) {
    reduced r = reduce(x);
    double value = r.quarter & 1 ? sine(&r) : cosine(&r);
    return r.quarter == 1 || r.quarter == 2 ? -value : value;
}

double mr_exact_tan(double x) {
    return mr_exact_sin(x) / mr_exact_cos(x);
}

double mr_radians(double degrees) {
    return degrees * (MR_PI / 180.0);
}
