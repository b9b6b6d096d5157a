/* Writing aside, then renaming. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "formats/file.h"

struct vd_writer {
    int     fd;
    int64_t written;
    char   *path;      /* the target */
    char   *aside;     /* the temporary name, in the same folder: rename does not cross file systems */
    char   *folder;
};

static vd_status fail_write(vd_context *ctx, const vd_writer *w, const char *doing, int error)
{
    char why[128] = "";
    strerror_r(error, why, sizeof why);
    if (error == ENOSPC || error == EDQUOT)
        return vd_fail(ctx, VD_IO, "disk-full", "%s: no room left after %lld bytes while %s; nothing was kept. Free some space or write elsewhere",
                       w->path, (long long)w->written, doing);
    return vd_fail(ctx, VD_IO, "write-failed", "%s: %s failed after %lld bytes: %s; nothing was kept", w->path, doing, (long long)w->written, why);
}

/* The target must be absent or a regular file that is not reached through a link. */
static vd_status check_target(vd_context *ctx, const char *path)
{
    struct stat info;
    if (!*path || path[strlen(path) - 1] == '/')
        return vd_fail(ctx, VD_IO, "output-path", "\"%s\" is not the name of a file; give one", path);
    if (lstat(path, &info) != 0) {
        if (errno == ENOENT)
            return VD_OK;
        char why[128] = "";
        strerror_r(errno, why, sizeof why);
        return vd_fail(ctx, VD_IO, "output-path", "%s cannot be written: %s", path, why);
    }
    if (S_ISREG(info.st_mode))
        return VD_OK;
    return vd_fail(ctx, VD_IO, "output-path", "%s is %s; nothing is written there. Remove it, or give another path", path,
                   S_ISLNK(info.st_mode) ? "a link, and outputs never follow one" : S_ISDIR(info.st_mode) ? "a folder" : "no regular file");
}

static vd_status check_room(vd_context *ctx, const char *path, const char *folder, int64_t expected)
{
    struct statvfs disk;
    if (expected <= 0 || statvfs(folder, &disk) != 0)
        return VD_OK;
    const double free_bytes = (double)disk.f_bavail * (double)disk.f_frsize;
    if (disk.f_blocks && free_bytes < (double)expected)
        return vd_fail(ctx, VD_IO, "disk-full", "%s needs %lld bytes; its file system has %.0f left. Free some space or write elsewhere", path,
                       (long long)expected, free_bytes);
    return VD_OK;
}

static void writer_free(vd_context *ctx, vd_writer *w)
{
    vd_free(ctx, w->path);
    vd_free(ctx, w->aside);
    vd_free(ctx, w->folder);
    vd_free(ctx, w);
}

vd_status vd_writer_open(vd_context *ctx, const char *path, int64_t expected, vd_writer **out)
{
    *out = NULL;
    vd_status status = check_target(ctx, path);
    if (status != VD_OK)
        return status;
    vd_writer *w = vd_alloc(ctx, sizeof *w, "a writer");
    if (!w)
        return VD_NO_MEMORY;
    w->fd     = -1;
    w->path   = vd_copy_string(ctx, path);
    w->folder = vd_path_folder(ctx, path);
    status    = w->path && w->folder ? check_room(ctx, path, w->folder, expected) : VD_NO_MEMORY;

    /* The name only has to be free: O_EXCL makes sure, and never follows a link that somebody put there. */
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t mark = ((uint64_t)now.tv_sec << 30) ^ (uint64_t)now.tv_nsec ^ ((uint64_t)getpid() << 40);
    for (int attempt = 0; status == VD_OK && w->fd < 0; attempt++) {
        mark = mark * 6364136223846793005u + 1442695040888963407u;
        char *name = vd_format(ctx, ".verdit-%08x.tmp", (unsigned)(mark >> 32));
        vd_free(ctx, w->aside);
        w->aside = name ? vd_path_join(ctx, w->folder, name) : NULL;
        vd_free(ctx, name);
        if (!w->aside)
            status = VD_NO_MEMORY;
        else if ((w->fd = open(w->aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)) < 0 && (errno != EEXIST || attempt > 100))
            status = errno == ENOENT || errno == ENOTDIR
                         ? vd_fail(ctx, VD_IO, "output-path", "%s cannot be written: the folder %s does not exist", path, w->folder)
                         : fail_write(ctx, w, "creating a file beside it", errno);
    }
    if (status != VD_OK) {
        writer_free(ctx, w);
        return status;
    }
    *out = w;
    return VD_OK;
}

vd_status vd_writer_put(vd_context *ctx, vd_writer *w, const void *data, int64_t size)
{
    for (const char *p = data; size > 0;) {
        /* The system writes at most 2^31 bytes at a time. */
        const ssize_t put = write(w->fd, p, (size_t)vd_min(size, 1 << 30));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail_write(ctx, w, "writing", put < 0 ? errno : ENOSPC);
        p += put;
        size -= put;
        w->written += put;
    }
    return VD_OK;
}

void vd_writer_abandon(vd_context *ctx, vd_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    unlink(w->aside);
    writer_free(ctx, w);
}

vd_status vd_writer_commit(vd_context *ctx, vd_writer *w)
{
    vd_status status = VD_OK;
    if (fsync(w->fd) != 0 && errno != EINVAL)
        status = fail_write(ctx, w, "syncing", errno);
    const int closed = close(w->fd);
    w->fd = -1;
    if (status == VD_OK && closed != 0)
        status = fail_write(ctx, w, "closing", errno);
    if (status == VD_OK)
        status = check_target(ctx, w->path); /* it may have become a link meanwhile */
    if (status == VD_OK && rename(w->aside, w->path) != 0)
        status = fail_write(ctx, w, "renaming", errno);
    if (status != VD_OK) {
        vd_writer_abandon(ctx, w);
        return status;
    }
    /* The name itself reaches the disk with its folder; some file systems cannot sync folders, which is no failure of ours. */
    const int folder = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);
        close(folder);
    }
    writer_free(ctx, w);
    return VD_OK;
}

vd_status vd_file_write_atomic(vd_context *ctx, const char *path, const void *data, int64_t size)
{
    vd_writer *w;
    vd_status  status = vd_writer_open(ctx, path, size, &w);
    if (status != VD_OK)
        return status;
    status = vd_writer_put(ctx, w, data, size);
    if (status != VD_OK) {
        vd_writer_abandon(ctx, w);
        return status;
    }
    return vd_writer_commit(ctx, w);
}
