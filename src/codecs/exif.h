/* SPDX-License-Identifier: Apache-2.0 */
/* exif.h - the orientation of a picture, from EXIF and XMP metadata. */
#ifndef MR_CODECS_EXIF_H
#define MR_CODECS_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Pieces of metadata that a codec found; size 0 where there is none. Not owned. */
typedef struct mr_metadata {
    const uint8_t *exif; /* a TIFF structure, with or without "Exif\0\0" before it */
    size_t exif_size;
    const uint8_t *xmp;
    size_t xmp_size;
} mr_metadata;

/* 1..8, and 1 where nothing says otherwise. EXIF goes before XMP, as in Pillow. */
int32_t mr_orientation(const mr_metadata *metadata);

#endif
