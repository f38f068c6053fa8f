/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg_markers.h - what the segments of a JPEG file say, without libjpeg. */
#ifndef MR_CODECS_JPEG_MARKERS_H
#define MR_CODECS_JPEG_MARKERS_H

#include "codecs/codec.h"
#include "codecs/exif.h"

enum {
    MR_JPEG_TEM = 0x01,
    MR_JPEG_SOF0 = 0xC0,
    MR_JPEG_SOF1 = 0xC1,
    MR_JPEG_SOF2 = 0xC2,
    MR_JPEG_DHT = 0xC4,
    MR_JPEG_RST0 = 0xD0,
    MR_JPEG_RST7 = 0xD7,
    MR_JPEG_SOI = 0xD8,
    MR_JPEG_EOI = 0xD9,
    MR_JPEG_SOS = 0xDA,
    MR_JPEG_DQT = 0xDB,
    MR_JPEG_DRI = 0xDD,
    MR_JPEG_APP0 = 0xE0,
    MR_JPEG_APP1 = 0xE1,
    MR_JPEG_APP14 = 0xEE,
    MR_JPEG_APP15 = 0xEF,
    MR_JPEG_COM = 0xFE,
};

/* ---- Any file ---- */
typedef struct mr_jpeg_survey {
    int64_t scans;
    size_t cost; /* of everything but image data, in bytes */
    mr_metadata metadata;
} mr_jpeg_survey;

/* Looks at all segments, or at those before the first scan; MR_E_LIMIT for too much metadata. */
mr_status mr_jpeg_look_through(const uint8_t *bytes, size_t size, bool whole, mr_jpeg_survey *out,
                               mr_error *err);

bool mr_jpeg_sniff(const uint8_t *bytes, size_t size);

/* Whether so many scans are worth their time. */
bool mr_jpeg_scans_allowed(int64_t width, int64_t height, int64_t scans);

/* Whether the file's last bytes are the marker of its end. */
bool mr_jpeg_ends_as_it_should(const uint8_t *bytes, size_t size);

/* Places of coefficients, which files have in zigzag order, in rows of 8. */
extern const uint8_t mr_jpeg_natural[64];

/* ---- Files for our own decoders ---- */
enum { MR_JPEG_COMPONENTS = 3, MR_JPEG_TABLES = 4 };

/* As a file has it: how many codes there are of 1 to 16 bits, then their symbols; checked to lie
 * inside of the file. NULL: none. */
typedef const uint8_t *mr_jpeg_codes;

typedef struct mr_jpeg_component {
    uint8_t id, across, down; /* blocks of an MCU */
    uint8_t quantisers, dc, ac;
} mr_jpeg_component;

typedef struct mr_jpeg_frame {
    int32_t width, height;
    int32_t n_components; /* 1 or 3 */
    int32_t across, down; /* most blocks of an MCU: its pixels are 8 times as many */
    mr_jpeg_component components[MR_JPEG_COMPONENTS];
    int32_t restart_interval;                  /* in MCUs; 0: none */
    const uint8_t *quantisers[MR_JPEG_TABLES]; /* 64 of them in zigzag order; NULL: none */
    bool wide_quantisers[MR_JPEG_TABLES];      /* of two bytes each */
    mr_jpeg_codes dc[MR_JPEG_TABLES], ac[MR_JPEG_TABLES];
    size_t scan; /* where image data begin; of a progressive file, the first scan's segment */
    mr_metadata metadata;
} mr_jpeg_frame;

/* Reads the headers of a baseline file with 8-bit samples, grey or YCbCr, all in one scan. False
 * for any other file, and for the least irregularity: *out is not defined then. */
bool mr_jpeg_read_frame(const uint8_t *bytes, size_t size, mr_jpeg_frame *out);

/* The same for a progressive file, up to its first scan. */
bool mr_jpeg_read_progressive(const uint8_t *bytes, size_t size, mr_jpeg_frame *out);

/* What a scan of a progressive file tells. */
typedef struct mr_jpeg_progression {
    int32_t n_components;
    int32_t components[MR_JPEG_COMPONENTS]; /* of the frame, in its order */
    int32_t from, to;                       /* coefficients in zigzag order, both included */
    int32_t high, low; /* bits that were missing before (0: all), and that still are */
} mr_jpeg_progression;

/* Reads the segments of the next scan, from byte *at on, which is where its image data begin then.
 * Codes and the restart interval become the frame's. False for what is no scan, or irregular. */
bool mr_jpeg_read_progression(const uint8_t *bytes, size_t size, size_t *at, mr_jpeg_frame *frame,
                              mr_jpeg_progression *out);

int64_t mr_jpeg_mcus_across(const mr_jpeg_frame *frame);
int64_t mr_jpeg_mcus_down(const mr_jpeg_frame *frame);

/* Blocks of all components, without those that only fill up MCUs. */
uint64_t mr_jpeg_blocks(const mr_jpeg_frame *frame);

#endif
