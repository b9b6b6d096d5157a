/* Canonical text of JSON values. jansson prints too, but the digits of its numbers depend on its version. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/file.h"
#include "formats/json.h"

typedef struct printer {
    vd_context *ctx;
    char       *text;
    int64_t     size, room;
    bool        indent, failed;
} printer;

static void put(printer *p, const char *text, int64_t size)
{
    if (!p->failed && p->size + size >= p->room) {
        const int64_t room = 2 * (p->size + size) + 256;
        char         *more = vd_realloc(p->ctx, p->text, p->size, room, "JSON text");
        p->failed = !more;
        if (more) {
            p->text = more;
            p->room = room;
        }
    }
    if (p->failed)
        return;
    memcpy(p->text + p->size, text, (size_t)size);
    p->size += size;
    p->text[p->size] = 0;
}

static void put_text(printer *p, const char *text) { put(p, text, (int64_t)strlen(text)); }

static void put_string(printer *p, const char *s, size_t size)
{
    put_text(p, "\"");
    size_t from = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)
            continue;
        char escape[8];
        const char *named = c == '"' ? "\\\"" : c == '\\' ? "\\\\" : c == '\n' ? "\\n" : c == '\t' ? "\\t" : c == '\r' ? "\\r" : NULL;
        snprintf(escape, sizeof escape, "\\u%04x", c);
        put(p, s + from, (int64_t)(i - from));
        put_text(p, named ? named : escape);
        from = i + 1;
    }
    put(p, s + from, (int64_t)(size - from));
    put_text(p, "\"");
}

static void put_real(printer *p, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.'; /* a host may have set a locale with a decimal comma */
    if (!strpbrk(text, ".e"))
        strcat(text, ".0"); /* stays a real when read back */
    put_text(p, text);
}

static void put_line(printer *p, int depth)
{
    if (!p->indent)
        return;
    put_text(p, "\n");
    for (int i = 0; i < depth; i++)
        put_text(p, "  ");
}

/* Short arrays of plain values stay on one line: shapes, pairs, rows. */
static bool is_plain(const json_t *array)
{
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        if (json_is_array(v) || json_is_object(v) || (json_is_string(v) && json_string_length(v) > 24))
            return false;
    }
    return json_array_size(array) <= 16;
}

static void put_value(printer *p, const json_t *value, int depth)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: {
        const char *key;
        json_t     *member;
        bool        first = true;
        put_text(p, "{");
        json_object_foreach((json_t *)(uintptr_t)value, key, member) {
            put_text(p, first ? "" : ",");
            put_line(p, depth + 1);
            put_string(p, key, strlen(key));
            put_text(p, p->indent ? ": " : ":");
            put_value(p, member, depth + 1);
            first = false;
        }
        if (!first)
            put_line(p, depth);
        put_text(p, "}");
        break;
    }
    case JSON_ARRAY: {
        const bool plain = is_plain(value);
        put_text(p, "[");
        for (size_t i = 0; i < json_array_size(value); i++) {
            put_text(p, i ? p->indent && plain ? ", " : "," : "");
            if (!plain)
                put_line(p, depth + 1);
            put_value(p, json_array_get(value, i), depth + 1);
        }
        if (!plain)
            put_line(p, depth);
        put_text(p, "]");
        break;
    }
    case JSON_STRING: put_string(p, json_string_value(value), json_string_length(value)); break;
    case JSON_INTEGER: {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        put_text(p, text);
        break;
    }
    case JSON_REAL: put_real(p, json_real_value(value)); break;
    case JSON_TRUE: put_text(p, "true"); break;
    case JSON_FALSE: put_text(p, "false"); break;
    case JSON_NULL: put_text(p, "null"); break;
    }
}

char *vd_json_print(vd_context *ctx, const json_t *value, bool indent, int64_t *size)
{
    printer p = {.ctx = ctx, .indent = indent};
    put_value(&p, value, 0);
    if (indent)
        put_text(&p, "\n");
    if (p.failed) {
        vd_free(ctx, p.text);
        return NULL;
    }
    if (size)
        *size = p.size;
    return p.text;
}

vd_status vd_json_write(vd_context *ctx, const char *path, const json_t *value)
{
    int64_t size = 0;
    char   *text = vd_json_print(ctx, value, true, &size);
    if (!text)
        return VD_NO_MEMORY;
    const vd_status status = vd_file_write_atomic(ctx, path, text, size);
    vd_free(ctx, text);
    return status;
}
