#include "formats/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/json.h"

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : S_ISSOCK(mode) ? "a socket" : "no regular file";
}

static vd_status fail_open(vd_context *ctx, const char *path, int error)
{
    struct stat info;
    char        why[128] = "";
    strerror_r(error, why, sizeof why);
    if (error == ELOOP)
        return vd_fail(ctx, VD_BAD_FILE, "not-a-file", "%s is a link that leads back to itself; a file is needed", path);
    if (error == ENOENT && lstat(path, &info) == 0 && S_ISLNK(info.st_mode))
        return vd_fail(ctx, VD_BAD_FILE, "not-a-file", "%s is a link to a file that is not there; fetch the file that it points to", path);
    if (error == ENOENT || error == ENOTDIR)
        return vd_fail(ctx, VD_IO, "no-such-file", "%s does not exist; check the path", path);
    if (error == EACCES || error == EPERM)
        return vd_fail(ctx, VD_IO, "no-permission", "%s may not be read: %s", path, why);
    if (error == ENOMEM)
        return vd_fail(ctx, VD_NO_MEMORY, "no-memory", "%s cannot be opened: no memory", path);
    return vd_fail(ctx, VD_IO, "read-failed", "%s cannot be opened: %s", path, why);
}

/* Opens a regular file; the kind is looked at before opening (opening a device can act on it) and again after (it may have been replaced). */
static vd_status open_file(vd_context *ctx, const char *path, int *fd, int64_t *size)
{
    struct stat info;
    *fd = -1;
    if (stat(path, &info) != 0)
        return fail_open(ctx, path, errno);
    if (S_ISREG(info.st_mode)) {
        *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (*fd < 0 || fstat(*fd, &info) != 0) {
            const int error = errno;
            if (*fd >= 0)
                close(*fd);
            return fail_open(ctx, path, error);
        }
    }
    if (!S_ISREG(info.st_mode)) {
        if (*fd >= 0)
            close(*fd);
        return vd_fail(ctx, VD_BAD_FILE, "not-a-file", "%s is %s; a file is needed", path, kind_of(info.st_mode));
    }
    *size = (int64_t)info.st_size;
    return VD_OK;
}

vd_status vd_file_map(vd_context *ctx, const char *path, vd_mapping *out)
{
    int fd;
    *out = (vd_mapping){0};
    vd_status status = open_file(ctx, path, &fd, &out->size);
    if (status != VD_OK || out->size == 0) {
        if (status == VD_OK)
            close(fd);
        return status;
    }
    void *data = (uint64_t)out->size <= SIZE_MAX ? mmap(NULL, (size_t)out->size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED) {
        const int error = errno;
        char      why[128] = "";
        strerror_r(error, why, sizeof why);
        status = vd_fail(ctx, error == ENOMEM ? VD_NO_MEMORY : VD_IO, error == ENOMEM ? "no-memory" : "read-failed",
                         "%s cannot be mapped: its %lld bytes need that much address space (ulimit -v): %s", path, (long long)out->size, why);
        *out = (vd_mapping){0};
    } else {
        out->data = data;
    }
    close(fd);
    return status;
}

void vd_file_unmap(vd_mapping *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, (size_t)map->size);
    *map = (vd_mapping){0};
}

vd_status vd_file_read(vd_context *ctx, const char *path, int64_t limit, const char *reason, char **text, int64_t *size)
{
    int fd;
    *text = NULL;
    vd_status status = open_file(ctx, path, &fd, size);
    if (status != VD_OK)
        return status;
    if (*size > limit)
        status = vd_fail(ctx, VD_BAD_FILE, reason, "%s has %lld bytes; a file of this kind has at most %lld", path, (long long)*size, (long long)limit);
    else if (!(*text = vd_alloc(ctx, *size + 1, path)))
        status = VD_NO_MEMORY;
    for (int64_t done = 0; status == VD_OK && done < *size;) {
        const ssize_t got = read(fd, *text + done, (size_t)(*size - done));
        if (got > 0)
            done += got;
        else if (got == 0 || errno != EINTR)
            status = vd_fail(ctx, VD_IO, "read-failed", "%s: reading stopped after %lld of %lld bytes: %s", path, (long long)done, (long long)*size,
                             got == 0 ? "it was shortened meanwhile" : "the device reports an error");
    }
    close(fd);
    if (status != VD_OK) {
        vd_free(ctx, *text);
        *text = NULL;
    }
    return status;
}

vd_path_kind vd_path_find(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return lstat(path, &info) == 0 ? VD_PATH_OTHER : VD_PATH_NONE;
    return S_ISREG(info.st_mode) ? VD_PATH_FILE : S_ISDIR(info.st_mode) ? VD_PATH_FOLDER : VD_PATH_OTHER;
}

char *vd_path_join(vd_context *ctx, const char *folder, const char *name)
{
    const size_t n = strlen(folder);
    return vd_format(ctx, "%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

char *vd_path_folder(vd_context *ctx, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? vd_format(ctx, "%.*s", slash == path ? 1 : (int)(slash - path), path) : vd_copy_string(ctx, ".");
}

const char *vd_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool vd_text_ends(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

vd_status vd_names_add(vd_context *ctx, vd_names *names, const char *name)
{
    if (names->count == names->room) {
        const int64_t room = names->room ? 2 * names->room : 16, one = (int64_t)sizeof(char *);
        char        **more = vd_realloc(ctx, names->names, names->room * one, room * one, "a list of names");
        if (!more)
            return VD_NO_MEMORY;
        names->names = more;
        names->room  = room;
    }
    char *copy = vd_copy_string(ctx, name);
    if (!copy)
        return VD_NO_MEMORY;
    names->names[names->count++] = copy;
    return VD_OK;
}

void vd_names_free(vd_context *ctx, vd_names *names)
{
    for (int64_t i = 0; i < names->count; i++)
        vd_free(ctx, names->names[i]);
    vd_free(ctx, names->names);
    *names = (vd_names){0};
}

vd_status vd_folder_list(vd_context *ctx, const char *folder, bool (*keep)(const char *name), vd_names *out)
{
    vd_status status = VD_OK;
    *out = (vd_names){0};
    DIR *dir = opendir(folder);
    if (!dir)
        return fail_open(ctx, folder, errno);
    for (struct dirent *entry; status == VD_OK && out->count < 10000 && (entry = readdir(dir));)
        if (keep(entry->d_name))
            status = vd_names_add(ctx, out, entry->d_name);
    closedir(dir);
    if (status != VD_OK)
        vd_names_free(ctx, out);
    else if (out->count)
        qsort(out->names, (size_t)out->count, sizeof *out->names, compare_names);
    return status;
}

/* Cuts never fall inside a UTF-8 character: continuation bytes at the cut are dropped with their first byte. */
static size_t cut_at(const char *name, size_t size)
{
    while (size && ((unsigned char)name[size] & 0xc0) == 0x80)
        size--;
    return size;
}

/* Control bytes are shown, line ends too: a name must not be able to forge a second line of a message. So are bytes that are not UTF-8, as
 * messages go into JSON. */
vd_quoted vd_quote(const char *name)
{
    vd_quoted    q    = {"\""};
    const size_t size = strlen(name), shown = size <= 160 ? size : cut_at(name, 120);
    size_t       used = 1, i = 0;
    const int64_t fault = vd_utf8_find_fault(name, (int64_t)size);
    for (; i < shown && used < sizeof q.text - 40; i++) {
        const unsigned char c = (unsigned char)name[i];
        if (c < 32 || c == 127 || (c >= 128 && fault >= 0 && (int64_t)i >= fault))
            used += (size_t)snprintf(q.text + used, sizeof q.text - used, "\\x%02x", c);
        else
            q.text[used++] = (char)c;
    }
    if (i < size) {
        while (used > 1 && ((unsigned char)name[i] & 0xc0) == 0x80) {
            i--; /* not inside a character */
            used--;
        }
        snprintf(q.text + used, sizeof q.text - used, "…\" (%zu bytes)", size);
    } else {
        snprintf(q.text + used, sizeof q.text - used, "\"");
    }
    return q;
}

vd_listed vd_list_names(const char *const *names, int64_t count)
{
    vd_listed list = {""};
    size_t    used = 0;
    int64_t   i    = 0;
    for (; i < count && i < 12; i++) {
        const vd_quoted q = vd_quote(names[i]);
        if (used + strlen(q.text) + 32 > sizeof list.text)
            break;
        used += (size_t)snprintf(list.text + used, sizeof list.text - used, "%s%s", i ? ", " : "", q.text);
    }
    if (i < count)
        snprintf(list.text + used, sizeof list.text - used, " and %lld more", (long long)(count - i));
    return list;
}
