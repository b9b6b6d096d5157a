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

/* ---- Several outputs ---- */

static bool same_inode(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

/* One name in one folder, or two names of one file. */
static vd_status compare_outputs(vd_context *ctx, const char *a, const char *b)
{
    struct stat of_a, of_b;
    char       *in_a = vd_path_folder(ctx, a), *in_b = in_a ? vd_path_folder(ctx, b) : NULL;
    vd_status   status = in_b ? VD_OK : VD_NO_MEMORY;
    if (status == VD_OK && strcmp(vd_path_name(a), vd_path_name(b)) == 0 &&
        (strcmp(in_a, in_b) == 0 || (stat(in_a, &of_a) == 0 && stat(in_b, &of_b) == 0 && same_inode(&of_a, &of_b))))
        status = vd_fail(ctx, VD_BAD_ARGUMENT, "output-path", "%s and %s are one file, which would be written twice; give every output its own", a, b);
    if (status == VD_OK && lstat(a, &of_a) == 0 && lstat(b, &of_b) == 0 && same_inode(&of_a, &of_b))
        status = vd_fail(ctx, VD_BAD_ARGUMENT, "output-path", "%s and %s are one file, which would be written twice; give every output its own", a, b);
    vd_free(ctx, in_a);
    vd_free(ctx, in_b);
    return status;
}

vd_status vd_outputs_check(vd_context *ctx, const char *const *writes, int64_t write_count, const char *const *reads, int64_t read_count)
{
    struct stat out, in;
    vd_writer  *writer;
    for (int64_t i = 0; i < write_count; i++) {
        if (!writes[i])
            continue;
        for (int64_t k = 0; stat(writes[i], &out) == 0 && k < read_count; k++)
            if (reads[k] && stat(reads[k], &in) == 0 && same_inode(&out, &in))
                return vd_fail(ctx, VD_IO, "output-path", "%s is %s, which is read here; nothing is written there. Name another output", writes[i], reads[k]);
        for (int64_t k = 0; k < i; k++)
            if (writes[k] && compare_outputs(ctx, writes[k], writes[i]) != VD_OK)
                return ctx->status;
        if (vd_writer_open(ctx, writes[i], 0, &writer) != VD_OK)
            return ctx->status;
        vd_writer_abandon(ctx, writer);
    }
    return VD_OK;
}

vd_status vd_files_write_atomic(vd_context *ctx, const vd_text_file *files, int64_t count)
{
    vd_status   status  = VD_OK;
    int64_t     written = 0;
    vd_writer **writers = vd_alloc(ctx, count * (int64_t)sizeof *writers, "writers");
    if (!writers)
        return VD_NO_MEMORY;
    for (int64_t i = 0; status == VD_OK && i < count; i++)
        if (files[i].path && (status = vd_writer_open(ctx, files[i].path, files[i].size, &writers[i])) == VD_OK)
            status = vd_writer_put(ctx, writers[i], files[i].text, files[i].size);
    for (; status == VD_OK && written < count; written++)
        if (writers[written]) {
            status           = vd_writer_commit(ctx, writers[written]); /* frees it either way */
            writers[written] = NULL;
        }
    for (int64_t i = 0; i < count; i++)
        vd_writer_abandon(ctx, writers[i]);
    /* Where even a rename fails, the last one counted is the one that failed: what came before it goes too. */
    for (int64_t i = 0; status != VD_OK && i + 1 < written; i++)
        if (files[i].path)
            unlink(files[i].path);
    vd_free(ctx, writers);
    return status;
}
