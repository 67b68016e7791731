/* Files in the address space of the process, and which file systems they may be on for that. */
#ifndef LSMERGE_FILE_MAPPING_H
#define LSMERGE_FILE_MAPPING_H

#include <stddef.h>
#include <sys/mman.h>

/* How many there are in this process: one module includes this. */
static long file_mappings;

/* The first bytes of a file, to be read; NULL and errno if that is not to be had. */
static inline void *file_map(int file, size_t nbytes) {
    void *address = mmap(NULL, nbytes, PROT_READ, MAP_SHARED, file, 0);
    if (address == MAP_FAILED)
        return NULL;
    __atomic_add_fetch(&file_mappings, 1, __ATOMIC_RELAXED);
    return address;
}

static inline void file_unmap(void *address, size_t nbytes) {
    (void)munmap(address, nbytes);
    __atomic_sub_fetch(&file_mappings, 1, __ATOMIC_RELAXED);
}

static inline long file_num_mappings(void) {
    return __atomic_load_n(&file_mappings, __ATOMIC_RELAXED);
}

#if defined(__linux__)

#include "file_system.h"

/* Whether a file is on a disk of this machine: neither in memory nor on a network. */
static inline int file_is_on_disk(int file) {
    enum file_system kind = file_system_of(file);
    return kind == FILE_SYSTEM_DISK || kind == FILE_SYSTEM_UNTOLD;
}

#else

static inline int file_is_on_disk(int file) {
    (void)file;
    return 0;
}

#endif

#endif
