/* SPDX-License-Identifier: Apache-2.0 */
/* bench_parquet FILE [REPEATS]: decodes every column of every row group in one thread, from memory,
 * and beside it only decompresses the pages, which is the least that a reader must do. Prints the
 * processor time of the best of the repeats of each. Memory of vectors is used again, as an engine
 * would. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/cpu.h"
#include "io/map.h"
#include "parquet/parts.h"

typedef struct block {
    struct block *next;
    size_t size;
} block;

static block *pool;

static void *pool_take(void *user, size_t size, size_t align) {
    (void)user;
    for (block **at = &pool; *at; at = &(*at)->next) {
        if ((*at)->size >= size && (*at)->size <= 2 * size) {
            block *found = *at;
            *at = found->next;
            return (char *)found + align;
        }
    }
    block *fresh = aligned_alloc(align, (size + 2 * align - 1) / align * align);
    if (!fresh) {
        return NULL;
    }
    fresh->size = size;
    return (char *)fresh + align;
}

static void pool_give(void *user, void *memory, size_t size) {
    block *given = (block *)(void *)((char *)memory - MR_ALIGN);
    (void)user;
    (void)size;
    given->next = pool;
    pool = given;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef mr_status chunk_work(mr_pq_decoder *decoder, const mr_pq_job *job, mr_error *err);

static mr_status decode_chunk(mr_pq_decoder *decoder, const mr_pq_job *job, mr_error *err) {
    mr_pq_vector *vector = NULL;
    MR_TRY(mr_pq_decode(decoder, job, &vector, err));
    mr_pq_vector_free(vector);
    return MR_OK;
}

static mr_status unpack_chunk(mr_pq_decoder *decoder, const mr_pq_job *job, mr_error *err) {
    int32_t codec = job->file->groups[job->group].chunks[job->column].codec;
    mr_pq_bytes left = job->bytes;
    while (left.size > 0) {
        mr_pq_header header;
        MR_TRY(mr_pq_header_parse(left, &header, err));
        size_t levels = (size_t)(header.def_size + header.rep_size);
        size_t size = (size_t)header.unpacked_size - levels;
        uint8_t *memory = mr_pq_scratch_take(&decoder->page, size);
        mr_pq_bytes in = {left.data + header.size + levels, (size_t)header.packed_size - levels};
        if (memory && header.compressed && codec != MR_PQ_UNCOMPRESSED && in.size > 0) {
            MR_TRY(mr_pq_unpack(decoder->codecs, codec, in, memory, size, err));
        }
        left.data += header.size + (size_t)header.packed_size;
        left.size -= header.size + (size_t)header.packed_size;
    }
    return MR_OK;
}

static mr_status all_chunks(mr_pq_decoder *decoder, const mr_pq_file *file,
                            const unsigned char *data, chunk_work *work, mr_error *err) {
    for (int32_t g = 0; g < file->n_groups; g++) {
        for (int32_t c = 0; c < file->n_columns; c++) {
            mr_pq_extent extent;
            MR_TRY(mr_pq_chunk_extent(file, g, c, &extent, err));
            mr_pq_job job = {.file = file,
                             .group = g,
                             .column = c,
                             .bytes = {data + extent.offset, (size_t)extent.size},
                             .nulls = {.policy = MR_PQ_NULL_FILL}};
            MR_TRY(work(decoder, &job, err));
        }
    }
    return MR_OK;
}

static mr_status measure(const char *name, mr_pq_decoder *decoder, const mr_pq_file *file,
                         const unsigned char *data, chunk_work *work, int repeats, mr_error *err) {
    double best = 1e9;
    for (int i = 0; i < repeats; i++) {
        double begin = now();
        MR_TRY(all_chunks(decoder, file, data, work, err));
        best = now() - begin < best ? now() - begin : best;
    }
    printf("%-11s %8.4f s %8.2f M rows/s\n", name, best, (double)file->rows / best / 1e6);
    return MR_OK;
}

static mr_status run(const mr_map *map, int repeats, mr_error *err) {
    static const mr_allocator allocator = {pool_take, pool_give, NULL};
    mr_pq_file *file = NULL;
    mr_pq_decoder *decoder = NULL;
    int64_t footer = 0;
    uint32_t cpu = 0;
    const unsigned char *end = map->data + map->size;
    MR_TRY(mr_cpu_features(NULL, &cpu, err));
    MR_TRY(mr_pq_tail(end - MR_PQ_TAIL, (int64_t)map->size, &footer, err));
    MR_TRY(mr_pq_open(&file, end - footer, (size_t)footer, (int64_t)map->size, err));
    MR_TRY(mr_pq_decoder_new(&decoder, cpu, &allocator, NULL, err));
    MR_TRY(measure("decompress", decoder, file, map->data, unpack_chunk, repeats, err));
    MR_TRY(measure("decode", decoder, file, map->data, decode_chunk, repeats, err));
    mr_pq_decoder_free(decoder);
    mr_pq_close(file);
    return MR_OK;
}

int main(int argc, char **argv) {
    mr_error err = MR_ERROR_INIT;
    mr_map map;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_parquet FILE [REPEATS]\n");
        return 2;
    }
    mr_status status = mr_map_open(&map, argv[1], &err);
    if (status == MR_OK && map.size >= MR_PQ_TAIL) {
        status = run(&map, argc > 2 ? atoi(argv[2]) : 3, &err);
    }
    mr_map_close(&map);
    if (status < 0) {
        fprintf(stderr, "%s\n", err.text);
    }
    return status < 0;
}
