/* Names that come and go in directories, as the kernel tells them: inotify, where there is one.
 *
 * Only what this kernel does is told, so directories of file systems that others may change as well
 * are refused.
 */
#ifndef LSMERGE_DIRECTORY_EVENTS_H
#define LSMERGE_DIRECTORY_EVENTS_H

#if defined(__linux__)

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "file_system.h"

/* A queue of events, or -1. */
static inline int directory_events_open(void) { return inotify_init1(IN_NONBLOCK | IN_CLOEXEC); }

static inline int directory_is_local(int directory) {
    enum file_system kind = file_system_of(directory);
    return kind == FILE_SYSTEM_DISK || kind == FILE_SYSTEM_MEMORY;
}

/* Hear of a directory; 0, or -1 if that is not to be had. Again does no harm. */
static inline int directory_events_add(int queue, int directory) {
    char path[40];
    if (!directory_is_local(directory))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", directory);
    return inotify_add_watch(queue, path,
                             IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |
                                 IN_MOVE_SELF | IN_ONLYDIR) < 0
               ? -1
               : 0;
}

/* Whether something was told, also if that cannot be found out. */
static inline int directory_events_told(int queue) {
    int pending = 0;
    return ioctl(queue, FIONREAD, &pending) != 0 || pending != 0;
}

/* Forget what was told. */
static inline void directory_events_drain(int queue) {
    char events[4096] __attribute__((aligned(8)));
    while (read(queue, events, sizeof(events)) > 0 || errno == EINTR)
        ;
}

#else

static inline int directory_events_open(void) { return -1; }
static inline int directory_events_add(int queue, int directory) {
    (void)queue, (void)directory;
    return -1;
}
static inline int directory_events_told(int queue) {
    (void)queue;
    return 1;
}
static inline void directory_events_drain(int queue) { (void)queue; }

#endif

#endif
