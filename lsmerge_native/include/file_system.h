/* Which kind of file system a file is on; those that are not known are of no kind. */
#ifndef LSMERGE_FILE_SYSTEM_H
#define LSMERGE_FILE_SYSTEM_H

#include <sys/vfs.h>

enum file_system {
    FILE_SYSTEM_UNKNOWN, /* networks among others */
    FILE_SYSTEM_DISK,
    FILE_SYSTEM_UNTOLD, /* on a disk, but not every change of its directories is told */
    FILE_SYSTEM_MEMORY,
};

static inline enum file_system file_system_of(int file) {
    struct statfs status;
    if (fstatfs(file, &status) != 0)
        return FILE_SYSTEM_UNKNOWN;
    switch ((unsigned long)status.f_type) {
    case 0xEF53:     /* ext2, ext3, ext4 */
    case 0x58465342: /* XFS */
    case 0x9123683E: /* Btrfs */
    case 0xF2F52010: /* F2FS */
        return FILE_SYSTEM_DISK;
    case 0x2FC12FC1: /* ZFS */
    case 0x794C7630: /* overlayfs, which containers have */
        return FILE_SYSTEM_UNTOLD;
    case 0x01021994: /* tmpfs */
        return FILE_SYSTEM_MEMORY;
    }
    return FILE_SYSTEM_UNKNOWN;
}

#endif
