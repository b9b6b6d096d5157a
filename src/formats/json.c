#include "formats/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "formats/file.h"

int64_t vd_utf8_find_fault(const char *text, int64_t size)
{
    const uint8_t *s = (const uint8_t *)text;
    for (int64_t i = 0; i < size;) {
        const uint8_t c = s[i];
        if (c < 0x80) {
            i++;
            continue;
        }
        const int      more  = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        const uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
        uint32_t       point = c & (0x3f >> more);
        if (c < 0xc2 || c > 0xf4 || size - i <= more)
            return i;
        for (int k = 1; k <= more; k++) {
            if ((s[i + k] & 0xc0) != 0x80)
                return i;
            point = point << 6 | (s[i + k] & 0x3f);
        }
        if (point < least || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff))
            return i;
        i += more + 1;
    }
    return -1;
}

/* Counts levels and values before jansson builds any. Where the text is malformed the counts may be off, but up to the first fault, where
 * jansson stops, they hold. */
static vd_status check_bounds(vd_context *ctx, const char *file, const char *text, int64_t size)
{
    int64_t depth = 0, values = 1;
    bool    quoted = false;
    for (int64_t i = 0; i < size; i++) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > VD_JSON_DEPTH)
                return vd_fail(ctx, VD_BAD_FILE, "json-depth", "%s: JSON nested deeper than %d levels at byte %lld; no file of this kind needs that", file,
                               VD_JSON_DEPTH, (long long)i);
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            values++;
        }
        if (values > VD_JSON_VALUES)
            return vd_fail(ctx, VD_BAD_FILE, "json-size", "%s: JSON of more than %d values; no file of this kind needs that", file, VD_JSON_VALUES);
    }
    return VD_OK;
}

static vd_status fail_syntax(vd_context *ctx, const char *file, const json_error_t *error, const vd_json_reasons *reasons)
{
    const char *reason = reasons->syntax;
    /* jansson words some allocation failures as faults of the text, or not at all; malloc's errno tells them apart. */
    if (!error->text[0] || errno == ENOMEM)
        return vd_fail(ctx, VD_NO_MEMORY, "no-memory", "%s: no memory for its JSON", file);
    switch (json_error_code(error)) {
    case json_error_out_of_memory: return vd_fail(ctx, VD_NO_MEMORY, "no-memory", "%s: no memory for its JSON", file);
    case json_error_invalid_utf8: reason = reasons->utf8; break;
    case json_error_numeric_overflow: reason = reasons->number; break;
    case json_error_stack_overflow: reason = "json-depth"; break;
    case json_error_duplicate_key: reason = "duplicate-name"; break;
    case json_error_null_byte_in_key: reason = "bad-name"; break;
    default: break;
    }
    return vd_fail(ctx, VD_BAD_FILE, reason, "%s: %s at byte %d of the JSON, line %d", file, vd_quote(error->text).text, error->position,
                   error->line);
}

vd_status vd_json_parse(vd_context *ctx, const char *file, const char *text, int64_t size, const vd_json_reasons *reasons, json_t **out)
{
    *out = NULL;
    /* Padding is dropped first: a header may hold a hundred megabytes of it. */
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) && text[size - 1])
        size--;
    if (size == 0)
        return vd_fail(ctx, VD_BAD_FILE, reasons->syntax, "%s: no JSON, the text is empty", file);
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        return vd_fail(ctx, VD_BAD_FILE, reasons->syntax, "%s: a byte-order mark before the JSON; save it as UTF-8 without one", file);
    const int64_t fault = vd_utf8_find_fault(text, size);
    if (fault >= 0)
        return vd_fail(ctx, VD_BAD_FILE, reasons->utf8, "%s: not valid UTF-8 at byte %lld of the JSON (byte 0x%02x)", file, (long long)fault,
                       (unsigned)(uint8_t)text[fault]);
    vd_status status = check_bounds(ctx, file, text, size);
    if (status != VD_OK)
        return status;
    json_error_t error;
    errno = 0;
    *out = json_loadb(text, (size_t)size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    return *out ? VD_OK : fail_syntax(ctx, file, &error, reasons);
}

vd_status vd_json_read(vd_context *ctx, const char *path, int64_t limit, const char *syntax, json_t **out)
{
    const vd_json_reasons reasons = {syntax, syntax, syntax};
    char   *text;
    int64_t size;
    *out = NULL;
    vd_status status = vd_file_read(ctx, path, limit, syntax, &text, &size);
    if (status == VD_OK)
        status = vd_json_parse(ctx, path, text, size, &reasons, out);
    if (status == VD_OK && !json_is_object(*out)) {
        status = vd_fail(ctx, VD_BAD_FILE, syntax, "%s: the JSON is %s; an object is needed", path, vd_json_kind(*out));
        json_decref(*out);
        *out = NULL;
    }
    vd_free(ctx, text);
    return status;
}

const char *vd_json_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

const char *vd_json_kind(const json_t *value)
{
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number with a point or exponent";
    case JSON_TRUE: case JSON_FALSE: return "a boolean";
    case JSON_NULL: break;
    }
    return "null";
}

static vd_status fail_member(const vd_json_in *in, const char *what, const char *key, const json_t *value, const char *needed)
{
    char reason[48];
    snprintf(reason, sizeof reason, "%s-%s", in->prefix, what);
    if (!value)
        return vd_fail(in->ctx, VD_BAD_FILE, reason, "%s: key %s is missing; %s is needed", in->file, vd_quote(key).text, needed);
    return vd_fail(in->ctx, VD_BAD_FILE, reason, "%s: key %s is %s; %s is needed", in->file, vd_quote(key).text, vd_json_kind(value), needed);
}

static vd_status find_typed(const vd_json_in *in, const json_t *object, const char *key, bool (*fits)(const json_t *), const char *needed, json_t **out)
{
    *out = json_object_get(object, key);
    if (!*out)
        return fail_member(in, "missing-key", key, NULL, needed);
    return fits(*out) ? VD_OK : fail_member(in, "type", key, *out, needed);
}

static bool is_anything(const json_t *v) { return v != NULL; }
static bool is_integer(const json_t *v) { return json_is_integer(v); }
static bool is_number(const json_t *v) { return json_is_number(v); }
static bool is_text(const json_t *v) { return vd_json_text(v) != NULL; }
static bool is_object(const json_t *v) { return json_is_object(v); }
static bool is_array(const json_t *v) { return json_is_array(v); }
static bool is_boolean(const json_t *v) { return json_is_boolean(v); }

vd_status vd_json_member(const vd_json_in *in, const json_t *object, const char *key, json_t **out)
{
    return find_typed(in, object, key, is_anything, "a value", out);
}

vd_status vd_json_integer_of(const vd_json_in *in, const json_t *object, const char *key, int64_t least, int64_t most, int64_t *out)
{
    json_t   *value;
    vd_status status = find_typed(in, object, key, is_integer, "an integer", &value);
    if (status != VD_OK)
        return status;
    *out = json_integer_value(value);
    if (*out >= least && *out <= most)
        return VD_OK;
    char reason[48];
    snprintf(reason, sizeof reason, "%s-range", in->prefix);
    return vd_fail(in->ctx, VD_BAD_FILE, reason, "%s: %s is %lld; it must be %lld to %lld", in->file, key, (long long)*out, (long long)least, (long long)most);
}

vd_status vd_json_number_of(const vd_json_in *in, const json_t *object, const char *key, double least, double most, double *out)
{
    json_t   *value;
    vd_status status = find_typed(in, object, key, is_number, "a number", &value);
    if (status != VD_OK)
        return status;
    *out = json_number_value(value);
    if (*out >= least && *out <= most)
        return VD_OK;
    char reason[48];
    snprintf(reason, sizeof reason, "%s-range", in->prefix);
    return vd_fail(in->ctx, VD_BAD_FILE, reason, "%s: %s is %.17g; it must be %.17g to %.17g", in->file, key, *out, least, most);
}

vd_status vd_json_text_of(const vd_json_in *in, const json_t *object, const char *key, const char **out)
{
    json_t   *value;
    vd_status status = find_typed(in, object, key, is_text, "a string", &value);
    *out = status == VD_OK ? vd_json_text(value) : NULL;
    return status;
}

vd_status vd_json_object_of(const vd_json_in *in, const json_t *object, const char *key, json_t **out)
{
    return find_typed(in, object, key, is_object, "an object", out);
}

vd_status vd_json_array_of(const vd_json_in *in, const json_t *object, const char *key, json_t **out)
{
    return find_typed(in, object, key, is_array, "an array", out);
}

vd_status vd_json_boolean_of(const vd_json_in *in, const json_t *object, const char *key, bool *out)
{
    json_t   *value;
    vd_status status = find_typed(in, object, key, is_boolean, "a boolean", &value);
    *out = status == VD_OK && json_is_true(value);
    return status;
}
