/* SPDX-License-Identifier: Apache-2.0 */
/* several_crops.c - see several_crops.h. */
#include "ops/several_crops.h"

#include <inttypes.h>
#include <math.h>

#include "core/error.h"

mr_status mr_crops_plan(const mr_ints *size, int64_t n, const mr_type *in, mr_type *out,
                        mr_error *err) {
    int64_t height = mr_size_height(size), width = mr_size_width(size);
    MR_TRY(mr_image_check(in, err));
    if ((in->dims[0] >= 0 && in->dims[0] < height) || (in->dims[1] >= 0 && in->dims[1] < width)) {
        mr_fail(err, MR_E_TYPE,
                "the image of %" PRId64 " x %" PRId64 " is smaller than the crops of %" PRId64
                " x %" PRId64,
                in->dims[0], in->dims[1], height, width);
        mr_hint(err, "put resize or pad before it");
        return MR_E_TYPE;
    }
    if (height * width > MR_IMAGE_MAX_PIXELS / n) {
        return mr_fail(err, MR_E_TYPE,
                       "%" PRId64 " crops of %" PRId64 " x %" PRId64 " are too large", n, height,
                       width);
    }
    *out = (mr_type){in->dtype, MR_HWC, 4, {n, height, width, in->dims[2]}};
    return MR_OK;
}

void mr_crops_copy(const mr_pixels *image, uint8_t *out, int64_t height, int64_t width) {
    int64_t bottom = image->height - height, right = image->width - width;
    int64_t tops[MR_CROPS] = {0, 0, bottom, bottom, (int64_t)rint((double)bottom / 2.0)};
    int64_t lefts[MR_CROPS] = {0, right, 0, right, (int64_t)rint((double)right / 2.0)};
    size_t bytes = (size_t)(height * width * image->channels);
    for (int i = 0; i < MR_CROPS; i++) {
        mr_image_cutout(image, tops[i], lefts[i], out + (size_t)i * bytes, height, width);
    }
}
