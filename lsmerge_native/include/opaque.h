/* A number of which the compiler knows nothing: it makes jumps of comparisons whose outcomes belong
 * together, and where these are coin tosses every other jump is guessed wrongly. */
#ifndef LSMERGE_OPAQUE_H
#define LSMERGE_OPAQUE_H

#include <stdint.h>

static inline intptr_t opaque(intptr_t value) {
#if defined(__GNUC__) || defined(__clang__)
    __asm__("" : "+r"(value));
#endif
    return value;
}

#endif
