/* Asks for huge pages: touching fresh memory for the first time costs a fault per page, which for
 * large results takes longer than filling them. A hint only; where it is unknown nothing happens. */
#ifndef LSMERGE_HUGE_PAGES_H
#define LSMERGE_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

/* Smaller blocks are recycled by the allocator, with pages that have been touched before; larger
 * ones glibc always maps anew. */
#define HUGE_PAGES_FROM_BYTES ((size_t)32 << 20)

static inline void advise_huge_pages(void *block, size_t nbytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t page = 4096;
    uintptr_t start = ((uintptr_t)block + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)block + nbytes) & ~(page - 1);
    if (block != NULL && nbytes >= HUGE_PAGES_FROM_BYTES)
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
#else
    (void)block;
    (void)nbytes;
#endif
}

#endif
