/* SPDX-License-Identifier: Apache-2.0 */
/* angle.h - sine and cosine made of IEEE additions and multiplications in a fixed order, so that a
 * drawn angle turns an image the same way on every machine; libm's differ between versions. */
#ifndef MR_CORE_ANGLE_H
#define MR_CORE_ANGLE_H

#define MR_PI 0x1.921fb54442d18p+1

/* Within 0.8 units in the last place; meant for |x| < 1000. */
double mr_exact_sin(double x);
double mr_exact_cos(double x);
double mr_exact_tan(double x);

double mr_radians(double degrees);

#endif
