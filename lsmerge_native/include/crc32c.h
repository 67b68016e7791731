/* CRC-32C (Castagnoli), reflected, as in RFC 3720: polynomial 0x1EDC6F41.
 *
 * crc32c_extend(crc, p, n) continues a finished checksum, so that
 * extend(extend(0, a), b) == extend(0, a followed by b).
 *
 * Four ways to the same value: eight table look-ups per eight bytes; the SSE4.2 instruction over
 * three interleaved lanes (it has a latency of three cycles and a throughput of one); that
 * instruction and carry-less products of 32 bytes (AVX2 with VPCLMULQDQ) side by side, each on one
 * half of the data, since a processor has different units for them; and products of 64 bytes
 * (AVX-512), which are faster than memory.
 * crc32c_prepare() fills the tables and chooses; it must have run before anything else here does.
 */
#ifndef LSMERGE_CRC32C_H
#define LSMERGE_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lsmerge reads and writes little-endian words in place"
#endif

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define LSMERGE_CRC32C_X86 1
#include <immintrin.h>
#endif

#define CRC32C_REFLECTED 0x82F63B78u

static uint32_t crc32c_tables[8][256];

typedef uint32_t (*crc32c_fn)(uint32_t crc, const unsigned char *p, size_t n);
static crc32c_fn crc32c_extend;

/* What this processor can do, the fastest last. */
static crc32c_fn crc32c_ways[4];
static int crc32c_num_ways;

static inline uint64_t crc32c_load64(const unsigned char *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* crc(x) * x mod P, where bit 0 of a reflected value is its highest power. */
static inline uint32_t crc32c_times_x(uint32_t crc) {
    return (crc >> 1) ^ (CRC32C_REFLECTED & (0u - (crc & 1u)));
}

static uint32_t crc32c_software(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t word;
    crc = ~crc;
    for (; n >= 8; p += 8, n -= 8) {
        word = crc32c_load64(p) ^ crc;
        crc = crc32c_tables[7][word & 0xff] ^ crc32c_tables[6][(word >> 8) & 0xff] ^
              crc32c_tables[5][(word >> 16) & 0xff] ^ crc32c_tables[4][(word >> 24) & 0xff] ^
              crc32c_tables[3][(word >> 32) & 0xff] ^ crc32c_tables[2][(word >> 40) & 0xff] ^
              crc32c_tables[1][(word >> 48) & 0xff] ^ crc32c_tables[0][word >> 56];
    }
    for (; n > 0; p++, n--)
        crc = (crc >> 8) ^ crc32c_tables[0][(crc ^ *p) & 0xff];
    return ~crc;
}

static void crc32c_fill_tables(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc32c_times_x(crc);
        crc32c_tables[0][byte] = crc;
    }
    for (int distance = 1; distance < 8; distance++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = crc32c_tables[distance - 1][byte];
            crc32c_tables[distance][byte] = (crc >> 8) ^ crc32c_tables[0][crc & 0xff];
        }
}

#ifdef LSMERGE_CRC32C_X86

/* Lane lengths in bytes, multiples of 8: long lanes make joining cheap, short ones serve the rest. */
#define CRC32C_LONG 1024
#define CRC32C_SHORT 128

typedef struct {
    uint64_t past_one; /* moves a checksum past one lane of zeros */
    uint64_t past_two;
} crc32c_lane_shift;

static crc32c_lane_shift crc32c_long_shift, crc32c_short_shift;

/* The factor that moves a checksum past `bytes` zeros: x^(8 * bytes - 33) mod P. The missing 33
 * powers come with its use: 1 from the carry-less product of two reflected 32-bit values, read as a
 * reflected 64-bit one, and 32 from the crc instruction that reduces that product. */
static uint64_t crc32c_shift_factor(size_t bytes) {
    uint32_t factor = 0x80000000u; /* x^0 */
    for (size_t power = 8 * bytes - 33; power > 0; power--)
        factor = crc32c_times_x(factor);
    return factor;
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t crc32c_product(uint64_t a,
                                                                              uint64_t b) {
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)a), _mm_cvtsi64_si128((long long)b), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

/* Three lanes of `lane` bytes at p; crc is the raw (not inverted) state before and after. */
__attribute__((target("sse4.2,pclmul"))) static inline uint64_t crc32c_three_lanes(
    uint64_t crc, const unsigned char *p, size_t lane, const crc32c_lane_shift *shift) {
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < lane; i += 8) {
        first = _mm_crc32_u64(first, crc32c_load64(p + i));
        second = _mm_crc32_u64(second, crc32c_load64(p + lane + i));
        third = _mm_crc32_u64(third, crc32c_load64(p + 2 * lane + i));
    }
    uint64_t moved =
        crc32c_product(first, shift->past_two) ^ crc32c_product(second, shift->past_one);
    return _mm_crc32_u64(0, moved) ^ third;
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32c_hardware(uint32_t crc,
                                                                        const unsigned char *p,
                                                                        size_t n) {
    uint64_t state = (uint32_t)~crc;
    for (; n >= 3 * CRC32C_LONG; p += 3 * CRC32C_LONG, n -= 3 * CRC32C_LONG)
        state = crc32c_three_lanes(state, p, CRC32C_LONG, &crc32c_long_shift);
    for (; n >= 3 * CRC32C_SHORT; p += 3 * CRC32C_SHORT, n -= 3 * CRC32C_SHORT)
        state = crc32c_three_lanes(state, p, CRC32C_SHORT, &crc32c_short_shift);
    for (; n >= 8; p += 8, n -= 8)
        state = _mm_crc32_u64(state, crc32c_load64(p));
    for (; n > 0; p++, n--)
        state = _mm_crc32_u8((uint32_t)state, *p);
    return ~(uint32_t)state;
}

/* Bytes folded at once, and at least how many make that worth its beginning and end. */
#define CRC32C_FOLD 256
#define CRC32C_FOLD_MIN 1024

/* The factors that move 16 bytes past so many bytes of data: of their first 8 bytes, which are 8
 * farther from the end, and of their last 8. */
typedef struct {
    uint64_t first;
    uint64_t last;
} crc32c_fold_factors;

static crc32c_fold_factors crc32c_far_fold, crc32c_near_fold;

static crc32c_fold_factors crc32c_factors_past(size_t bytes) {
    crc32c_fold_factors factors = {crc32c_shift_factor(bytes + 8), crc32c_shift_factor(bytes)};
    return factors;
}

#define CRC32C_FOLDING target("avx512f,avx512vl,vpclmulqdq,sse4.2,pclmul")

__attribute__((CRC32C_FOLDING)) static inline __m512i crc32c_broadcast(
    const crc32c_fold_factors *factors) {
    return _mm512_broadcast_i32x4(
        _mm_set_epi64x((long long)factors->last, (long long)factors->first));
}

/* What `state` adds up to, as far away as `factors` say, and `next` there. */
__attribute__((CRC32C_FOLDING)) static inline __m512i crc32c_fold(__m512i state, __m512i factors,
                                                                 __m512i next) {
    __m512i first = _mm512_clmulepi64_epi128(state, factors, 0x00);
    __m512i last = _mm512_clmulepi64_epi128(state, factors, 0x11);
    return _mm512_ternarylogic_epi64(first, last, next, 0x96); /* exclusive or of three */
}

/* Four times 64 bytes stand for all that came before them: they have the same remainder. */
__attribute__((CRC32C_FOLDING)) static uint32_t crc32c_folded(uint32_t crc, const unsigned char *p,
                                                             size_t n) {
    if (n < CRC32C_FOLD_MIN)
        return crc32c_hardware(crc, p, n);
    const __m512i far = crc32c_broadcast(&crc32c_far_fold);
    const __m512i near = crc32c_broadcast(&crc32c_near_fold);
    /* Of the first 64 bytes; gcc has the cast that extends by zeros only since its version 10. */
    __m512i begun = _mm512_set_epi64(0, 0, 0, 0, 0, 0, 0, (long long)(uint32_t)~crc);
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p), begun);
    __m512i b = _mm512_loadu_si512(p + 64);
    __m512i c = _mm512_loadu_si512(p + 128);
    __m512i d = _mm512_loadu_si512(p + 192);
    for (p += CRC32C_FOLD, n -= CRC32C_FOLD; n >= CRC32C_FOLD; p += CRC32C_FOLD, n -= CRC32C_FOLD) {
        a = crc32c_fold(a, far, _mm512_loadu_si512(p));
        b = crc32c_fold(b, far, _mm512_loadu_si512(p + 64));
        c = crc32c_fold(c, far, _mm512_loadu_si512(p + 128));
        d = crc32c_fold(d, far, _mm512_loadu_si512(p + 192));
    }
    unsigned char rest[64];
    _mm512_storeu_si512(rest, crc32c_fold(crc32c_fold(crc32c_fold(a, near, b), near, c), near, d));
    uint64_t state = 0;
    for (size_t i = 0; i < sizeof rest; i += 8)
        state = _mm_crc32_u64(state, crc32c_load64(rest + i));
    return crc32c_hardware(~(uint32_t)state, p, n);
}

/* ---- the instruction and products of 32 bytes, side by side ---- */

/* A chunk is folded in its first half, and has four lanes of the instruction in its second. */
#define CRC32C_CHUNK 16384
#define CRC32C_LANE (CRC32C_CHUNK / 8)
#define CRC32C_PAIR_FOLD 128

static crc32c_fold_factors crc32c_pair_far_fold, crc32c_pair_near_fold;
static uint64_t crc32c_past_lanes[4]; /* past one to four lanes */

#define CRC32C_PAIRED target("avx2,vpclmulqdq,sse4.2,pclmul")

__attribute__((CRC32C_PAIRED)) static inline __m256i crc32c_pair_factors(
    const crc32c_fold_factors *factors) {
    return _mm256_broadcastsi128_si256(
        _mm_set_epi64x((long long)factors->last, (long long)factors->first));
}

__attribute__((CRC32C_PAIRED)) static inline __m256i crc32c_pair_fold(__m256i state,
                                                                     __m256i factors,
                                                                     __m256i next) {
    __m256i first = _mm256_clmulepi64_epi128(state, factors, 0x00);
    __m256i last = _mm256_clmulepi64_epi128(state, factors, 0x11);
    return _mm256_xor_si256(_mm256_xor_si256(first, last), next);
}

__attribute__((CRC32C_PAIRED)) static inline __m256i crc32c_load256(const unsigned char *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

/* The checksum of what four times 32 bytes stand for. */
__attribute__((CRC32C_PAIRED)) static inline uint64_t crc32c_pair_reduce(__m256i a, __m256i b,
                                                                        __m256i c, __m256i d) {
    const __m256i near = crc32c_pair_factors(&crc32c_pair_near_fold);
    unsigned char rest[32];
    uint64_t state = 0;
    a = crc32c_pair_fold(crc32c_pair_fold(crc32c_pair_fold(a, near, b), near, c), near, d);
    _mm256_storeu_si256((__m256i *)rest, a);
    for (size_t i = 0; i < sizeof rest; i += 8)
        state = _mm_crc32_u64(state, crc32c_load64(rest + i));
    return state;
}

/* One chunk at p; crc is the raw (not inverted) state before and after. */
__attribute__((CRC32C_PAIRED)) static inline uint64_t crc32c_paired_chunk(
    uint64_t crc, const unsigned char *p) {
    const __m256i far = crc32c_pair_factors(&crc32c_pair_far_fold);
    const unsigned char *lanes = p + CRC32C_CHUNK / 2;
    const unsigned char *end = lanes;
    uint64_t first = 0, second = 0, third = 0, fourth = 0;
    __m256i begun = _mm256_set_epi64x(0, 0, 0, (long long)crc);
    __m256i a = _mm256_xor_si256(crc32c_load256(p), begun);
    __m256i b = crc32c_load256(p + 32);
    __m256i c = crc32c_load256(p + 64);
    __m256i d = crc32c_load256(p + 96);
    for (p += CRC32C_PAIR_FOLD; p < end; p += CRC32C_PAIR_FOLD, lanes += 32) {
        a = crc32c_pair_fold(a, far, crc32c_load256(p));
        b = crc32c_pair_fold(b, far, crc32c_load256(p + 32));
        c = crc32c_pair_fold(c, far, crc32c_load256(p + 64));
        d = crc32c_pair_fold(d, far, crc32c_load256(p + 96));
        for (size_t i = 0; i < 32; i += 8) {
            first = _mm_crc32_u64(first, crc32c_load64(lanes + i));
            second = _mm_crc32_u64(second, crc32c_load64(lanes + CRC32C_LANE + i));
            third = _mm_crc32_u64(third, crc32c_load64(lanes + 2 * CRC32C_LANE + i));
            fourth = _mm_crc32_u64(fourth, crc32c_load64(lanes + 3 * CRC32C_LANE + i));
        }
    }
    /* The lanes began one turn later than the products. */
    for (size_t i = 0; i < 32; i += 8) {
        first = _mm_crc32_u64(first, crc32c_load64(lanes + i));
        second = _mm_crc32_u64(second, crc32c_load64(lanes + CRC32C_LANE + i));
        third = _mm_crc32_u64(third, crc32c_load64(lanes + 2 * CRC32C_LANE + i));
        fourth = _mm_crc32_u64(fourth, crc32c_load64(lanes + 3 * CRC32C_LANE + i));
    }
    uint64_t moved = crc32c_product(crc32c_pair_reduce(a, b, c, d), crc32c_past_lanes[3]) ^
                     crc32c_product(first, crc32c_past_lanes[2]) ^
                     crc32c_product(second, crc32c_past_lanes[1]) ^
                     crc32c_product(third, crc32c_past_lanes[0]);
    return _mm_crc32_u64(0, moved) ^ fourth;
}

__attribute__((CRC32C_PAIRED)) static uint32_t crc32c_paired(uint32_t crc, const unsigned char *p,
                                                            size_t n) {
    uint64_t state = (uint32_t)~crc;
    for (; n >= CRC32C_CHUNK; p += CRC32C_CHUNK, n -= CRC32C_CHUNK)
        state = crc32c_paired_chunk(state, p);
    return crc32c_hardware(~(uint32_t)state, p, n);
}

static void crc32c_prepare_hardware(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return;
    crc32c_long_shift.past_one = crc32c_shift_factor(CRC32C_LONG);
    crc32c_long_shift.past_two = crc32c_shift_factor(2 * CRC32C_LONG);
    crc32c_short_shift.past_one = crc32c_shift_factor(CRC32C_SHORT);
    crc32c_short_shift.past_two = crc32c_shift_factor(2 * CRC32C_SHORT);
    crc32c_ways[crc32c_num_ways++] = crc32c_hardware;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("vpclmulqdq"))
        return;
    crc32c_pair_far_fold = crc32c_factors_past(CRC32C_PAIR_FOLD);
    crc32c_pair_near_fold = crc32c_factors_past(32);
    for (size_t lanes = 1; lanes <= 4; lanes++)
        crc32c_past_lanes[lanes - 1] = crc32c_shift_factor(lanes * CRC32C_LANE);
    crc32c_ways[crc32c_num_ways++] = crc32c_paired;
    if (!__builtin_cpu_supports("avx512vl"))
        return;
    crc32c_far_fold = crc32c_factors_past(CRC32C_FOLD);
    crc32c_near_fold = crc32c_factors_past(64);
    crc32c_ways[crc32c_num_ways++] = crc32c_folded;
}

#else

static void crc32c_prepare_hardware(void) {}

#endif

static void crc32c_prepare(void) {
    crc32c_fill_tables();
    crc32c_ways[crc32c_num_ways++] = crc32c_software;
    crc32c_prepare_hardware();
    crc32c_extend = crc32c_ways[crc32c_num_ways - 1];
}

#endif
