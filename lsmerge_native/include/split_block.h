/* Inner loops of the split-block Bloom filter of the Parquet format.
 *
 * A filter is an array of blocks of eight 32-bit words. The upper half of a hash selects the block,
 * the lower half, multiplied by one odd constant per word, sets one bit in each word.
 *
 * A block is a vector of eight words; the loops are compiled twice, and the AVX2 copy is used where
 * the processor has it. split_block_prepare() chooses and must have run first.
 */
#ifndef LSMERGE_SPLIT_BLOCK_H
#define LSMERGE_SPLIT_BLOCK_H

#include <stddef.h>
#include <stdint.h>

/* A filter of many blocks misses the cache on every hash: blocks are fetched this far ahead. */
#define SPLIT_BLOCK_AHEAD 16

#define SPLIT_BLOCK_INLINE static inline __attribute__((always_inline))

typedef uint32_t split_block __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint64_t split_block_pairs __attribute__((vector_size(32)));

static const split_block split_block_salts = {0x47b6137bu, 0x44974d91u, 0x8824ad5bu, 0xa2b7289du,
                                              0x705495c7u, 0x2df1424bu, 0x9efc4947u, 0x5c6bfb31u};

SPLIT_BLOCK_INLINE size_t split_block_index(uint64_t hash, uint64_t num_blocks) {
    return (size_t)(((hash >> 32) * num_blocks) >> 32);
}

SPLIT_BLOCK_INLINE void split_block_prefetch(const split_block *blocks, uint64_t num_blocks,
                                             const uint64_t *hashes, size_t i, size_t count) {
    if (i < count)
        __builtin_prefetch(blocks + split_block_index(hashes[i], num_blocks));
}

/* One bit per word: the five highest bits of the product tell which. */
SPLIT_BLOCK_INLINE void split_block_mask(uint64_t hash, split_block *mask) {
    const split_block ones = {1, 1, 1, 1, 1, 1, 1, 1};
    *mask = ones << ((split_block_salts * (uint32_t)hash) >> 27);
}

SPLIT_BLOCK_INLINE void split_block_insert_loop(split_block *blocks, uint64_t num_blocks,
                                                const uint64_t *hashes, size_t count) {
    split_block mask;
    for (size_t i = 0; i < count; i++) {
        split_block_prefetch(blocks, num_blocks, hashes, i + SPLIT_BLOCK_AHEAD, count);
        split_block_mask(hashes[i], &mask);
        blocks[split_block_index(hashes[i], num_blocks)] |= mask;
    }
}

SPLIT_BLOCK_INLINE void split_block_probe_loop(const split_block *blocks, uint64_t num_blocks,
                                               const uint64_t *hashes, size_t count,
                                               uint8_t *found) {
    split_block missing;
    for (size_t i = 0; i < count; i++) {
        split_block_prefetch(blocks, num_blocks, hashes, i + SPLIT_BLOCK_AHEAD, count);
        split_block_mask(hashes[i], &missing);
        missing &= ~blocks[split_block_index(hashes[i], num_blocks)];
        const split_block_pairs pairs = (split_block_pairs)missing;
        found[i] = (pairs[0] | pairs[1] | pairs[2] | pairs[3]) == 0;
    }
}

typedef void (*split_block_insert_fn)(split_block *, uint64_t, const uint64_t *, size_t);
typedef void (*split_block_probe_fn)(const split_block *, uint64_t, const uint64_t *, size_t,
                                     uint8_t *);

static void split_block_insert_plain(split_block *blocks, uint64_t num_blocks, const uint64_t *hashes,
                                     size_t count) {
    split_block_insert_loop(blocks, num_blocks, hashes, count);
}

static void split_block_probe_plain(const split_block *blocks, uint64_t num_blocks,
                                    const uint64_t *hashes, size_t count, uint8_t *found) {
    split_block_probe_loop(blocks, num_blocks, hashes, count, found);
}

static split_block_insert_fn split_block_insert = split_block_insert_plain;
static split_block_probe_fn split_block_probe = split_block_probe_plain;

#if defined(__x86_64__)

__attribute__((target("avx2"))) static void split_block_insert_avx2(split_block *blocks,
                                                                    uint64_t num_blocks,
                                                                    const uint64_t *hashes,
                                                                    size_t count) {
    split_block_insert_loop(blocks, num_blocks, hashes, count);
}

__attribute__((target("avx2"))) static void split_block_probe_avx2(const split_block *blocks,
                                                                   uint64_t num_blocks,
                                                                   const uint64_t *hashes,
                                                                   size_t count, uint8_t *found) {
    split_block_probe_loop(blocks, num_blocks, hashes, count, found);
}

static void split_block_prepare(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) {
        split_block_insert = split_block_insert_avx2;
        split_block_probe = split_block_probe_avx2;
    }
}

#else

static void split_block_prepare(void) {}

#endif

#endif
