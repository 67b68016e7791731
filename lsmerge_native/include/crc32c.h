/* CRC-32C (Castagnoli), reflected, as in RFC 3720: polynomial 0x1EDC6F41.
 *
 * crc32c_extend(crc, p, n) continues a finished checksum, so that
 * extend(extend(0, a), b) == extend(0, a followed by b).
 *
 * Two ways to the same value: the SSE4.2 instruction over three interleaved lanes (it has a latency
 * of three cycles and a throughput of one), or eight table look-ups per eight bytes.
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

static int crc32c_prepare_hardware(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("pclmul"))
        return 0;
    crc32c_long_shift.past_one = crc32c_shift_factor(CRC32C_LONG);
    crc32c_long_shift.past_two = crc32c_shift_factor(2 * CRC32C_LONG);
    crc32c_short_shift.past_one = crc32c_shift_factor(CRC32C_SHORT);
    crc32c_short_shift.past_two = crc32c_shift_factor(2 * CRC32C_SHORT);
    crc32c_extend = crc32c_hardware;
    return 1;
}

#else

static int crc32c_prepare_hardware(void) { return 0; }

#endif

static void crc32c_prepare(void) {
    crc32c_fill_tables();
    if (!crc32c_prepare_hardware())
        crc32c_extend = crc32c_software;
}

#endif
