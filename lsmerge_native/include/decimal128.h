/* Arithmetic on the unscaled values of Arrow's decimal128, for little-endian machines.
 *
 * Results are exact or rounded half-up, which is away from zero on a tie. Every operation returns
 * whether its result fits: its magnitude is below `limit`, a power of ten. If it does not, or if a
 * divisor is zero, the accumulator is left as it was.
 */
#ifndef LSMERGE_DECIMAL128_H
#define LSMERGE_DECIMAL128_H

#include <stdbool.h>
#include <stdint.h>

/* Arrow promises an alignment of 8 bytes only. */
typedef __int128 lsmerge_decimal __attribute__((aligned(8)));
typedef unsigned __int128 lsmerge_u128;

/* An unsigned number of 256 bits. */
typedef struct {
    lsmerge_u128 high, low;
} lsmerge_u256;

static inline lsmerge_decimal lsmerge_power_of_ten(int exponent) {
    lsmerge_decimal power = 1;
    while (exponent-- > 0)
        power *= 10;
    return power;
}

static inline lsmerge_u128 lsmerge_magnitude(lsmerge_decimal value) {
    return value < 0 ? -(lsmerge_u128)value : (lsmerge_u128)value;
}

static inline lsmerge_u256 lsmerge_multiply(lsmerge_u128 a, lsmerge_u128 b) {
    uint64_t a_high = (uint64_t)(a >> 64), a_low = (uint64_t)a;
    uint64_t b_high = (uint64_t)(b >> 64), b_low = (uint64_t)b;
    lsmerge_u128 low = (lsmerge_u128)a_low * b_low;
    lsmerge_u128 cross = (lsmerge_u128)a_low * b_high + (low >> 64); /* cannot overflow */
    lsmerge_u128 other = (lsmerge_u128)a_high * b_low + (uint64_t)cross;
    lsmerge_u256 product = {
        (lsmerge_u128)a_high * b_high + (cross >> 64) + (other >> 64),
        other << 64 | (uint64_t)low,
    };
    return product;
}

/* Quotient, rounded down, and remainder. Requires: high < divisor, so that the quotient fits, and
 * divisor <= 2^127, so that twice a remainder does.
 */
static inline lsmerge_u128 lsmerge_divide(lsmerge_u256 dividend, lsmerge_u128 divisor,
                                          lsmerge_u128 *remainder) {
    lsmerge_u128 quotient = 0, rest = dividend.high;
    if (rest == 0) {
        *remainder = dividend.low % divisor;
        return dividend.low / divisor;
    }
    if (divisor >> 64 == 0) { /* two digits of 64 bits */
        rest = rest << 64 | dividend.low >> 64;
        quotient = rest / divisor << 64;
        rest = rest % divisor << 64 | (uint64_t)dividend.low;
        *remainder = rest % divisor;
        return quotient | rest / divisor;
    }
    for (int bit = 127; bit >= 0; bit--) {
        rest = rest << 1 | (dividend.low >> bit & 1);
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= (lsmerge_u128)1 << bit;
        }
    }
    *remainder = rest;
    return quotient;
}

/* *total = a * b / divisor, where all three are magnitudes. */
static inline bool lsmerge_scale(lsmerge_u128 a, lsmerge_u128 b, lsmerge_u128 divisor,
                                 bool negative, lsmerge_decimal limit, lsmerge_decimal *total) {
    lsmerge_u256 product = lsmerge_multiply(a, b);
    lsmerge_u128 quotient, rest;
    bool round_up;
    if (product.high >= divisor)
        return false;
    quotient = lsmerge_divide(product, divisor, &rest);
    round_up = rest >= divisor - rest;
    if (quotient >= (lsmerge_u128)limit - round_up)
        return false;
    quotient += round_up;
    *total = negative ? -(lsmerge_decimal)quotient : (lsmerge_decimal)quotient;
    return true;
}

static inline bool lsmerge_decimal_add(lsmerge_decimal *total, lsmerge_decimal value,
                                       lsmerge_decimal limit) {
    __int128 sum;
    if (__builtin_add_overflow((__int128)*total, (__int128)value, &sum) || sum >= limit ||
        sum <= -limit)
        return false;
    *total = sum;
    return true;
}

static inline bool lsmerge_decimal_subtract(lsmerge_decimal *total, lsmerge_decimal value,
                                            lsmerge_decimal limit) {
    __int128 difference;
    if (__builtin_sub_overflow((__int128)*total, (__int128)value, &difference) ||
        difference >= limit || difference <= -limit)
        return false;
    *total = difference;
    return true;
}

/* `unit` is the unscaled value of 1. */
static inline bool lsmerge_decimal_multiply(lsmerge_decimal *total, lsmerge_decimal value,
                                            lsmerge_decimal unit, lsmerge_decimal limit) {
    return lsmerge_scale(lsmerge_magnitude(*total), lsmerge_magnitude(value), unit,
                         (*total < 0) != (value < 0), limit, total);
}

/* Requires: value is not zero. */
static inline bool lsmerge_decimal_divide(lsmerge_decimal *total, lsmerge_decimal value,
                                          lsmerge_decimal unit, lsmerge_decimal limit) {
    return lsmerge_scale(lsmerge_magnitude(*total), unit, lsmerge_magnitude(value),
                         (*total < 0) != (value < 0), limit, total);
}

#endif
