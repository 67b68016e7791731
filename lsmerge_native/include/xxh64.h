/* XXH64, the 64-bit hash of the xxHash specification, for little-endian machines.
 *
 * The hash goes into key filters on disk, so it may never change.
 */
#ifndef LSMERGE_XXH64_H
#define LSMERGE_XXH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LSMERGE_XXH_P1 0x9E3779B185EBCA87ULL
#define LSMERGE_XXH_P2 0xC2B2AE3D27D4EB4FULL
#define LSMERGE_XXH_P3 0x165667B19E3779F9ULL
#define LSMERGE_XXH_P4 0x85EBCA77C2B2AE63ULL
#define LSMERGE_XXH_P5 0x27D4EB2F165667C5ULL

static inline uint64_t lsmerge_xxh_rotl(uint64_t x, int bits) {
    return (x << bits) | (x >> (64 - bits));
}

static inline uint64_t lsmerge_xxh_lane(uint64_t lane, const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, 8);
    return lsmerge_xxh_rotl(lane + word * LSMERGE_XXH_P2, 31) * LSMERGE_XXH_P1;
}

static inline uint64_t lsmerge_xxh_fold(uint64_t hash, uint64_t lane) {
    lane = lsmerge_xxh_rotl(lane * LSMERGE_XXH_P2, 31) * LSMERGE_XXH_P1;
    return (hash ^ lane) * LSMERGE_XXH_P1 + LSMERGE_XXH_P4;
}

/* Four lanes over the whole 32-byte stripes of data. */
static inline uint64_t lsmerge_xxh_stripes(const uint8_t *data, size_t size, uint64_t seed) {
    uint64_t lanes[4] = {seed + LSMERGE_XXH_P1 + LSMERGE_XXH_P2, seed + LSMERGE_XXH_P2, seed,
                         seed - LSMERGE_XXH_P1};
    for (; size >= 32; data += 32, size -= 32)
        for (int i = 0; i < 4; i++)
            lanes[i] = lsmerge_xxh_lane(lanes[i], data + 8 * i);
    uint64_t hash = lsmerge_xxh_rotl(lanes[0], 1) + lsmerge_xxh_rotl(lanes[1], 7) +
                    lsmerge_xxh_rotl(lanes[2], 12) + lsmerge_xxh_rotl(lanes[3], 18);
    for (int i = 0; i < 4; i++)
        hash = lsmerge_xxh_fold(hash, lanes[i]);
    return hash;
}

static inline uint64_t lsmerge_xxh64(const uint8_t *data, size_t size, uint64_t seed) {
    uint64_t hash = seed + LSMERGE_XXH_P5;
    size_t left = size & 31;
    uint32_t half;
    if (size >= 32)
        hash = lsmerge_xxh_stripes(data, size, seed);
    hash += size;
    data += size - left;
    for (; left >= 8; data += 8, left -= 8) {
        hash ^= lsmerge_xxh_lane(0, data);
        hash = lsmerge_xxh_rotl(hash, 27) * LSMERGE_XXH_P1 + LSMERGE_XXH_P4;
    }
    if (left >= 4) {
        memcpy(&half, data, 4);
        hash ^= half * LSMERGE_XXH_P1;
        hash = lsmerge_xxh_rotl(hash, 23) * LSMERGE_XXH_P2 + LSMERGE_XXH_P3;
        data += 4;
        left -= 4;
    }
    for (; left > 0; data++, left--)
        hash = lsmerge_xxh_rotl(hash ^ (*data * LSMERGE_XXH_P5), 11) * LSMERGE_XXH_P1;
    hash = (hash ^ (hash >> 33)) * LSMERGE_XXH_P2;
    hash = (hash ^ (hash >> 29)) * LSMERGE_XXH_P3;
    return hash ^ (hash >> 32);
}

/* The hash of the first `size` bytes of an 8-byte word. */
static inline uint64_t lsmerge_xxh64_word(uint64_t word, size_t size) {
    if (size > 8)
        __builtin_unreachable();
    return lsmerge_xxh64((const uint8_t *)&word, size, 0);
}

#endif
