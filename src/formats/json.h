/* JSON: strict reading and canonical writing, over jansson.
 *
 * Reading refuses what jansson refuses with JSON_REJECT_DUPLICATES (comments, trailing commas, NaN, text behind the value, the same key
 * twice after escapes are resolved, numbers beyond 64 bits), and before jansson allocates anything: text that is not UTF-8, a byte-order
 * mark, more than VD_JSON_DEPTH levels, and more than VD_JSON_VALUES values (a hundred megabytes of "[]," would become gigabytes).
 * jansson's own memory does not come from the context's allocator: it has one allocator for the whole process, which is the host's to set.
 */
#ifndef VD_JSON_H
#define VD_JSON_H

#include <jansson.h>

#include "core/core.h"

enum { VD_JSON_DEPTH = 64, VD_JSON_VALUES = 3000000 };

/* The words that failures get, per kind of file; depth, duplicates and NUL in a key are "json-depth", "duplicate-name", "bad-name". */
typedef struct vd_json_reasons {
    const char *syntax, *utf8, *number;
} vd_json_reasons;

/* Parses one value; strings may hold \u0000 (keys may not), so compare lengths (vd_json_is_text). The caller gives *out to json_decref. */
vd_status vd_json_parse(vd_context *ctx, const char *file, const char *text, int64_t size, const vd_json_reasons *reasons, json_t **out);
/* Reads a file of at most `limit` bytes that holds one JSON object; every failure of the text has the reason `syntax`, but depth,
 * duplicates and NUL in a key. */
vd_status vd_json_read(vd_context *ctx, const char *path, int64_t limit, const char *syntax, json_t **out);

/* Is it a string, without NUL? Then its text, else NULL. */
const char *vd_json_text(const json_t *value);

/* Members of an object of the file `file`. Absent: PREFIX-missing-key; of another type: PREFIX-type; outside [least, most]: PREFIX-range. */
typedef struct vd_json_in {
    vd_context *ctx;
    const char *file;   /* for messages */
    const char *prefix; /* of reasons: "config", "case", … */
} vd_json_in;

vd_status vd_json_member(const vd_json_in *in, const json_t *object, const char *key, json_t **out);
vd_status vd_json_integer_of(const vd_json_in *in, const json_t *object, const char *key, int64_t least, int64_t most, int64_t *out);
vd_status vd_json_number_of(const vd_json_in *in, const json_t *object, const char *key, double least, double most, double *out);
vd_status vd_json_text_of(const vd_json_in *in, const json_t *object, const char *key, const char **out); /* lives as long as the object */
vd_status vd_json_object_of(const vd_json_in *in, const json_t *object, const char *key, json_t **out);
vd_status vd_json_array_of(const vd_json_in *in, const json_t *object, const char *key, json_t **out);
vd_status vd_json_boolean_of(const vd_json_in *in, const json_t *object, const char *key, bool *out);
const char *vd_json_kind(const json_t *value); /* "a string", "null", … */

/* The text of a value: keys in the order of insertion, two spaces of indentation (indent false: one line without spaces), numbers in the
 * fewest digits that read back equal, ASCII control characters escaped, other characters as they are. Same value, same bytes. */
char     *vd_json_print(vd_context *ctx, const json_t *value, bool indent, int64_t *size);
/* The text and a line end, whole or not at all (file.h). */
vd_status vd_json_write(vd_context *ctx, const char *path, const json_t *value);

/* The offset of the first byte that is not UTF-8 (overlong forms and surrogates are not), or -1. */
int64_t vd_utf8_find_fault(const char *text, int64_t size);

#endif
