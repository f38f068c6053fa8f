/* SPDX-License-Identifier: Apache-2.0 */
/* codec.h - what an image decoder is: one file in this folder with one const table
 * mr_codec_NAME at its end. The build finds it; a line "MR_REQUIRES(pkg-config-name ...)" in the
 * file's first comment makes it optional. The codecs of a format are asked in the order of their
 * preference: one that is made for some of its files declines the others, and the next decodes
 * them. The header is read before any pixel is allocated.
 *
 * A codec keeps nothing from one image to the next. libjpeg's decompressor for instance would
 * carry quantisation and Huffman tables over, and a file that lacks its own would then decode by
 * those of whatever file came before. */
#ifndef MR_CODECS_CODEC_H
#define MR_CODECS_CODEC_H

#include <millrace/op.h>

typedef struct mr_image_header {
    int64_t width, height; /* as stored, before orientation */
    int32_t orientation;   /* EXIF 1..8; 1 where absent or damaged */
} mr_image_header;

/* What a codec found out about a file and would like to know the next time; bytes that mean nothing
 * to others. */
typedef struct mr_index {
    const uint8_t *data;
    size_t size; /* 0: nothing */
} mr_index;

typedef struct mr_decode_request {
    int64_t width, height; /* as header() said */
    int32_t channels;      /* 1: grey as Pillow's convert("L"); 3: RGB as its convert("RGB") */
    bool indices;          /* of one channel: a palette's numbers instead of their grey */
    bool lenient;          /* warnings of the library are no errors */
    bool verify;           /* part(): read the whole file all the same */
    int32_t shrink;        /* part(): of an image this many times smaller, rounded up; 0 is 1 */
    bool wide;             /* decode(): uint16 instead of uint8; only of codecs that are `wide` */
    uint8_t *out;          /* height x width x channels, contiguous, as stored (not oriented) */
    mr_call *call;         /* for mr_scratch and kernels */
    mr_index index;        /* of this file, from earlier; one of another file or a damaged one does
                              no harm */
    mr_index *better;      /* (optional) gets one that says more than `index`, in memory of
                              mr_scratch, or nothing */
} mr_decode_request;

/* Returned by a codec for a file that it leaves to the next of its format. Where it gave rows
 * already, they are those that the next one would give. */
#define MR_DECLINED ((mr_status)1)

typedef struct mr_codec {
    const char *name;   /* "jpeg" */
    const char *format; /* as people call it: "JPEG" */
    int32_t preference; /* among those of a format, which share sniff(): the highest is asked first;
                           the one of 0 declines nothing */
    bool (*sniff)(const uint8_t *bytes, size_t size);
    /* Fills `out` from the file's headers and metadata, and refuses whatever would cost more than
     * the file is worth (more than max_pixels, too many scans, a large image in a short file): what
     * passes here may have memory for its pixels. Other damage is decode()'s to find. */
    mr_status (*header)(const uint8_t *bytes, size_t size, int64_t max_pixels, bool lenient,
                        mr_image_header *out, mr_error *err);
    /* Only for bytes that header() accepted. */
    mr_status (*decode)(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                        mr_error *err);
    /* (optional) The same for a part of the image, as stored, row by row; request->out is not used.
     * Default: decode all, then give the rows. May leave damage outside of the part unseen, unless
     * request->verify. */
    mr_status (*part)(const uint8_t *bytes, size_t size, const mr_decode_request *request,
                      const mr_region *part, const mr_rows *to, mr_error *err);
    bool wide;           /* files may have 16 bits a channel, and it gives them when asked */
    int32_t most_shrink; /* (optional) part() can shrink by powers of two up to this one */
    /* (optional) Makes all that `better` could ever get, without decoding: for those who pack
     * files. MR_DECLINED: there is nothing. */
    mr_status (*index)(const uint8_t *bytes, size_t size, mr_call *call, mr_index *out,
                       mr_error *err);
    /* (optional) As an op's: the library that decodes, with its version. */
    void (*libraries)(char *text, size_t size);
} mr_codec;

/* ---- A file and its codecs (image_file.c) ---- */
typedef struct mr_image_file {
    const uint8_t *bytes;
    size_t size;
    const char *without; /* (optional) names of codecs not to use, "jpeg_baseline": for tests */
    const mr_codec *codec;
    mr_image_header header;
    mr_index index; /* that lay behind the file: see index_tail.h */
} mr_image_file;

/* Fills codec and header as a codec's header() does. MR_E_UNSUPPORTED with no codec for bytes that
 * none knows. */
mr_status mr_image_file_open(mr_image_file *file, int64_t max_pixels, bool lenient, mr_error *err);

/* As a codec's decode(), part() and index(). Not every format has the latter two: MR_DECLINED. */
mr_status mr_image_file_decode(const mr_image_file *file, const mr_decode_request *request,
                               mr_error *err);
mr_status mr_image_file_part(const mr_image_file *file, const mr_decode_request *request,
                             const mr_region *part, const mr_rows *to, mr_error *err);
mr_status mr_image_file_index(const mr_image_file *file, mr_call *call, mr_index *out,
                              mr_error *err);

/* By how much a codec of the file's format can shrink it, at least 1; without a file, any codec. */
int32_t mr_image_file_most_shrink(const mr_image_file *file);

/* As an op's: those of all codecs of this build, in the order of the codecs' names. */
void mr_image_file_libraries(char *text, size_t size);

/* Metadata beyond this is refused: nothing that belongs to a picture is as large, and looking
 * through it must stay cheap. */
#define MR_METADATA_MAX ((size_t)16 << 20)

/* ---- Shared by the codecs (codec.c) ---- */

/* MR_E_LIMIT if width x height is over max_pixels, MR_E_CORRUPT if either is not positive. */
mr_status mr_codec_check_size(int64_t width, int64_t height, int64_t max_pixels, mr_error *err);

/* MR_E_LIMIT for a file with more than MR_METADATA_MAX of metadata. */
mr_status mr_codec_too_much_metadata(const char *format, mr_error *err);

/* Notes the byte of a failure that is already set; NULL allowed. Returns `status`. */
mr_status mr_codec_at_byte(mr_error *err, mr_status status, size_t offset);

/* What bytes that no codec knows seem to be: "a GIF image", "an HTML page", "an empty file";
 * NULL: nothing that is known. */
const char *mr_looks_like(const uint8_t *bytes, size_t size);

#endif
