/* SPDX-License-Identifier: MIT */
#include "migrate/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600

static int open_directory(struct snapshot_file *file, struct error *err)
{
    const char *slash = strrchr(file->path, '/');
    char directory[PATH_MAX] = ".";

    file->base = slash ? slash + 1 : file->path;
    if (!*file->base || strcmp(file->base, ".") == 0 || strcmp(file->base, "..") == 0)
        return error_set(err, EINVAL, "'%.200s' names no file", file->path);
    if (slash) {
        size_t length = slash == file->path ? 1 : (size_t)(slash - file->path);

        if (length >= sizeof(directory))
            return error_set(err, ENAMETOOLONG, "the file's name is too long");
        memcpy(directory, file->path, length);
        directory[length] = '\0';
    }
    file->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file->dir_fd < 0)
        return error_set(err, errno, "%.300s: %s", directory, strerror(errno));
    return 0;
}

static int make_temporary_name(struct snapshot_file *file, struct error *err)
{
    uint64_t number;

    if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
        return error_set(err, EIO, "getrandom: no random bytes for a temporary name");
    (void)snprintf(file->temporary, sizeof(file->temporary), ".pageferry-%016" PRIx64 ".tmp",
                   number);
    return 0;
}

int snapshot_file_create(struct snapshot_file *file, const char *path, struct error *err)
{
    struct stat info;
    int rc;

    *file = (struct snapshot_file){.path = path, .dir_fd = -1, .fd = -1};
    rc = open_directory(file, err);
    if (rc)
        return rc;
    if (fstatat(file->dir_fd, file->base, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISREG(info.st_mode))
        return error_set(err, EEXIST, "%.300s exists and is no regular file", path);
    /* Without a name it goes with us, even if we are killed. */
    file->fd = openat(file->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);
    if (file->fd >= 0)
        return 0;
    if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) {
        rc = make_temporary_name(file, err);
        if (rc)
            return rc;
        file->fd =
            openat(file->dir_fd, file->temporary, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, FILE_MODE);
    }
    if (file->fd < 0) {
        file->temporary[0] = '\0';
        return error_set(err, errno, "%.300s: cannot be created: %s", path, strerror(errno));
    }
    return 0;
}

int snapshot_file_write(const struct snapshot_file *file, const void *bytes, size_t length,
                        uint64_t offset, struct error *err)
{
    const uint8_t *from = bytes;

    while (length) {
        ssize_t n = pwrite(file->fd, from, length, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            int code = n < 0 ? errno : EIO;

            return error_set(err, code, "%.300s: writing at byte %" PRIu64 ": %s", file->path,
                             offset, strerror(code));
        }
        from += n;
        length -= (size_t)n;
        offset += (uint64_t)n;
    }
    return 0;
}

static int give_name(struct snapshot_file *file)
{
    char self[64];

    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    if (linkat(AT_FDCWD, self, file->dir_fd, file->temporary, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    file->temporary[0] = '\0'; /* never ours to remove */
    return -1;
}

int snapshot_file_commit(struct snapshot_file *file, struct error *err)
{
    int rc = 0;

    if (fsync(file->fd))
        return error_set(err, errno, "%.300s: fsync: %s", file->path, strerror(errno));
    if (!file->temporary[0]) {
        rc = make_temporary_name(file, err);
        if (!rc && give_name(file))
            rc = error_set(err, errno, "%.300s: cannot be named: %s", file->path, strerror(errno));
    }
    if (rc)
        return rc;
    if (renameat(file->dir_fd, file->temporary, file->dir_fd, file->base))
        return error_set(err, errno, "%.300s: cannot be put in place: %s", file->path,
                         strerror(errno));
    file->temporary[0] = '\0';
    /* EINVAL: a file system that has no such thing. */
    if (fsync(file->dir_fd) && errno != EINVAL)
        return error_set(err, errno, "%.300s is in place, but its directory's fsync failed: %s",
                         file->path, strerror(errno));
    return 0;
}

void snapshot_file_close(struct snapshot_file *file)
{
    if (file->temporary[0])
        (void)unlinkat(file->dir_fd, file->temporary, 0);
    file->temporary[0] = '\0';
    if (file->fd >= 0)
        (void)close(file->fd);
    if (file->dir_fd >= 0)
        (void)close(file->dir_fd);
    file->fd = file->dir_fd = -1;
}
