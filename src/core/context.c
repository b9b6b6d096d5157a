#include "core/core.h"

#include <stdio.h>
#include <string.h>

#include "core/parallel.h"

void vd_options_init(vd_options *options)
{
    memset(options, 0, sizeof *options);
}

static void *default_alloc(void *user, size_t size)
{
    (void)user;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void default_free(void *user, void *pointer)
{
    (void)user;
    free(pointer);
}

vd_status vd_open(const vd_options *options, vd_context **out)
{
    vd_options o;
    vd_options_init(&o);
    if (options)
        o = *options;
    if (!o.alloc || !o.free)
        o.alloc = default_alloc, o.free = default_free;
    *out = o.alloc(o.memory_user, sizeof **out);
    if (!*out)
        return VD_NO_MEMORY;
    memset(*out, 0, sizeof **out);
    (*out)->options = o;
    (*out)->threads = o.threads > 0 ? o.threads : vd_cpu_count();
    if (o.threads < 0 || o.threads > 1024) {
        (*out)->threads = 1;
        return vd_fail(*out, VD_BAD_ARGUMENT, "threads", "threads is %d; it must be 0 (one per CPU) to 1024", o.threads);
    }
    return VD_OK;
}

void vd_close(vd_context *ctx)
{
    if (ctx)
        ctx->options.free(ctx->options.memory_user, ctx);
}

const char *vd_error_text(const vd_context *ctx) { return ctx ? ctx->text : "out of memory"; }
const char *vd_error_reason(const vd_context *ctx) { return ctx ? ctx->reason : "no-memory"; }

void vd_clear_error(vd_context *ctx)
{
    ctx->status    = VD_OK;
    ctx->reason[0] = ctx->text[0] = 0;
}

const char *vd_status_name(vd_status status)
{
    switch (status) {
    case VD_OK: return "ok";
    case VD_FAILED: return "failed";
    case VD_BAD_ARGUMENT: return "bad-argument";
    case VD_BAD_FILE: return "bad-file";
    case VD_UNSUPPORTED: return "unsupported";
    case VD_NO_MEMORY: return "no-memory";
    case VD_IO: return "io";
    case VD_CANCELLED: return "cancelled";
    case VD_INTERNAL: return "internal";
    }
    return "unknown";
}

/* Names from files reach terminals: control bytes (ANSI escapes among them) are shown, never sent. */
static void copy_printable(char *to, size_t room, const char *from)
{
    size_t n = 0;
    for (; *from && n + 5 < room; from++) {
        const unsigned char c = (unsigned char)*from;
        if ((c < 32 && c != '\n') || c == 127)
            n += (size_t)snprintf(to + n, room - n, "\\x%02x", c);
        else
            to[n++] = (char)c;
    }
    to[n] = 0;
}

vd_status vd_fail(vd_context *ctx, vd_status status, const char *reason, const char *format, ...)
{
    if (ctx->status != VD_OK)
        return ctx->status;
    char    raw[sizeof ctx->text];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    ctx->status = status;
    snprintf(ctx->reason, sizeof ctx->reason, "%s", reason);
    copy_printable(ctx->text, sizeof ctx->text, raw);
    return status;
}

void vd_log(vd_context *ctx, vd_log_level level, const char *format, ...)
{
    if (!ctx->options.log)
        return;
    char    raw[1024], text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    copy_printable(text, sizeof text, raw);
    ctx->options.log(ctx->options.log_user, level, text);
}

vd_status vd_report_progress(vd_context *ctx, const char *what, int64_t done, int64_t total)
{
    if (ctx->options.progress && ctx->options.progress(ctx->options.progress_user, what, done, total) != 0)
        return vd_fail(ctx, VD_CANCELLED, "cancelled", "stopped on request at %s %lld of %lld; nothing was written", what, (long long)done, (long long)total);
    return VD_OK;
}

void *vd_alloc(vd_context *ctx, int64_t size, const char *what)
{
    void *p = NULL;
    if (size >= 0 && (uint64_t)size <= SIZE_MAX - 64)
        p = ctx->options.alloc(ctx->options.memory_user, size ? (size_t)size : 1);
    if (!p) {
        vd_fail(ctx, VD_NO_MEMORY, "no-memory", "no memory for %s: %lld bytes were needed", what, (long long)size);
        return NULL;
    }
    return memset(p, 0, size ? (size_t)size : 1);
}

void *vd_realloc(vd_context *ctx, void *old, int64_t old_size, int64_t new_size, const char *what)
{
    void *p = vd_alloc(ctx, new_size, what);
    if (p && old)
        memcpy(p, old, (size_t)vd_min(old_size, new_size));
    if (p)
        vd_free(ctx, old);
    return p;
}

void vd_free(vd_context *ctx, void *pointer)
{
    if (pointer)
        ctx->options.free(ctx->options.memory_user, pointer);
}

char *vd_copy_string(vd_context *ctx, const char *text)
{
    const size_t size = strlen(text) + 1;
    char        *copy = vd_alloc(ctx, (int64_t)size, "a string");
    return copy ? memcpy(copy, text, size) : NULL;
}

char *vd_format(vd_context *ctx, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int size = vsnprintf(NULL, 0, format, args);
    char     *text = size < 0 ? NULL : vd_alloc(ctx, size + 1, "a string");
    if (text)
        vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

const char *vd_dtype_name(vd_dtype type)
{
    static const char *const names[VD_DTYPE_COUNT] = {
        [VD_F32] = "F32", [VD_BF16] = "BF16", [VD_F16] = "F16", [VD_F64] = "F64", [VD_I8] = "I8", [VD_U8] = "U8", [VD_I16] = "I16", [VD_U16] = "U16",
        [VD_I32] = "I32", [VD_U32] = "U32", [VD_I64] = "I64", [VD_U64] = "U64", [VD_BOOL] = "BOOL", [VD_F8_E4M3] = "F8_E4M3", [VD_F8_E5M2] = "F8_E5M2",
    };
    return (unsigned)type < VD_DTYPE_COUNT ? names[type] : "?";
}

int64_t vd_dtype_size(vd_dtype type)
{
    static const uint8_t sizes[VD_DTYPE_COUNT] = {
        [VD_F32] = 4, [VD_BF16] = 2, [VD_F16] = 2, [VD_F64] = 8, [VD_I8] = 1, [VD_U8] = 1, [VD_I16] = 2, [VD_U16] = 2,
        [VD_I32] = 4, [VD_U32] = 4, [VD_I64] = 8, [VD_U64] = 8, [VD_BOOL] = 1, [VD_F8_E4M3] = 1, [VD_F8_E5M2] = 1,
    };
    return (unsigned)type < VD_DTYPE_COUNT ? sizes[type] : 0;
}
