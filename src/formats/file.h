/* Files: mapping and reading what strangers made, and writing so that a file appears whole or not at all.
 *
 * Only regular files are read (a link to one is fine, as download caches lay them out): a pipe would block, a device never ends.
 * Reasons: no-such-file, no-permission, read-failed (VD_IO); not-a-file (VD_BAD_FILE).
 */
#ifndef VD_FILE_H
#define VD_FILE_H

#include "core/core.h"

/* ---- Reading ---- */

/* A whole file, mapped read-only; a file of 0 bytes has data NULL. If the file is shortened while mapped, touching the lost pages raises
 * SIGBUS: a library cannot take that signal from its host. */
typedef struct vd_mapping {
    const uint8_t *data;
    int64_t        size;
} vd_mapping;

vd_status vd_file_map(vd_context *ctx, const char *path, vd_mapping *out);
void      vd_file_unmap(vd_mapping *map); /* a zeroed mapping is legal */

/* A whole small file in memory of its own, a zero byte behind it. More than `limit` bytes: VD_BAD_FILE with `reason`. */
vd_status vd_file_read(vd_context *ctx, const char *path, int64_t limit, const char *reason, char **text, int64_t *size);

typedef enum vd_path_kind { VD_PATH_NONE, VD_PATH_FILE, VD_PATH_FOLDER, VD_PATH_OTHER } vd_path_kind;

/* What lies at `path`, links followed: a dangling link is VD_PATH_OTHER; VD_PATH_NONE also when the path cannot be walked. */
vd_path_kind vd_path_find(const char *path);
/* "folder/name" in memory of its own; "name" alone when the folder is empty. */
char        *vd_path_join(vd_context *ctx, const char *folder, const char *name);
/* The folder of a path, in memory of its own: "a/b" → "a", "b" → ".". */
char        *vd_path_folder(vd_context *ctx, const char *path);
const char  *vd_path_name(const char *path); /* behind the last slash */
bool         vd_text_ends(const char *text, const char *end);

/* Names in a folder for which keep(name) holds, ascending; at most 10,000 of them. Free with vd_names_free. */
typedef struct vd_names {
    char  **names;
    int64_t count, room;
} vd_names;

vd_status vd_folder_list(vd_context *ctx, const char *folder, bool (*keep)(const char *name), vd_names *out);
vd_status vd_names_add(vd_context *ctx, vd_names *names, const char *name); /* copies it */
void      vd_names_free(vd_context *ctx, vd_names *names);

/* A name from a file, quoted and shortened for a message: names can be megabytes long. Lives to the end of the expression that calls it. */
typedef struct vd_quoted { char text[208]; } vd_quoted;
vd_quoted vd_quote(const char *name);
/* The first 12 names of a list and how many more there are: "a", "b" and 3 more. */
typedef struct vd_listed { char text[760]; } vd_listed;
vd_listed vd_list_names(const char *const *names, int64_t count);

/* ---- Writing ---- */

/* A file that is being written: beside the target under a temporary name, renamed over it at commit. A target that is a link, a folder or
 * any other thing but a regular file is refused (reason output-path), so nothing is ever written through a link into somebody's model. */
typedef struct vd_writer vd_writer;

/* expected: the final size if it is known, else 0; when the file system has not that much room, this fails before the first byte. */
vd_status vd_writer_open(vd_context *ctx, const char *path, int64_t expected, vd_writer **out);
vd_status vd_writer_put(vd_context *ctx, vd_writer *writer, const void *data, int64_t size);
/* Syncs, renames and frees; on failure nothing is left behind. */
vd_status vd_writer_commit(vd_context *ctx, vd_writer *writer);
/* Removes what was written and frees. NULL is legal. */
void      vd_writer_abandon(vd_context *ctx, vd_writer *writer);

vd_status vd_file_write_atomic(vd_context *ctx, const char *path, const void *data, int64_t size);

/* May `writes` be written by something that reads `reads`? To be asked before the work; entries that are NULL are passed over. An output that
 * is one of the files read, whatever name leads there, and what vd_writer_open refuses is VD_IO; two outputs that are one file are
 * VD_BAD_ARGUMENT (reason output-path). Nothing stays on the disk. */
vd_status vd_outputs_check(vd_context *ctx, const char *const *writes, int64_t write_count, const char *const *reads, int64_t read_count);

/* A text for each path, all or none of them. Entries whose path is NULL are passed over. */
typedef struct vd_text_file {
    const char *path, *text;
    int64_t     size;
} vd_text_file;

vd_status vd_files_write_atomic(vd_context *ctx, const vd_text_file *files, int64_t count);

#endif
