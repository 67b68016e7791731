/* Memory that runs out at a chosen allocation, of those that kernels make in Python's raw domain. */

#define _GNU_SOURCE
#include <Python.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <string.h>

/* This library, Python's call, and the kernel or an inlined function of it. */
#define FRAMES 6

static PyMemAllocatorEx real;
static long seen, fail_at;

/* Whether a kernel asks, and not the interpreter for itself. */
static int is_of_kernel(void)
{
    void *frames[FRAMES];
    Dl_info info;
    int count = backtrace(frames, FRAMES);
    for (int i = 1; i < count; i++)
        if (dladdr(frames[i], &info) && info.dli_fname && strstr(info.dli_fname, "lsmerge_native"))
            return 1;
    return 0;
}

static int fails(void)
{
    return is_of_kernel() && __sync_add_and_fetch(&seen, 1) == fail_at;
}

static void *fail_malloc(void *context, size_t size)
{
    return fails() ? NULL : real.malloc(context, size);
}

static void *fail_calloc(void *context, size_t count, size_t size)
{
    return fails() ? NULL : real.calloc(context, count, size);
}

/* From now on the n-th allocation fails; none if n is 0. */
void watch_allocations(long n)
{
    PyMemAllocatorEx failing;
    void *frames[1];
    backtrace(frames, 1); /* the first call loads a library, which allocates */
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &real);
    seen = 0;
    fail_at = n;
    failing = real;
    failing.malloc = fail_malloc;
    failing.calloc = fail_calloc;
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &failing);
}

/* End that, and tell how many there were. */
long end_watch(void)
{
    PyMem_SetAllocator(PYMEM_DOMAIN_RAW, &real);
    return seen;
}
